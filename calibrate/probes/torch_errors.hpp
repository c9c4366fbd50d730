// Converts LibTorch's exceptions to the exceptions that the probes' headers document. Includes c10,
// so only .cpp files may include it.
#pragma once

#include <c10/util/Exception.h>

#include <new>
#include <string>

#include "probes/layers.hpp"

namespace lockstep {

// Returns the result of `body`. Converts exceptions of LibTorch to OutOfDeviceMemory or
// std::runtime_error.
template <class Body>
auto with_plain_errors(const Body& body) {
  try {
    return body();
  } catch (const c10::Error& error) {
    // LibTorch 1.13 has no special exception for the CPU allocator, so the message is searched.
    const std::string message = error.what_without_backtrace();
    if (message.find("out of memory") != std::string::npos ||
        message.find("can't allocate memory") != std::string::npos) {
      throw OutOfDeviceMemory(message);
    }
    throw std::runtime_error(message);
  } catch (const std::bad_alloc&) {
    throw OutOfDeviceMemory("the host has no memory left");
  }
}

}  // namespace lockstep
