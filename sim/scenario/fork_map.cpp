// See fork_map.hpp. One pipe per child; poll() collects whatever arrives.
#include "scenario/fork_map.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>
#include <stdexcept>

namespace lockstep {

namespace {

struct Child {
  pid_t pid = -1;
  int fd = -1;
  std::size_t index = 0;
  std::string received;
};

void write_all(int fd, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) _exit(1);  // the parent is gone
    done += static_cast<std::size_t>(n);
  }
}

[[noreturn]] void run_child(int fd, pid_t parent,
                            const std::function<std::string(std::size_t)>& work,
                            std::size_t index) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) _exit(1);  // it went before the line above
  std::string answer;
  try {
    answer = "+" + work(index);
  } catch (const std::exception& error) {
    answer = std::string("-") + error.what();
  } catch (...) {
    answer = "-an exception of unknown type";
  }
  write_all(fd, answer);
  _exit(0);  // no destructors, no second flush of the parent's buffers
}

// Nothing when the system has no process or pipe to spare just now.
std::optional<Child> start(std::size_t index, const std::function<std::string(std::size_t)>& work) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  std::fflush(nullptr);  // what is buffered now must not be printed once per child
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::close(ends[0]);
    run_child(ends[1], parent, work, index);
  }
  const int error = errno;
  ::close(ends[1]);
  if (pid < 0) {
    ::close(ends[0]);
    errno = error;
    return std::nullopt;
  }
  return Child{pid, ends[0], index, {}};
}

ForkResult finish(Child& child) {
  ::close(child.fd);
  int status = 0;
  while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) {
    return {false, fmt::format("the simulation ended by signal {} ({})", WTERMSIG(status),
                               ::strsignal(WTERMSIG(status)))};
  }
  if (status != 0 || child.received.empty()) {
    return {false, "the simulation ended without an answer"};
  }
  return {child.received[0] == '+', child.received.substr(1)};
}

// The children that run; none outlives it, whatever is thrown.
struct Children {
  std::vector<Child> list;

  ~Children() {
    for (Child& child : list) {
      ::kill(child.pid, SIGKILL);
      finish(child);
    }
  }
};

}  // namespace

std::vector<ForkResult> fork_map(std::size_t count, int workers,
                                 const std::function<std::string(std::size_t)>& work,
                                 const std::function<void(std::size_t)>& on_done) {
  std::vector<ForkResult> results(count);
  Children children;
  std::vector<Child>& running = children.list;
  std::size_t next = 0, finished = 0;
  while (finished < count) {
    while (next < count && running.size() < static_cast<std::size_t>(std::max(1, workers))) {
      auto child = start(next, work);
      if (!child && running.empty()) {
        throw std::runtime_error(fmt::format("cannot start a process: {}", std::strerror(errno)));
      }
      if (!child) break;  // try again when one of the others has ended
      running.push_back(std::move(*child));
      ++next;
    }
    std::vector<pollfd> waiting;
    for (const auto& child : running) waiting.push_back({child.fd, POLLIN, 0});
    if (::poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) {
      throw std::runtime_error(fmt::format("poll failed: {}", std::strerror(errno)));
    }
    for (std::size_t i = waiting.size(); i-- > 0;) {
      if (waiting[i].revents == 0) continue;
      char buffer[65536];
      const ssize_t n = ::read(running[i].fd, buffer, sizeof buffer);
      if (n > 0) {
        running[i].received.append(buffer, static_cast<std::size_t>(n));
      } else if (n == 0 || errno != EINTR) {
        results[running[i].index] = finish(running[i]);
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
        ++finished;
        if (on_done) on_done(finished);
      }
    }
  }
  return results;
}

}  // namespace lockstep
