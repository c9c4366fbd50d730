// Free lists of coroutine frames, by size and thread.
#include "engine/frames.hpp"

#include <array>
#include <new>
#include <utility>

namespace lockstep {

namespace {

struct Frame {
  Frame* before;
};

constexpr std::size_t unit = 64;
#ifdef __SANITIZE_ADDRESS__
constexpr std::size_t sizes = 0;  // so that a frame that is gone is seen to be used
#else
constexpr std::size_t sizes = 32;
#endif
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
