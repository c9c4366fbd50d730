// A pool of worker processes for independent pieces of work. The pool sends pieces to processes,
// which it reuses, and returns answers as they arrive. If a piece crashes, hangs or needs too much
// memory, only that piece is lost. SimGrid allows one world per process (a second engine silently
// continues the first one's clock), so a piece can declare that its process must do no other piece.
//
//     parent                         worker processes (fork)
//     waiting: 7 8 9   --indices-->  [4 5]  [6]
//     results          <--answers--  framed texts over a socket per worker
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// Function that a piece of work calls with its progress, from 0 to 1, as often as it likes. Each
// call also shows the pool that the piece is alive.
using Report = std::function<void(double fraction)>;

// The text that a piece returns.
struct PoolAnswer {
  std::string text;
  bool last = false;  // the process must do no other piece

  PoolAnswer(std::string words, bool is_last = false) : text(std::move(words)), last(is_last) {}
  PoolAnswer(const char* words) : text(words) {}
};
// The work of a piece. Runs in a child process; an exception becomes a failed result.
using PoolWork = std::function<PoolAnswer(std::size_t index, const Report& report)>;

// Limits of the pool; 0 = no limit.
struct PoolOptions {
  int workers = 1;          // processes at the same time
  double most_silence = 0;  // seconds without a report after which a piece is killed
  double most_seconds = 0;  // seconds that a piece may take
  double most_bytes = 0;    // bytes that a process may allocate (RLIMIT_DATA)
};

struct PoolResult {
  std::size_t index = 0;
  bool ok = false;
  std::string text;  // the answer; if not ok, the reason, for example an exception's text
};

// Owns its child processes. Use it from one thread.
class Pool {
 public:
  // Starts no process yet. `work` runs in child processes. collect() forks them when pieces wait
  // and fewer than options.workers run, so each child is a copy of the parent at that time.
  Pool(const PoolOptions& options, PoolWork work);
  ~Pool();  // kills all running workers
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Adds pieces to the end of the queue.
  void add(const std::vector<std::size_t>& indices);
  // Pieces in the queue, not yet sent to a worker.
  std::size_t waiting() const { return waiting_.size(); }
  // Pieces in the queue plus pieces that workers have not answered yet.
  std::size_t unanswered() const;

  // Sends pieces to workers that have little or no work left, and returns the results that have
  // arrived. Waits at most `seconds`, and never longer than a tenth of a second. Each piece comes
  // back exactly once, in any order. Throws std::runtime_error if not even one process can be
  // started.
  std::vector<PoolResult> collect(double seconds);

  // The piece that has run longest, and its reported progress; nothing if no worker is busy.
  std::optional<std::pair<std::size_t, double>> longest() const;

 private:
  struct Worker;
  // The functions below are explained in pool.cpp.
  bool start();  // false: the system cannot start a process now
  void feed();
  bool hungry(const Worker& worker) const;
  std::size_t chunk() const;
  static void watch(Worker& worker, double passed);
  std::string given_up(const Worker& worker) const;  // the reason to kill it; "" = none
  void read(Worker& worker, std::vector<PoolResult>& results);
  void end(Worker& worker, std::vector<PoolResult>& results, const std::string& given_up);

  PoolOptions options_;
  PoolWork work_;
  std::deque<std::size_t> waiting_;
  std::vector<std::unique_ptr<Worker>> workers_;
  double piece_seconds_ = 0;  // recent average time of one piece in a worker; 0 = unknown
  double looked_at_;          // time of the last collect(), steady clock
};

}  // namespace lockstep
