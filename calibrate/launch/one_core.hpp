// Pins all threads of this process to one core for a while. Used to measure costs on a shared core.
#pragma once

#include <sched.h>

namespace lockstep {

int current_core();

// Moves all threads to the core; threads that are started meanwhile follow. The destructor moves
// them back to the cores that the calling thread was allowed to use. Throws std::runtime_error: no
// such core.
class OnOneCore {
 public:
  explicit OnOneCore(int core);
  ~OnOneCore();
  OnOneCore(const OnOneCore&) = delete;
  OnOneCore& operator=(const OnOneCore&) = delete;

 private:
  cpu_set_t before_;
};

}  // namespace lockstep
