// How long collectives take between processes, how much CPU time they cost, and whether their
// results are right. Plain interface: no LibTorch in here.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "costs/nccl_tuning.hpp"
#include "launch/machine_state.hpp"
#include "launch/stopping.hpp"

namespace lockstep {

class Group;

struct CollectivePlan {
  std::vector<Collective> collectives;
  std::vector<double> sizes;  // bytes as nccl-tests counts them, ascending
  // A repetition is a series of calls, one right after the other, of at least this much time (or
  // 32 calls), so that a link's token bucket is as empty as in training.
  double series_seconds = 0.02;
  StoppingRule rule{.relative_width = 0.05, .minimum = 7, .maximum = 60};
  // No repetitions beyond the rule's minimum and no further attempts after that.
  double seconds_per_point = 8;
  // From this size on also beside computation. Smaller ones end before much is computed.
  double least_beside_compute = 1024 * 1024;
  // Also send_recv of such sizes with both ranks on rank 0's core, where a server may have to be.
  bool one_core = false;
};

struct CollectivePoint {
  Collective collective = Collective::all_reduce;
  double bytes = 0;            // sent bytes: whole elements, the same on every rank
  std::int64_t count = 0;      // float elements per rank, as nccl-tests prints them
  double seconds = 0;          // median over the repetitions
  double relative_iqr = 0;     // (75th - 25th percentile) / median
  double relative_spread = 0;  // (90th percentile - median) / median
  double cpu_seconds = 0;      // of one rank's process per call: median, mean of the ranks
  // While every rank computes beside it, relative to alone: how fast the ranks compute, and how
  // fast it is itself. 0 = not measured.
  double compute_speed = 0;
  double speed_beside_compute = 0;
  double sender_seconds = 0;    // send_recv, long ones: after which the sender is free; 0 = unknown
  double one_core_seconds = 0;  // send_recv, if planned: both ranks on one core; 0 = not measured
  std::int64_t wrong = 0;       // elements with a wrong value, all ranks together
  int repetitions = 0;
  Disturbance disturbance;  // while it was measured
  bool disturbed = false;  // others were busy in each of up to three attempts; the quietest is kept
};

// Measures in all ranks together; every rank gets the same figures but `disturbance`, which is the
// machine's as rank 0 sees it. The ranks must share one clock, i.e. be on one machine. Time: from
// the start of the last rank to the end of the last rank, by call. Broadcast: the root moves on
// from call to call, so that no rank can run ahead. send_recv: one message from rank 0 to rank 1
// (half of there and back); the other ranks watch.
void probe_collectives(Group& group, const CollectivePlan& plan,
                       const std::function<void(const CollectivePoint&)>& on_point);

}  // namespace lockstep
