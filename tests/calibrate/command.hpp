// One run of lockstep-calibrate or another program, with a folder for all its files. Use it in
// tests of command lines. The destructor terminates a program that still runs.
#pragma once

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "launch/processes.hpp"

namespace lockstep {

inline std::string text_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class Command {
 public:
  // `before` holds shell commands for the same process, such as "ulimit -v 4000000;".
  explicit Command(const std::string& arguments, const std::string& before = "",
                   const std::string& redirect = "> out 2> err",
                   const std::string& program = LOCKSTEP_CALIBRATE) {
    const std::string line = fmt::format("cd {} && export TMPDIR=$PWD && {} exec {} {} {}",
                                         path().string(), before, program, arguments, redirect);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
      _exit(127);
    }
  }
  ~Command() {
    if (ended_) return;
    ::kill(pid_, SIGTERM);
    wait();
  }
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  pid_t pid() const { return pid_; }
  const std::filesystem::path& path() const { return folder_.path(); }
  std::string out() const { return text_of(path() / "out"); }
  std::string err() const { return text_of(path() / "err"); }
  // Waits for the end. Returns the exit code, or 128 + signal if a signal ended the program.
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    ended_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  // The child processes of the program.
  std::vector<pid_t> ranks() const {
    std::istringstream in(text_of(fmt::format("/proc/{0}/task/{0}/children", pid_)));
    std::vector<pid_t> all;
    for (pid_t pid = 0; in >> pid;) all.push_back(pid);
    return all;
  }
  // Waits up to a minute for `condition`; returns whether it became true.
  static bool until(const std::function<bool()>& condition) {
    for (int i = 0; i < 6000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  bool run_folder_left() const { return !run_folder().empty(); }
  // Waits until `count` ranks have begun their steps, which shows in result files whose names end
  // in `kind`. Returns the ranks.
  std::vector<pid_t> ranks_under_way(std::size_t count, const std::string& kind = ".result") const {
    until([&] {
      std::size_t begun = 0;
      std::error_code gone;
      for (const auto& entry : std::filesystem::directory_iterator(run_folder(), gone)) {
        begun += entry.path().extension() == kind;
      }
      return begun >= count;
    });
    return ranks();
  }

 private:
  // The temporary folder of the running program; "" if there is none.
  std::filesystem::path run_folder() const {
    for (const auto& entry : std::filesystem::directory_iterator(path())) {
      if (entry.path().filename().string().starts_with("lockstep-run-")) return entry.path();
    }
    return {};
  }

  RunFolder folder_;
  pid_t pid_ = -1;
  bool ended_ = false;
};

}  // namespace lockstep
