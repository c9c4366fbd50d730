// See fork_map.hpp. One pipe per child; poll() collects whatever arrives: lines of progress, then
// the answer.
#include "points/fork_map.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <stdexcept>

namespace lockstep {

namespace {

constexpr double tick = 0.2;             // seconds between two looks at children that say nothing
constexpr double between_reports = 0.1;  // seconds, at least
constexpr char progress_mark = '~';      // begins a line of progress; an answer begins with + or -

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Child {
  pid_t pid = -1;
  int fd = -1;
  std::size_t index = 0;
  std::string received{};
  double fraction = 0;
  double silent = 0;  // seconds
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

[[noreturn]] void run_child(int fd, pid_t parent, const ForkWork& work, std::size_t index) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) _exit(1);  // it went before the line above
  std::string answer;
  double reported = wall_seconds();
  const Report report = [&](double fraction) {
    const double now = wall_seconds();
    if (now - reported < between_reports) return;
    reported = now;
    write_all(fd, fmt::format("{}{}\n", progress_mark, fraction));
  };
  try {
    answer = "+" + work(index, report);
  } catch (const std::exception& error) {
    answer = std::string("-") + error.what();
  } catch (...) {
    answer = "-an exception of unknown type";
  }
  write_all(fd, answer);
  _exit(0);  // no destructors, no second flush of the parent's buffers
}

// Nothing when the system has no process or pipe to spare just now.
std::optional<Child> start(std::size_t index, const ForkWork& work) {
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
  return Child{pid, ends[0], index};
}

// Takes the lines of progress off what has arrived.
void read_progress(Child& child) {
  std::string& text = child.received;
  while (!text.empty() && text[0] == progress_mark) {
    const std::size_t end = text.find('\n');
    if (end == std::string::npos) return;
    child.fraction = std::strtod(text.c_str() + 1, nullptr);
    text.erase(0, end + 1);
  }
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

std::vector<ForkResult> fork_map(std::size_t count, const ForkOptions& options,
                                 const ForkWork& work) {
  std::vector<ForkResult> results(count);
  Children children;
  std::vector<Child>& running = children.list;
  std::size_t next = 0, finished = 0;
  const auto end = [&](std::size_t i, std::optional<ForkResult> given_up) {
    ForkResult result = finish(running[i]);
    results[running[i].index] = given_up ? *given_up : std::move(result);
    running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
    ++finished;
    if (options.on_done) options.on_done(finished);
  };
  while (finished < count) {
    while (next < count &&
           running.size() < static_cast<std::size_t>(std::max(1, options.workers))) {
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
    const double before = wall_seconds();
    const int milliseconds = options.on_progress || options.most_silence > 0 ? int(1e3 * tick) : -1;
    const int found = ::poll(waiting.data(), waiting.size(), milliseconds);
    if (found < 0 && errno != EINTR) {
      throw std::runtime_error(fmt::format("poll failed: {}", std::strerror(errno)));
    }
    if (found < 0) continue;  // `waiting` says nothing then
    // Not the time for which the program itself was stopped (Ctrl-Z).
    const double waited = std::min(2 * tick, wall_seconds() - before);
    for (std::size_t i = waiting.size(); i-- > 0;) {
      if (waiting[i].revents == 0) {
        running[i].silent += waited;
        if (options.most_silence <= 0 || running[i].silent < options.most_silence) continue;
        ::kill(running[i].pid, SIGKILL);
        end(i, ForkResult{false, fmt::format("the simulation gave no sign of life for {:g} s",
                                             options.most_silence)});
        continue;
      }
      running[i].silent = 0;
      char buffer[65536];
      const ssize_t n = ::read(running[i].fd, buffer, sizeof buffer);
      if (n > 0) {
        running[i].received.append(buffer, static_cast<std::size_t>(n));
        read_progress(running[i]);
      } else if (n == 0 || errno != EINTR) {
        end(i, std::nullopt);
      }
    }
    if (options.on_progress && !running.empty()) {
      options.on_progress(running.front().index, running.front().fraction);
    }
  }
  return results;
}

}  // namespace lockstep
