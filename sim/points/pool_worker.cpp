// The child's side of the pool: reads indices, runs the work, writes framed answers in bundles. The
// child must not return to the parent's code, so it exits by _exit(), without destructors.
#include "points/pool_worker.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>

#include "core/units.hpp"

namespace lockstep {

namespace {

// A bundle of answers is sent after this many seconds or bytes, because a write for each answer
// would cost as much as a quick simulation.
constexpr double between_writes = 0.05;  // seconds
constexpr std::size_t most_bundled = 32768;

// Head of an answer on the socket; `size` bytes of text follow. Parent and child are the same
// program, so the struct is sent as raw memory.
struct FrameHead {
  std::uint64_t index, size;
  bool ok, last;
};

// Writes all bytes; returns false if the other side has closed its end.
bool write_all(int socket, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t n = ::send(socket, data, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    data += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

// Waits for the next index; false if the parent has closed the socket.
bool read_index(int socket, std::uint64_t& index) {
  ssize_t n = 0;
  do {
    n = ::recv(socket, &index, sizeof index, MSG_WAITALL);
  } while (n < 0 && errno == EINTR);
  return n == sizeof index;
}

struct Done {
  PoolAnswer answer;
  bool ok;
};

// Runs one piece. After an exception the state of the process is uncertain, so the process does no
// further piece.
Done attempt(const PoolWork& work, std::size_t index, const Report& report, double most_bytes) {
  try {
    return {work(index, report), true};
  } catch (const std::bad_alloc&) {
    const std::string limit = human(most_bytes, Dimension::bytes);
    return {{most_bytes > 0 ? fmt::format("the simulation needs more memory than {}", limit)
                            : "the simulation ran out of memory",
             true},
            false};
  } catch (const std::exception& error) {
    return {{error.what(), true}, false};
  } catch (...) {
    return {{"an exception of unknown type", true}, false};
  }
}

// The main loop of the child.
[[noreturn]] void run_worker(int socket, const PoolWork& work, double most_bytes,
                             const SharedSlot& slot) {
  std::string bundle;
  double written = steady_seconds();
  const Report report = [&](double fraction) {
    slot->fraction.store(fraction, std::memory_order_relaxed);
    slot->beats.fetch_add(1, std::memory_order_relaxed);
  };
  const auto flush = [&] {
    if (!write_all(socket, bundle.data(), bundle.size())) _exit(1);  // the parent is gone
    bundle.clear();
    written = steady_seconds();
  };
  pollfd more{socket, POLLIN, 0};
  std::uint64_t index = 0;
  while (true) {
    if (!bundle.empty() && ::poll(&more, 1, 0) == 0) flush();  // send the answers before waiting
    if (!read_index(socket, index)) break;
    slot->index.store(index);
    report(0);
    const Done done = attempt(work, static_cast<std::size_t>(index), report, most_bytes);
    const FrameHead head{index, done.answer.text.size(), done.ok, done.answer.last};
    bundle.append(reinterpret_cast<const char*>(&head), sizeof head);
    bundle += done.answer.text;
    if (head.last) break;
    if (bundle.size() > most_bundled || steady_seconds() - written > between_writes) flush();
  }
  flush();
  _exit(0);  // no destructors, no second flush of the parent's buffers
}

}  // namespace

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

SharedSlot::SharedSlot() {
  void* memory = ::mmap(nullptr, sizeof(WorkerSlot), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::runtime_error(fmt::format("no shared memory: {}", std::strerror(errno)));
  }
  slot_ = new (memory) WorkerSlot;
}

SharedSlot::~SharedSlot() {
  ::munmap(slot_, sizeof(WorkerSlot));
}

std::optional<StartedWorker> start_worker(const PoolWork& work, double most_bytes,
                                          const SharedSlot& slot, const std::vector<int>& others) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return std::nullopt;
  std::fflush(nullptr);  // buffered output must not be printed once per child
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) _exit(1);  // the parent ended before prctl()
    ::signal(SIGINT, SIG_IGN);            // the parent handles Ctrl-C and then ends its children
    ::signal(SIGTERM, SIG_DFL);
    ::close(ends[0]);
    for (const int fd : others) ::close(fd);
    if (most_bytes > 0) {
      const rlimit limit{static_cast<rlim_t>(most_bytes), static_cast<rlim_t>(most_bytes)};
      ::setrlimit(RLIMIT_DATA, &limit);
    }
    run_worker(ends[1], work, most_bytes, slot);
  }
  const int error = errno;
  ::close(ends[1]);
  if (pid < 0) {
    ::close(ends[0]);
    errno = error;
    return std::nullopt;
  }
  return StartedWorker{pid, ends[0]};
}

void send_indices(int socket, const std::vector<std::uint64_t>& indices) {
  // An error needs no report here: the next read notices that the worker has died.
  write_all(socket, reinterpret_cast<const char*>(indices.data()), 8 * indices.size());
}

std::optional<Frame> next_frame(const std::string& received, std::size_t& from) {
  FrameHead head{};
  if (received.size() - from < sizeof head) return std::nullopt;
  std::memcpy(&head, received.data() + from, sizeof head);
  if (received.size() - from - sizeof head < head.size) return std::nullopt;
  Frame frame{head.index, head.ok, head.last, received.substr(from + sizeof head, head.size)};
  from += sizeof head + head.size;
  return frame;
}

}  // namespace lockstep
