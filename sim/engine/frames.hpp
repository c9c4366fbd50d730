// An allocator for coroutine frames and event states, because nearly every simulated message
// allocates both. Freed blocks are stored by size and reused by the same thread.
#pragma once

#include <cstddef>

namespace lockstep {

// Returns memory for `bytes` bytes.
void* take_frame(std::size_t bytes);
// Returns a block to the allocator.
// REQUIRES: the block was taken with the same number of bytes.
void keep_frame(void* frame, std::size_t bytes) noexcept;

// A standard allocator that uses these two functions, for containers of the engine.
template <typename Kept>
struct FrameAllocator {
  using value_type = Kept;
  FrameAllocator() = default;
  template <typename Other>
  FrameAllocator(const FrameAllocator<Other>&) {}
  Kept* allocate(std::size_t count) { return static_cast<Kept*>(take_frame(count * sizeof(Kept))); }
  void deallocate(Kept* kept, std::size_t count) { keep_frame(kept, count * sizeof(Kept)); }
  bool operator==(const FrameAllocator&) const = default;
};

}  // namespace lockstep
