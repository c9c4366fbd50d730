// Worker processes that are used again: pieces of work go out, answers come back as they are ready.
// A piece that crashes, hangs or needs too much memory loses itself only. A SimGrid world exists
// once per process (facts/simgrid: a second engine silently continues the first one's clock), so a
// piece can say that it was its process's last.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// A piece of work tells how far it is, from 0 to 1; as often as it likes.
using Report = std::function<void(double fraction)>;

struct PoolAnswer {
  std::string text;
  bool last = false;  // this process can do no other piece

  PoolAnswer(std::string words, bool is_last = false) : text(std::move(words)), last(is_last) {}
  PoolAnswer(const char* words) : text(words) {}
};
using PoolWork = std::function<PoolAnswer(std::size_t index, const Report& report)>;

struct PoolOptions {
  int workers = 1;          // processes at a time
  double most_silence = 0;  // seconds without a report after which a piece is given up; 0 = never
  double most_seconds = 0;  // that a piece may take; 0 = any
  double most_bytes = 0;    // that a process may allocate; 0 = any
};

struct PoolResult {
  std::size_t index = 0;
  bool ok = false;
  std::string text;  // the answer, or why there is none: exception text, signal, limit
};

class Pool {
 public:
  // `work` runs in children, which see everything as it is when they are started: from the first
  // collect() on.
  Pool(const PoolOptions& options, PoolWork work);
  ~Pool();  // kills what still runs
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  void add(const std::vector<std::size_t>& indices);
  std::size_t waiting() const { return waiting_.size(); }  // not yet with a worker
  std::size_t unanswered() const;

  // What has arrived; waits for it, at most so long. Each piece comes back once, in no order.
  // Throws std::runtime_error when no process can be started at all.
  std::vector<PoolResult> collect(double seconds);

  // The piece that runs longest, and how far it is.
  std::optional<std::pair<std::size_t, double>> longest() const;

 private:
  struct Worker;
  bool start();  // false: not now
  void feed();
  bool hungry(const Worker& worker) const;
  std::size_t chunk() const;
  static void watch(Worker& worker, double passed);
  std::string given_up(const Worker& worker) const;  // why; "" = not yet
  void read(Worker& worker, std::vector<PoolResult>& results);
  void end(Worker& worker, std::vector<PoolResult>& results, const std::string& given_up);

  PoolOptions options_;
  PoolWork work_;
  std::deque<std::size_t> waiting_;
  std::vector<std::unique_ptr<Worker>> workers_;
  double piece_seconds_ = 0;  // that a worker needs for a piece, of late; 0 = unknown
  double looked_at_;
};

}  // namespace lockstep
