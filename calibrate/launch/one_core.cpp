#include "launch/one_core.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace lockstep {

namespace {

// Linux knows the cores of threads, not of processes. A thread that ends meanwhile is no error.
bool move_all_threads(const cpu_set_t& cores) {
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    const int id = std::stoi(thread.path().filename().string());
    if (::sched_setaffinity(id, sizeof cores, &cores) != 0 && errno != ESRCH) return false;
  }
  return true;
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
  if (::sched_getaffinity(0, sizeof before_, &before_) != 0 || !move_all_threads(one)) {
    throw std::runtime_error(fmt::format("cannot move to core {}: {}", core, std::strerror(errno)));
  }
}

OnOneCore::~OnOneCore() {
  (void)move_all_threads(before_);
}

}  // namespace lockstep
