// Handles Ctrl-C during measurements. Use it if a program has children, network namespaces or
// partial results to clean up before it ends.
#pragma once

#include <string>

#include "core/output.hpp"

namespace lockstep {

constexpr int exit_interrupted = 130;  // 128 + SIGINT, as shells have it

// Thrown by work that cannot continue because the user interrupted it.
class InterruptError : public ExitError {
 public:
  explicit InterruptError(const std::string& what = "interrupted")
      : ExitError(exit_interrupted, what) {}
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
  static void throw_if_interrupted();  // InterruptError
  // Readable (poll) from the first signal on, until the last guard goes.
  static int descriptor();
};

}  // namespace lockstep
