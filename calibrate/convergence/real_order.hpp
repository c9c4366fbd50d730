// A check of the replay: a real run's own order of updates, replayed, must give the real run's
// losses. Used by `lockstep train` on request.
#pragma once

#include <vector>

#include "runs/train_options.hpp"

namespace lockstep {

struct ReplayedRun {
  double loss_difference = 0;  // largest, relative to the real run's loss; of the measured steps
  double test_accuracy = 0;    // of the shared parameters after the last update
};

// `reports`: of a real run of DDP, DiLoCo or with a server on data (TrainOptions::data), the
// server's last.
ReplayedRun replay_real_run(const TrainOptions& options, const std::vector<RankReport>& reports);

}  // namespace lockstep
