// Measures collectives between processes: their duration, their CPU time, and whether their results
// are right. Includes no LibTorch.
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
  std::vector<double> sizes;  // bytes as in nccl-tests, ascending
  // A repetition is a series of calls without pauses. It lasts at least this long (but has at most
  // 32 calls), so that a link's token bucket is as empty as in training.
  double series_seconds = 0.02;
  StoppingRule rule{.relative_width = 0.05, .minimum = 7, .maximum = 60};
  // After so many seconds, a point gets no repetitions beyond the rule's minimum and no further
  // attempts.
  double seconds_per_point = 8;
  // Collectives of at least this size are also measured during computation. Smaller ones end before
  // much is computed.
  double least_beside_compute = 1024 * 1024;
  // If true, send_recv of such sizes is also measured with both ranks on rank 0's core, because a
  // server may share its core with a worker.
  bool one_core = false;
};

struct CollectivePoint {
  Collective collective = Collective::all_reduce;
  double bytes = 0;            // bytes as in nccl-tests, rounded down to whole elements
  std::int64_t count = 0;      // float elements per rank, as in nccl-tests
  double seconds = 0;          // median over the repetitions
  double relative_iqr = 0;     // (75th - 25th percentile) / median
  double relative_spread = 0;  // (90th percentile - median) / median
  // CPU seconds of one rank per call: mean over ranks, median over repetitions.
  double cpu_seconds = 0;
  // Speeds while every rank computes during the collective: of the compute and of the collective,
  // each relative to its speed without the other. 0 = not measured.
  double compute_speed = 0;
  double speed_beside_compute = 0;
  // Long send_recv: seconds after which the sender is free; 0 = not measured.
  double sender_seconds = 0;
  // send_recv, if planned: seconds with both ranks on one core; 0 = not measured.
  double one_core_seconds = 0;
  std::int64_t wrong = 0;  // elements with a wrong value, on all ranks together
  int repetitions = 0;
  Disturbance disturbance;  // use of the machine by others during the measurement
  // Other processes disturbed each of up to three attempts; the point is the least disturbed one.
  bool disturbed = false;
};

// Measures the collectives of `plan`. All ranks must call it. Every rank gets the same results
// except `disturbance`. The ranks must share one clock, so they must run on one machine. The time
// of a series runs from the start of the last rank to the end of the last rank, and is divided by
// the number of calls. Broadcasts change the root from call to call, so that no rank can run ahead.
// send_recv is one message from rank 0 to rank 1 (half of a round trip), in which the other ranks
// take no part.
void probe_collectives(Group& group, const CollectivePlan& plan,
                       const std::function<void(const CollectivePoint&)>& on_point);

}  // namespace lockstep
