// A worker process of the pool (points/pool.hpp): how it starts, its main loop, and the frames in
// which it sends answers. Parent and child share a small block of memory and communicate over a
// pair of sockets.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "points/pool.hpp"

namespace lockstep {

// Seconds of the steady clock; only differences have a meaning.
double steady_seconds();

// The present state of a worker, written by the child and read by the parent.
struct WorkerSlot {
  std::atomic<std::uint64_t> index{0};  // index of the piece that the worker computes
  std::atomic<std::uint64_t> beats{0};  // signs of life so far
  std::atomic<double> fraction{0};      // fraction of the piece that is done, 0 to 1
};
// Owns a WorkerSlot in shared memory, which a forked child shares with its parent.
class SharedSlot {
 public:
  SharedSlot();  // throws std::runtime_error if there is no memory
  ~SharedSlot();
  SharedSlot(const SharedSlot&) = delete;
  SharedSlot& operator=(const SharedSlot&) = delete;
  WorkerSlot* operator->() const { return slot_; }

 private:
  WorkerSlot* slot_;
};

struct StartedWorker {
  pid_t pid;
  int socket;  // accepts indices and delivers answers
};
// Forks a worker. `most_bytes` limits its data segment; 0 = no limit. The child closes the sockets
// `others`. Returns nothing, with errno set, if the system has no process or socket left at
// present.
std::optional<StartedWorker> start_worker(const PoolWork& work, double most_bytes,
                                          const SharedSlot& slot, const std::vector<int>& others);

// Sends pieces to a worker. Does not report that a worker has died; the next read from its socket
// shows it.
void send_indices(int socket, const std::vector<std::uint64_t>& indices);

// One answer: the piece's index, whether it succeeded, whether the process ends after it, and the
// text.
struct Frame {
  std::uint64_t index = 0;
  bool ok = false, last = false;
  std::string text;
};
// Returns the complete answer that begins at byte `from` of `received`, and moves `from` to the
// byte after it. Returns nothing if the answer is not complete.
std::optional<Frame> next_frame(const std::string& received, std::size_t& from);

}  // namespace lockstep
