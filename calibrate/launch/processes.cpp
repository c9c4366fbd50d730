// Starts ranks by fork() and execve(), and waits for them. The parent sleeps in poll() on one pidfd
// per child, so that it does not disturb the children's measurements.
#include "launch/processes.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <stdexcept>

#include "launch/interrupts.hpp"

extern char** environ;

namespace lockstep {

namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

std::vector<int> usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) cores.push_back(core);
    }
  }
  if (cores.empty()) cores.push_back(0);
  return cores;
}

struct Child {
  pid_t pid = -1;
  int pidfd = -1;
  std::optional<int> status;  // status of waitpid(); absent while the child runs

  bool ended() const { return status.has_value(); }
  void reap() {
    int value = 0;
    while (::waitpid(pid, &value, 0) < 0 && errno == EINTR) {
    }
    ::close(pidfd);
    pidfd = -1;
    status = value;
  }
};

// The children of a run. The destructor kills every child that still runs, also after an exception.
struct Children {
  std::vector<Child> list;

  void signal(int number) const {
    for (const Child& child : list) {
      if (!child.ended()) ::kill(child.pid, number);
    }
  }
  bool all_ended() const {
    return std::all_of(list.begin(), list.end(), [](const Child& child) { return child.ended(); });
  }
  // Waits until a child ends, a signal reaches us (if its descriptor is given) or the time is over.
  void wait(int interrupt_descriptor, int milliseconds) {
    std::vector<pollfd> watched;
    for (const Child& child : list) watched.push_back({child.pidfd, POLLIN, 0});
    watched.push_back({interrupt_descriptor, POLLIN, 0});
    if (::poll(watched.data(), watched.size(), milliseconds) < 0 && errno != EINTR) fail("poll");
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (!list[i].ended() && watched[i].revents != 0) list[i].reap();
    }
  }
  ~Children() {
    signal(SIGKILL);
    for (Child& child : list) {
      if (!child.ended()) child.reap();
    }
  }
};

int open_output(const std::string& file) {
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor >= 0) return descriptor;
  throw OutputError(fmt::format("cannot write {}: {}", file, std::strerror(errno)));
}

// Everything that the child needs. It is made before fork(), because no memory may be allocated
// between fork() and exec().
struct Prepared {
  std::vector<std::string> words, variables;
  std::vector<char*> argv, envp;
  int namespace_descriptor = -1, output = -1, errors = -1;
  cpu_set_t cores;
  bool pinned = false;
  std::string program;

  explicit Prepared(const RankProcess& rank) : program(rank.program) {
    if (program.empty()) program = "/proc/self/exe";
    words.push_back(program);
    words.insert(words.end(), rank.arguments.begin(), rank.arguments.end());
    for (char** entry = environ; *entry; ++entry) {
      const std::string text = *entry;
      const std::string name = text.substr(0, text.find('='));
      const bool replaced = std::any_of(rank.environment.begin(), rank.environment.end(),
                                        [&](const auto& v) { return v.name == name; });
      if (!replaced) variables.push_back(text);
    }
    for (const auto& v : rank.environment) variables.push_back(v.name + "=" + v.value);
    for (auto& word : words) argv.push_back(word.data());
    for (auto& variable : variables) envp.push_back(variable.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
    CPU_ZERO(&cores);
    if (rank.core >= 0 && rank.core < CPU_SETSIZE) {
      CPU_SET(rank.core, &cores);
      pinned = true;
    }
    if (!rank.network_namespace.empty()) {
      const std::string path = "/run/netns/" + rank.network_namespace;
      namespace_descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
      if (namespace_descriptor < 0) fail("network namespace " + rank.network_namespace);
    }
    if (!rank.errors.empty()) errors = open_output(rank.errors);
    if (!rank.output.empty()) output = open_output(rank.output);
  }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
  ~Prepared() {
    for (const int descriptor : {namespace_descriptor, output, errors}) {
      if (descriptor >= 0) ::close(descriptor);
    }
  }
};

// The step of the child's start that failed, and errno. The child sends it to the parent.
struct StartError {
  int step;
  int error;
};
constexpr const char* start_steps[] = {"the parent has gone", "enter network namespace",
                                       "pin to core", "redirect output", "start program"};

[[noreturn]] void run_child(Prepared& prepared, pid_t parent, int error_pipe) {
  const auto give_up = [&](int step) {
    const StartError error{step, errno};
    (void)!::write(error_pipe, &error, sizeof error);
    _exit(127);
  };
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) give_up(0);
  ::setpgid(0, 0);  // a terminal's Ctrl-C must reach only the parent, which then ends the child
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (prepared.namespace_descriptor >= 0 &&
      ::setns(prepared.namespace_descriptor, CLONE_NEWNET) != 0) {
    give_up(1);
  }
  if (prepared.pinned && ::sched_setaffinity(0, sizeof prepared.cores, &prepared.cores) != 0) {
    give_up(2);
  }
  const int null = ::open("/dev/null", O_RDONLY);
  const int errors = prepared.errors >= 0 ? prepared.errors : STDERR_FILENO;
  const int output = prepared.output >= 0 ? prepared.output : errors;
  if (null < 0 || ::dup2(null, STDIN_FILENO) < 0 || ::dup2(output, STDOUT_FILENO) < 0 ||
      ::dup2(errors, STDERR_FILENO) < 0) {
    give_up(3);
  }
  ::execve(prepared.program.c_str(), prepared.argv.data(), prepared.envp.data());
  give_up(4);
  _exit(127);
}

