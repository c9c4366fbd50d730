// Costs of a point's checkpoints: bytes, seconds, memory of hosts, and what training pays beside
// them.
#pragma once

#include "faults/long_run.hpp"
#include "points/misfits.hpp"
#include "points/points.hpp"
#include "results/record.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

struct CheckpointCosts {
  double bytes = 0;          // of the whole state
  double host_bytes = 0;     // of the share that a host keeps
  double write_seconds = 0;  // to storage, or from there
  double copy_seconds = 0;   // between the devices of a host and its memory
  double fetch_seconds = 0;  // of a share from another host, while the network has nothing else
};
CheckpointCosts checkpoint_costs(const Checkpoints& checkpoints, const Point& point);

// The share of the samples per second with `of_all` that the point's strategy does in `job`. The loop simulates it.
double share_of_speed(const Point& point, Job job, const StrategyResult& of_all);

// The share of the speed that is left while the hosts write to storage over the network that training uses, too.
double speed_while_writing(const Checkpoints& checkpoints, const Point& point,
                           const StrategyResult& of_all);

// Copies in hosts' memory: in the time that the busiest NIC has left beside training, and no more often
// than that allows. `steps_per_second` of training.
MemoryCopies memory_copies(const PeerCopies& peers, const CheckpointCosts& costs,
                           const StrategyResult& of_all, double steps_per_second);

// Adds to `use` what checkpoints keep in the memory of the fullest host.
void add_checkpoint_memory(const Scenario& scenario, const Point& point, MemoryUse& use);

}  // namespace lockstep
