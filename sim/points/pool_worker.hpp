// A worker process of points/pool.hpp: its start, what it reads and writes, its main loop.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "points/pool.hpp"

namespace lockstep {

double steady_seconds();  // of the steady clock

// What a worker is doing, in memory that parent and child share.
struct WorkerSlot {
  std::atomic<std::uint64_t> index{0};
  std::atomic<std::uint64_t> beats{0};  // signs of life
  std::atomic<double> fraction{0};
};
class SharedSlot {
 public:
  SharedSlot();  // throws std::runtime_error
  ~SharedSlot();
  SharedSlot(const SharedSlot&) = delete;
  SharedSlot& operator=(const SharedSlot&) = delete;
  WorkerSlot* operator->() const { return slot_; }

 private:
  WorkerSlot* slot_;
};

struct StartedWorker {
  pid_t pid;
  int socket;  // indices to it, answers from it
};
// Nothing when the system has no process or socket to spare just now; errno says why. The child
// closes `others`.
std::optional<StartedWorker> start_worker(const PoolWork& work, double most_bytes,
                                          const SharedSlot& slot, const std::vector<int>& others);

void send_indices(int socket, const std::vector<std::uint64_t>& indices);

struct Frame {
  std::uint64_t index = 0;
  bool ok = false, last = false;
  std::string text;
};
// The next whole answer in `received` from byte `from` on, which moves behind it.
std::optional<Frame> next_frame(const std::string& received, std::size_t& from);

}  // namespace lockstep
