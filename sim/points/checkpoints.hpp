// Costs of a point's checkpoints: bytes, seconds, host memory, and the slowdown of training beside
// them. Used for scenarios with `faults:`; the long run (faults/long_run.hpp) plays these costs.
#pragma once

#include "faults/long_run.hpp"
#include "points/misfits.hpp"
#include "points/points.hpp"
#include "results/record.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

// Bytes and durations of one checkpoint. Hosts write, copy and fetch in parallel, so the seconds
// are the time of one host for its share.
struct CheckpointCosts {
  double bytes = 0;          // of the whole state
  double host_bytes = 0;     // of one host's share of the state
  double write_seconds = 0;  // between the hosts' memory and storage, each way
  double copy_seconds = 0;   // between the devices of a host and its memory
  double fetch_seconds = 0;  // for a share from another host, over an otherwise idle network
};
// Prices one checkpoint of `point`. Throws ConfigError if the strategy refuses the job.
CheckpointCosts checkpoint_costs(const Checkpoints& checkpoints, const Point& point);

// Samples per second of the point's strategy in `job`, relative to the simulation `of_all`.
// Simulates `job` on the loop. Throws ConfigError if the strategy refuses `job`.
double share_of_speed(const Point& point, Job job, const StrategyResult& of_all);

// Training speed while the hosts write a checkpoint to storage over the NICs that training uses,
// too; relative to the speed of `of_all`, at most 1.
double speed_while_writing(const Checkpoints& checkpoints, const Point& point,
                           const StrategyResult& of_all);

// Plan of the state's copies in the memory of other hosts (`checkpoint.peers`). A copy uses only
// the time that the NICs are idle beside training, and the next copy starts no earlier than its
// end. `steps_per_second`: optimizer steps of training.
MemoryCopies memory_copies(const PeerCopies& peers, const CheckpointCosts& costs,
                           const StrategyResult& of_all, double steps_per_second);

// Adds the bytes of checkpoints in the memory of one host to `use`, with the host's capacity.
void add_checkpoint_memory(const Scenario& scenario, const Point& point, MemoryUse& use);

}  // namespace lockstep
