// A pool of forked workers with one socket each: the parent sends indices, the workers send framed
// answers. Workers bundle their answers to save system calls. The index that a worker computes at
// present therefore lies in memory that parent and child share, so that the parent blames a crash
// on the right piece.
#include "points/pool.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "points/pool_worker.hpp"

namespace lockstep {

namespace {

constexpr double tick = 0.1;             // seconds between two checks of silent workers
constexpr double chunk_seconds = 0.1;    // seconds of work that one message to a worker holds
constexpr std::size_t most_chunk = 512;  // indices that a socket takes without blocking

}  // namespace

// The parent's view of a child process.
struct Pool::Worker {
  pid_t pid = -1;
  int socket = -1;
  SharedSlot slot;
  std::deque<std::size_t> given{};     // indices sent and not yet answered, in order
  std::string received{};              // bytes of answers that are not complete yet
  bool last = false;                   // the process must do no further piece
  std::uint64_t index = 0, beats = 0;  // copy of the slot at the last watch()
  double silent = 0, busy = 0;  // seconds since the last beat; seconds with the present piece
  double fed_at = 0;  // steady time from which the next measurement of piece_seconds_ counts

  ~Worker() {
    if (pid > 0) {
      ::kill(pid, SIGKILL);
      reap();
    }
    if (socket >= 0) ::close(socket);
  }
  // Waits for the end of the process and returns its status.
  int reap() {
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    pid = -1;
    return status;
  }
};

Pool::Pool(const PoolOptions& options, PoolWork work)
    : options_(options), work_(std::move(work)), looked_at_(steady_seconds()) {}

Pool::~Pool() = default;

void Pool::add(const std::vector<std::size_t>& indices) {
  waiting_.insert(waiting_.end(), indices.begin(), indices.end());
}

std::size_t Pool::unanswered() const {
  std::size_t count = waiting_.size();
  for (const auto& worker : workers_) count += worker->given.size();
  return count;
}

std::optional<std::pair<std::size_t, double>> Pool::longest() const {
  const Worker* longest = nullptr;
  for (const auto& worker : workers_) {
    if (worker->given.empty()) continue;
    if (longest == nullptr || worker->busy > longest->busy) longest = worker.get();
  }
  if (longest == nullptr) return std::nullopt;
  return std::pair{static_cast<std::size_t>(longest->slot->index.load()),
                   longest->slot->fraction.load()};
}

// Number of indices in one message: a tenth of a second of work, but at most half of a worker's
// share of the queue, so that all workers end together. 1 until the first answer gives a time.
std::size_t Pool::chunk() const {
  if (piece_seconds_ <= 0) return 1;
  const auto share = waiting_.size() / (2 * static_cast<std::size_t>(options_.workers));
  const double fitting = std::min(chunk_seconds / piece_seconds_, double{most_chunk});
  return std::max<std::size_t>(1, std::min(share, static_cast<std::size_t>(fitting)));
}

// Whether a worker should get more work: it has none, or less than half a chunk left.
bool Pool::hungry(const Worker& worker) const {
  if (worker.last) return false;
  if (worker.given.empty()) return true;
  return static_cast<double>(worker.given.size()) * piece_seconds_ < chunk_seconds / 2 &&
         piece_seconds_ > 0;
}

// Starts one worker. The child must close the sockets of the other workers, because otherwise
// another worker would not notice when the parent closes its end.
bool Pool::start() {
  auto worker = std::make_unique<Worker>();
  std::vector<int> others;  // sockets that the child must close
  for (const auto& other : workers_) others.push_back(other->socket);
  const auto started = start_worker(work_, options_.most_bytes, worker->slot, others);
  if (!started && workers_.empty()) {
    throw std::runtime_error(fmt::format("cannot start a process: {}", std::strerror(errno)));
  }
  if (!started) return false;  // another try follows when a worker has ended
  worker->pid = started->pid;
  worker->socket = started->socket;
  workers_.push_back(std::move(worker));
  return true;
}

// Fills the pool up to its number of workers and sends a chunk to each hungry one.
void Pool::feed() {
  const auto wanted = static_cast<std::size_t>(std::max(1, options_.workers));
  for (std::size_t w = 0; !waiting_.empty() && w < wanted; ++w) {
    if (w == workers_.size() && !start()) return;
    Worker& worker = *workers_[w];
    const std::size_t count = std::min(chunk(), waiting_.size());
    if (!hungry(worker) || worker.given.size() + count > most_chunk) continue;
    if (worker.given.empty()) {
      worker.silent = worker.busy = 0;
      worker.fed_at = steady_seconds();
    }
    const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(count);
    send_indices(worker.socket, {waiting_.begin(), end});
    worker.given.insert(worker.given.end(), waiting_.begin(), end);
    waiting_.erase(waiting_.begin(), end);
  }
}

// Moves the complete answers from the received bytes to `results`, and updates the running mean of
// the time per piece (new answers have weight 0.3).
void Pool::read(Worker& worker, std::vector<PoolResult>& results) {
  std::size_t from = 0, answered = 0;
  while (const auto frame = next_frame(worker.received, from)) {
    results.push_back({static_cast<std::size_t>(frame->index), frame->ok, frame->text});
    worker.last |= frame->last;
    const auto place = std::find(worker.given.begin(), worker.given.end(), frame->index);
    if (place != worker.given.end()) worker.given.erase(place);
    ++answered;
  }
  worker.received.erase(0, from);
  if (answered == 0) return;
  const double now = steady_seconds();
  const double each = (now - worker.fed_at) / static_cast<double>(answered);
  piece_seconds_ = piece_seconds_ <= 0 ? each : 0.7 * piece_seconds_ + 0.3 * each;
  worker.fed_at = now;
  worker.silent = worker.busy = 0;
}

// Removes a worker whose process has ended, or kills it for the reason `given_up`. The piece that
// it computed at that time fails; all its other unanswered pieces return to the head of the queue.
void Pool::end(Worker& worker, std::vector<PoolResult>& results, const std::string& given_up) {
  if (!given_up.empty()) ::kill(worker.pid, SIGKILL);
  const int status = worker.reap();
  if (!worker.given.empty() && !worker.last) {
    std::string reason = given_up;
    if (reason.empty() && WIFSIGNALED(status)) {
      reason = fmt::format("the simulation ended by signal {} ({})", WTERMSIG(status),
                           ::strsignal(WTERMSIG(status)));
    } else if (reason.empty()) {
      reason = "the simulation ended without an answer";
    }
    const auto index = static_cast<std::size_t>(worker.slot->index.load());
    auto culprit = std::find(worker.given.begin(), worker.given.end(), index);
    if (culprit == worker.given.end()) culprit = worker.given.begin();
    results.push_back({*culprit, false, reason});
    worker.given.erase(culprit);
  }
  // The rest was not started, or its answers were not sent.
  waiting_.insert(waiting_.begin(), worker.given.begin(), worker.given.end());
  const auto place = std::find_if(workers_.begin(), workers_.end(),
                                  [&](const auto& other) { return other.get() == &worker; });
  workers_.erase(place);
}

// Updates the seconds that a worker has spent on its piece and without a sign of life.
void Pool::watch(Worker& worker, double passed) {
  if (const std::uint64_t beats = worker.slot->beats.load(); beats != worker.beats) {
    worker.beats = beats;
    worker.silent = 0;
  }
  if (const std::uint64_t index = worker.slot->index.load(); index != worker.index) {
    worker.index = index;
    worker.busy = 0;
  }
  worker.busy += passed;
  worker.silent += passed;
}

// The reason to kill a worker: a limit that its piece exceeds; "" = none.
std::string Pool::given_up(const Worker& worker) const {
  if (worker.given.empty()) return "";
  if (options_.most_silence > 0 && worker.silent >= options_.most_silence) {
    return fmt::format("the simulation gave no sign of life for {:g} s", options_.most_silence);
  }
  if (options_.most_seconds > 0 && worker.busy >= options_.most_seconds) {
    return fmt::format("the simulation took longer than {:g} s", options_.most_seconds);
  }
  return "";
}

std::vector<PoolResult> Pool::collect(double seconds) {
  std::vector<PoolResult> results;
  feed();
  std::vector<pollfd> sockets;
  for (const auto& worker : workers_) sockets.push_back({worker->socket, POLLIN, 0});
  const int found =
      ::poll(sockets.data(), sockets.size(), static_cast<int>(1e3 * std::min(seconds, tick)));
  if (found < 0 && errno != EINTR) {
    throw std::runtime_error(fmt::format("poll failed: {}", std::strerror(errno)));
  }
  if (found < 0) return results;  // interrupted by a signal: `sockets` is not filled
  const double now = steady_seconds();
  // Time in which the program itself was stopped (Ctrl-Z) must not count: at most four ticks do.
  const double passed = std::min(4 * tick, now - looked_at_);
  looked_at_ = now;
  // Backwards, because end() removes the worker from the list.
  for (std::size_t i = sockets.size(); i-- > 0;) {
    Worker& worker = *workers_[i];
    watch(worker, passed);
    if (sockets[i].revents == 0) {
      if (const std::string why = given_up(worker); !why.empty()) end(worker, results, why);
      continue;
    }
    char buffer[65536];
    const ssize_t n = ::recv(worker.socket, buffer, sizeof buffer, 0);
    if (n > 0) {
      worker.received.append(buffer, static_cast<std::size_t>(n));
      read(worker, results);
    } else if (n == 0 || errno != EINTR) {
      end(worker, results, "");
    }
  }
  feed();
  return results;
}

}  // namespace lockstep
