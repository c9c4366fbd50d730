// Ctrl-C while measuring: the program must not just die, because it has children, network
// namespaces and partial results to put in order.
#pragma once

#include <stdexcept>

namespace lockstep {

// Thrown by what cannot go on because the user interrupted it.
class InterruptError : public std::runtime_error {
 public:
  InterruptError() : std::runtime_error("interrupted") {}
};

// While one of these exists, SIGINT, SIGTERM and SIGHUP only raise a flag. They may be nested; the
// last one to go restores the handlers found by the first. For the main thread.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  static bool interrupted();
  // Readable (poll) from the first signal on, until the last guard goes.
  static int descriptor();
};

}  // namespace lockstep
