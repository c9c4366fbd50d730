// Costs of a point's checkpoints: bytes, seconds, host memory, and how much slower training is
// while a checkpoint is written. Used for scenarios with `faults:`; the simulated long run
// (faults/long_run.hpp) uses these costs.
#pragma once

#include "faults/long_run.hpp"
#include "points/misfits.hpp"
#include "points/points.hpp"
#include "results/record.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

// Bytes and durations of one checkpoint. All hosts write, copy and fetch at the same time, so each
// duration is the time in which one host handles its own share.
struct CheckpointCosts {
  double bytes = 0;          // of the whole state
  double host_bytes = 0;     // of one host's share of the state
  double write_seconds = 0;  // to write to storage from the hosts' memory, or to read back
  double copy_seconds = 0;   // between devices and host memory (CPU updates: within host memory)
  double fetch_seconds = 0;  // to fetch a share over an idle network; 0 = no network
};
// Computes the costs of one checkpoint of `point`. Throws ConfigError if the strategy refuses the
// job.
CheckpointCosts checkpoint_costs(const Checkpoints& checkpoints, const Point& point);

// Samples per second of the point's strategy in `job`, divided by the samples per second in
// `of_all`, the result of the point's own job. Simulates `job` with the loop executor
// (engine/executor.hpp), not with SimGrid. Throws ConfigError if the strategy refuses `job`.
double share_of_speed(const Point& point, Job job, const StrategyResult& of_all);

// Training speed, relative to `of_all`, while the hosts write a checkpoint to storage over the same
// NICs that training uses; at most 1, and exactly 1 if the job has only one host.
double speed_while_writing(const Checkpoints& checkpoints, const Point& point,
                           const StrategyResult& of_all);

// Plan of the copies of the state that hosts hold for each other in memory (`checkpoint.peers`). A
// copy is sent only while training leaves the NICs idle, and a copy must end before the next one
// starts. `steps_per_second` counts optimizer steps.
MemoryCopies memory_copies(const PeerCopies& peers, const CheckpointCosts& costs,
                           const StrategyResult& of_all, double steps_per_second);

// Adds to `use` the bytes that checkpoints occupy in the memory of one host, and sets the host's
// capacity. Does nothing unless writes are staged or hosts hold copies for each other.
void add_checkpoint_memory(const Scenario& scenario, const Point& point, MemoryUse& use);

}  // namespace lockstep
