// Calibrates this machine, predicts, trains and compares: docs/closed-loop.md. Called by `lockstep
// closed-loop`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strategies/common/straggler_options.hpp"
#include "workload/precision.hpp"

namespace lockstep {

// The training, equal in real runs and in the scenario that describes them.
struct Training {
  std::string model = "resnet18";
  std::vector<std::int64_t> image;  // empty, 0 = the model's default
  std::int64_t classes = 0, sequence = 0;
  std::int64_t batch = 8;  // of one rank
  Precision precision = Precision::fp32;
  int ranks = 2;
  int staleness_bound = 1;
  int every = 4;            // diloco, fedavg: steps between exchanges
  double participants = 1;  // fedavg: share of the ranks in a round
  std::vector<SlowRank> slow_ranks;
};

struct ClosedLoopOptions : Training {
  std::string network = "loopback";
  std::string sizes = "16KiB,1MiB,8MiB,64MiB";  // of the measured curves
  std::vector<std::string> strategies;          // empty = all
  int steps = 20, repetitions = 2;
  double layers_seconds = 5;      // for the layers, before each run
  double collective_seconds = 1;  // for each size of each collective
  std::string folder;             // keeps profile, platform and scenario; "" = none
  bool keep_profile = false;      // use the profile that is in `folder`
  std::optional<double> max_error;
};
// The exit code: exit_code() of the report (closed_loop/report.hpp).
int closed_loop_command(ClosedLoopOptions options);

}  // namespace lockstep
