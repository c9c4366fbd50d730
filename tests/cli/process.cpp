// Starts the built program with pipes for its output, and reads them until it ends.
#include "process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>

namespace lockstep {

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Outcome execute(const std::vector<std::string>& command, double limit) {
  int out[2], err[2];
  if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0) std::abort();
  const double started = now();
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::setpgid(0, 0);
    ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(err[1], STDERR_FILENO);
    ::setenv("LOCKSTEP", LOCKSTEP_PROGRAM, 1);
    std::vector<char*> arguments;
    for (const auto& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  ::close(out[1]);
  ::close(err[1]);
  Outcome outcome;
  pollfd streams[] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
  std::string* texts[] = {&outcome.out, &outcome.err};
  int open = 2;
  while (open > 0) {
    const double left = started + limit - now();
    if (left <= 0) ::kill(-pid, SIGKILL);
    if (left < -5) break;  // a process that cannot be killed still holds the pipes
    ::poll(streams, 2, left > 0 ? static_cast<int>(1000 * left) + 1 : 100);
    for (int i = 0; i < 2; ++i) {
      if (streams[i].fd < 0 || streams[i].revents == 0) continue;
      char buffer[4096];
      const ssize_t n = ::read(streams[i].fd, buffer, sizeof buffer);
      if (n > 0) {
        texts[i]->append(buffer, static_cast<std::size_t>(n));
      } else {
        streams[i].fd = -1;
        --open;
      }
    }
  }
  ::close(out[0]);
  ::close(err[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  outcome.seconds = now() - started;
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

}  // namespace

Outcome lockstep(const std::vector<std::string>& arguments, double limit) {
  std::vector<std::string> command{LOCKSTEP_PROGRAM};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return execute(command, limit);
}

Outcome shell(const std::string& command, double limit) {
  return execute({"sh", "-c", command}, limit);
}

std::string scenario_text(const std::string& more) {
  std::string text = "name: test\n";
  const auto give = [&](const std::string& field, const std::string& value) {
    if (("\n" + more).find("\n" + field + ":") == std::string::npos) {
      text += field + ": " + value + "\n";
    }
  };
  give("model", "lenet5");
  give("platform", "dgx-a100-80gb");
  give("batch", "{per_gpu: 16}");
  give("strategies", "[ddp]");
  return text + more;
}

}  // namespace lockstep
