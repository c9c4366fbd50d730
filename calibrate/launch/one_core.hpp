// Pins all threads of this process to one core for some time. Measurements of costs on a shared
// core use it.
#pragma once

#include <sched.h>

namespace lockstep {

int current_core();

// The constructor moves all threads to the core; threads that start later run on it too. The
// destructor moves all threads back to the cores that the calling thread was allowed to use. Throws
// std::runtime_error if there is no such core.
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
