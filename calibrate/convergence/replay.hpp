// Real SGD on real data in the order of a simulation: gradients are computed on exactly the stale
// parameters that a worker had read, and applied in exactly the order of the schedule. The clock is
// simulated, the learning is real. No LibTorch in this header.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "costs/optimizer.hpp"
#include "results/learning.hpp"
#include "results/schedule.hpp"
#include "runs/images.hpp"
#include "workload/step.hpp"

namespace lockstep {

// The vector whose norm gradient clipping bounds.
enum class Clipped { mean, pushes };

struct LearningPlan {
  OptimizerSpec optimizer;       // its learning rate is the one at the beginning, scaling applied
  int accumulation = 1;          // forwards and backwards, of the step's samples each, in one batch
  double gradient_clipping = 0;  // largest norm, as clip_grad_norm_ has it; 0 = none
  // Norm of the update's gradient (DDP, FSDP), or of each gradient that a worker pushes or steps
  // along.
  Clipped clipped = Clipped::mean;
  MomentumPlace momentum_at = MomentumPlace::server;
  RateSchedule rate_schedule = RateSchedule::constant;  // steps: a tenth after 1/2 and after 3/4
  double warm_up_epochs = 0;  // the rate grows from nothing to its value in these
  Initialisation initialisation = Initialisation::layers;
  RunningStatistics running_statistics = RunningStatistics::first_worker;
  double epochs = 1;     // of all workers together
  int evaluations = 10;  // of the test set, spread over the run; at least the one at its end
  std::int64_t test_samples = 0;  // 0 = all
  std::uint64_t seed = 1;         // of initial values and of the order of the data
  // The run ends after so many batches, however many epochs it has; 0 = never.
  std::int64_t most_batches = 0;
};

struct ReplayResult {
  AccuracyCurve curve;
  bool diverged = false;                    // a loss was not finite: the run ended there
  bool complete = true;                     // false: the schedule was shorter than the epochs
  std::vector<std::vector<double>> losses;  // by worker: of each of its batches
  double wall_seconds = 0;                  // of training, evaluations apart
  double batch_seconds = 0;                 // median of forward and backward of one batch
  std::int64_t train_images = 0, test_images = 0;  // of the data set
};

// The rate at `epochs` of the plan, as a factor of the one that the plan begins with.
double rate_factor(const LearningPlan& plan, double epochs);

// `step`: of one worker's micro-batch. Hears the share that is done and may throw to end it.
ReplayResult replay(const TrainingStep& step, const UpdateSchedule& schedule, const ImageSets& data,
                    const LearningPlan& plan, const std::function<void(double)>& progress = {});

}  // namespace lockstep
