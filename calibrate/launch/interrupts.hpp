// Handles Ctrl-C during measurements. Programs use it that must clean up children, network
// namespaces or partial results before they end.
#pragma once

#include <string>

#include "core/output.hpp"

namespace lockstep {

constexpr int exit_interrupted = 130;  // 128 + SIGINT, as in shells

// Thrown by work that cannot continue because the user interrupted it.
class InterruptError : public ExitError {
 public:
  explicit InterruptError(const std::string& what = "interrupted")
      : ExitError(exit_interrupted, what) {}
};

// While an InterruptGuard exists, SIGINT, SIGTERM and SIGHUP only raise a flag. Guards may be
// nested; the last to be destroyed restores the handlers from before the first. Only the main
// thread may use them.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  static bool interrupted();
  static void throw_if_interrupted();  // InterruptError
  // A descriptor for poll(), readable from the first signal until the last guard is destroyed.
  static int descriptor();
};

}  // namespace lockstep
