// Frames of programs. Nearly every message begins one: their frames are kept, by size, for the next
// ones of the same thread.
#pragma once

#include <cstddef>

namespace lockstep {

void* take_frame(std::size_t bytes);
void keep_frame(void* frame, std::size_t bytes) noexcept;  // as many as it was taken with

}  // namespace lockstep
