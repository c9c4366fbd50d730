// Calibrates this machine, predicts trainings, trains for real and compares (docs/closed-loop.md).
// `lockstep closed-loop` calls it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strategies/common/straggler_options.hpp"
#include "workload/precision.hpp"

namespace lockstep {

// The training, which real runs and the scenario have in common.
struct Training {
  std::string model = "resnet18";
  std::vector<std::int64_t> image;  // empty = the model's default
  std::int64_t classes = 0, sequence = 0;
  std::int64_t batch = 8;  // samples of one rank
  Precision precision = Precision::fp32;
  int ranks = 2;
  int staleness_bound = 1;
  int every = 4;            // diloco, fedavg: steps between exchanges
  double participants = 1;  // fedavg: share of the ranks in a round
  std::vector<SlowRank> slow_ranks;
};

struct ClosedLoopOptions : Training {
  std::string network = "loopback";
  std::string sizes = "16KiB,1MiB,8MiB,64MiB";  // sizes of the measured curves
  std::vector<std::string> strategies;          // empty = all
  int steps = 20, repetitions = 2;
  double layers_seconds = 5;      // time for measuring layers before each run
  double collective_seconds = 1;  // time for each size of each collective
  std::string folder;             // folder for profile, platform and scenario; "" = a temporary one
  bool keep_profile = false;      // use the existing profile in `folder`
  std::optional<double> max_error;
};
// Runs the loop. Returns exit_code() of the report (report.hpp), or 130 after Ctrl-C.
int closed_loop_command(ClosedLoopOptions options);

}  // namespace lockstep