Child start(const RankProcess& rank, std::size_t number) {
  Prepared prepared(rank);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail("pipe");
  std::fflush(nullptr);  // otherwise each child would also print buffered text
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) run_child(prepared, parent, ends[1]);
  ::close(ends[1]);
  StartError error{};
  ssize_t got = 0;
  if (pid > 0) {
    // The pipe closes when exec succeeds.
    while ((got = ::read(ends[0], &error, sizeof error)) < 0 && errno == EINTR) {
    }
  }
  const int fork_error = errno;
  ::close(ends[0]);
  if (pid < 0) {
    errno = fork_error;
    fail(fmt::format("cannot start rank {}", number));
  }
  Child child{pid, static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)), {}};
  const int pidfd_error = errno;
  if (got > 0 || child.pidfd < 0) {
    ::kill(pid, SIGKILL);
    child.reap();
    errno = got > 0 ? error.error : pidfd_error;
    const char* step = got > 0 ? start_steps[error.step] : "watch it (pidfd_open)";
    fail(fmt::format("cannot start rank {}: {}", number, step));
  }
  return child;
}

LaunchEnd describe_failure(const Child& child, std::size_t rank) {
  LaunchEnd end{LaunchEnd::How::failed, static_cast<int>(rank), 0, ""};
  const int status = *child.status;
  if (WIFSIGNALED(status)) {
    end.exit_code = 128 + WTERMSIG(status);
    end.message = fmt::format("rank {} (pid {}) was killed by signal {} ({})", rank, child.pid,
                              WTERMSIG(status), ::strsignal(WTERMSIG(status)));
    if (WTERMSIG(status) == SIGKILL) {
      end.message += ": the kernel does that when memory runs out, and so does whoever kills it";
    }
  } else {
    end.exit_code = WEXITSTATUS(status);
    end.message =
        fmt::format("rank {} (pid {}) ended with exit code {}", rank, child.pid, end.exit_code);
  }
  return end;
}

// If a rank ends, other ranks fail because their connections break. If several have ended at once,
// a rank that a signal killed is taken as the cause.
std::optional<LaunchEnd> first_failure(const Children& children) {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < children.list.size(); ++i) {
    const Child& child = children.list[i];
    if (!child.ended() || *child.status == 0) continue;
    if (!found || (WIFSIGNALED(*child.status) && !WIFSIGNALED(*children.list[*found].status))) {
      found = i;
    }
  }
  if (!found) return std::nullopt;
  return describe_failure(children.list[*found], *found);
}

using Clock = std::chrono::steady_clock;

// The timeout for poll(): -1 = none; 0 only when the time is over.
int milliseconds_left(Clock::time_point start, double seconds) {
  if (std::isinf(seconds)) return -1;
  const double left = seconds - std::chrono::duration<double>(Clock::now() - start).count();
  return static_cast<int>(std::clamp(std::ceil(1e3 * left), 0.0, 1e9));
}

void end_all(Children& children, double grace_seconds) {
  children.signal(SIGTERM);
  const auto start = Clock::now();
  while (!children.all_ended()) {
    const int left = milliseconds_left(start, grace_seconds);
    if (left == 0) return;  // ~Children kills the rest
    children.wait(-1, left);
  }
}

}  // namespace

RunFolder::RunFolder() {
  const char* base = std::getenv("TMPDIR");
  std::string name = std::filesystem::path(base && *base ? base : "/tmp") / "lockstep-run-XXXXXX";
  if (!::mkdtemp(name.data())) fail(fmt::format("cannot make a temporary folder {}", name));
  path_ = name;
}

RunFolder::~RunFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path RunFolder::result_file(int rank) const {
  return file(fmt::format("rank{}.result", rank));
}

std::vector<RankProcess> pinned_ranks(
    int ranks, const std::function<std::vector<std::string>(int)>& arguments) {
  const std::vector<int> cores = usable_cores();
  std::vector<RankProcess> all;
  for (int rank = 0; rank < ranks; ++rank) {
    const int core = cores[static_cast<std::size_t>(rank) % cores.size()];
    all.push_back({arguments(rank), measuring_environment(1), core, "", ""});
  }
  return all;
}

void unpin(std::vector<RankProcess>& ranks) {
  for (RankProcess& rank : ranks) rank.core = -1;
}

void throw_failure(const LaunchEnd& end, const std::string& message) {
  if (end.exit_code > 128 || end.exit_code == exit_rank_lost) throw RankLost(message);
  throw std::runtime_error(message);
}

LaunchEnd run_processes(const std::vector<RankProcess>& ranks, double grace_seconds,
                        double limit_seconds) {
  const auto start_time = Clock::now();
  const LaunchEnd interrupted{LaunchEnd::How::interrupted, -1, 0, "interrupted"};
  InterruptGuard guard;
  Children children;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (InterruptGuard::interrupted()) break;
    children.list.push_back(start(ranks[rank], rank));
  }
  while (true) {
    if (const auto failure = first_failure(children)) {
      end_all(children, grace_seconds);
      return *failure;
    }
    if (InterruptGuard::interrupted()) {
      end_all(children, grace_seconds);
      return interrupted;
    }
    if (children.all_ended()) return {};
    const int left = milliseconds_left(start_time, limit_seconds);
    if (left == 0) {
      end_all(children, grace_seconds);
      return {LaunchEnd::How::too_long, -1, 0, fmt::format("took more than {:g} s", limit_seconds)};
    }
    children.wait(InterruptGuard::descriptor(), left);
  }
}

}  // namespace lockstep
