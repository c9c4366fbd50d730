// Checks the replay (replay.hpp): if it replays the order of updates of a real run, it must give
// the real run's losses. `lockstep train` uses it on request.
#pragma once

#include <vector>

#include "runs/train_options.hpp"

namespace lockstep {

struct ReplayedRun {
  // Largest difference in the measured steps, relative to the real run's loss.
  double loss_difference = 0;
  double test_accuracy = 0;  // accuracy of the shared parameters after the last update
};

// `reports`: the reports of a real run with DDP, DiLoCo or a server, the server's report last.
ReplayedRun replay_real_run(const TrainOptions& options, const std::vector<RankReport>& reports);

}  // namespace lockstep
