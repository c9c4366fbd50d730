// Moves all threads of the process by sched_setaffinity(2), thread by thread (/proc/self/task),
// because Linux assigns cores to threads, not to processes. Threads that start later inherit the
// core of the thread that starts them.
#include "launch/one_core.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <system_error>

namespace lockstep {

namespace {

// Moves all threads; returns 0 or errno. A thread that has ended in the meantime is no error.
int move_all_threads(const cpu_set_t& cores) {
  std::error_code error;
  std::filesystem::directory_iterator threads("/proc/self/task", error), end;
  for (; !error && threads != end; threads.increment(error)) {
    const int id = std::atoi(threads->path().filename().c_str());
    if (::sched_setaffinity(id, sizeof cores, &cores) != 0 && errno != ESRCH) return errno;
  }
  return error.value();
}

}  // namespace

int current_core() {
  return ::sched_getcpu();
}

OnOneCore::OnOneCore(int core) {
  CPU_ZERO(&before_);
  cpu_set_t one;
  CPU_ZERO(&one);
  if (core >= 0 && core < CPU_SETSIZE) CPU_SET(core, &one);
  int error = ::sched_getaffinity(0, sizeof before_, &before_) == 0 ? 0 : errno;
  if (error == 0 && (error = move_all_threads(one)) != 0) (void)move_all_threads(before_);
  if (error != 0) {
    throw std::runtime_error(fmt::format("cannot move to core {}: {}", core, std::strerror(error)));
  }
}

OnOneCore::~OnOneCore() {
  (void)move_all_threads(before_);
}

}  // namespace lockstep
