// Locates lockstep-calibrate in the build folder, and starts it by exec() or as a child with
// captured output. Interrupts are passed on to the child, so that it can end its own children
// cleanly.
#include "launch/measuring.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "core/errors.hpp"
#include "launch/interrupts.hpp"

namespace lockstep {

std::string measuring_program(const std::string& verb) {
  if (const char* given = std::getenv("LOCKSTEP_CALIBRATE")) return given;
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto program =
      self.parent_path().parent_path().parent_path() / "calibrate" / "cli" / "lockstep-calibrate";
  if (std::filesystem::exists(program, error)) return program.string();
  throw file_error("", verb, "the measuring half is not built",
                   fmt::format("it needs LibTorch: `./lockstep {} ...` installs and builds it, or "
                               "configure with -DLOCKSTEP_TORCH=ON",
                               verb));
}

void become_measuring_program(const std::string& verb) {
  const std::string program = measuring_program(verb);
  std::ifstream own("/proc/self/cmdline", std::ios::binary);  // each argument ends with a null byte
  std::vector<std::string> arguments;
  for (std::string word; std::getline(own, word, '\0');) arguments.push_back(word);
  std::vector<char*> words;
  for (std::string& word : arguments) words.push_back(word.data());
  words.push_back(nullptr);
  ::execv(program.c_str(), words.data());
  throw std::runtime_error(fmt::format("cannot start {}: {}", program, std::strerror(errno)));
}

ProgramEnd run_program(const std::string& program, const std::vector<std::string>& arguments) {
  int pipe_ends[2];
  if (::pipe2(pipe_ends, O_CLOEXEC) != 0) {
    throw std::runtime_error(fmt::format("no pipe: {}", std::strerror(errno)));
  }
  std::vector<char*> words;
  words.push_back(const_cast<char*>(program.c_str()));
  for (const std::string& argument : arguments) {
    words.push_back(const_cast<char*>(argument.c_str()));
  }
  words.push_back(nullptr);
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error(fmt::format("no process: {}", std::strerror(errno)));
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // on SIGTERM it ends its own children cleanly
    ::dup2(pipe_ends[1], STDOUT_FILENO);
    ::execv(program.c_str(), words.data());
    ::_exit(127);
  }
  ::close(pipe_ends[1]);
  ProgramEnd end;
  char buffer[65536];
  bool told = false;
  while (true) {
    // Ctrl-C at a terminal also reaches the child; a signal from elsewhere must be passed on.
    pollfd watched[] = {{pipe_ends[0], POLLIN, 0},
                        {told ? -1 : InterruptGuard::descriptor(), POLLIN, 0}};
    if (::poll(watched, 2, -1) < 0 && errno == EINTR) continue;
    if (watched[1].revents != 0) {
      ::kill(child, SIGINT);
      told = true;
    }
    if (watched[0].revents == 0) continue;
    const ssize_t count = ::read(pipe_ends[0], buffer, sizeof buffer);
    if (count > 0) end.output.append(buffer, static_cast<std::size_t>(count));
    if (count == 0 || (count < 0 && errno != EINTR)) break;
  }
  ::close(pipe_ends[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  end.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  if (end.exit_code == 127) throw std::runtime_error("cannot start " + program);
  return end;
}

}  // namespace lockstep
