// Free lists of memory blocks, one for each thread and each size (rounded up to units of 64 bytes).
// Blocks above 1984 bytes go to the global operator new. Blocks in a list are never returned to the
// system.
#include "engine/frames.hpp"

#include <array>
#include <new>
#include <utility>

namespace lockstep {

namespace {

// A free block: its first bytes point to the next free block of its size.
struct Frame {
  Frame* before;
};

constexpr std::size_t unit = 64;
#ifdef __SANITIZE_ADDRESS__
constexpr std::size_t sizes = 0;  // nothing is stored, so that the sanitizer finds uses after free
#else
constexpr std::size_t sizes = 32;
#endif
// Heads of the lists, by number of units.
thread_local std::array<Frame*, sizes> kept{};

std::size_t units_of(std::size_t bytes) {
  return (bytes + unit - 1) / unit;
}

}  // namespace

void* take_frame(std::size_t bytes) {
  const std::size_t units = units_of(bytes);
  if (units >= kept.size() || kept[units] == nullptr) return ::operator new(unit* units);
  return std::exchange(kept[units], kept[units]->before);
}

void keep_frame(void* frame, std::size_t bytes) noexcept {
  const std::size_t units = units_of(bytes);
  if (units >= kept.size()) {
    ::operator delete(frame);
  } else {
    kept[units] = new (frame) Frame{kept[units]};
  }
}

}  // namespace lockstep
