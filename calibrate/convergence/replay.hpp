// Real training on real data in the order of a simulation (a replay). Each gradient is computed on
// the parameters, perhaps stale, that the worker has read in the simulation, and gradients are
// applied in the order of the schedule. Times are simulated, learning is real. Includes no
// LibTorch.
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

// The gradients whose norm clipping bounds: the mean that updates the parameters, or each push.
enum class Clipped { mean, pushes };

struct LearningPlan {
  OptimizerSpec optimizer;       // its learning rate is the initial one, after scaling
  int accumulation = 1;          // micro-batches in one batch
  double gradient_clipping = 0;  // largest norm (clip_grad_norm_); 0 = no clipping
  // mean: the norm of the update's gradient (DDP, FSDP). pushes: the norm of each gradient that a
  // worker pushes or uses for a local step.
  Clipped clipped = Clipped::mean;
  MomentumPlace momentum_at = MomentumPlace::server;
  // RateSchedule::steps: a tenth after 1/2, a hundredth after 3/4.
  RateSchedule rate_schedule = RateSchedule::constant;
  double warm_up_epochs = 0;  // epochs in which the rate grows linearly from 0
  Initialisation initialisation = Initialisation::layers;
  RunningStatistics running_statistics = RunningStatistics::first_worker;
  double epochs = 1;  // passes over the data, of all workers together
  // Evaluations on the test set, spread over the run; at least one at its end.
  int evaluations = 10;
  std::int64_t test_samples = 0;  // 0 = all
  std::uint64_t seed = 1;         // seed of initial values and of the order of the data
  // Largest number of batches, after which the run ends even before `epochs`; 0 = no limit.
  std::int64_t most_batches = 0;
};

struct ReplayResult {
  AccuracyCurve curve;
  bool diverged = false;                    // a loss was not finite, which ended the run
  bool complete = true;                     // false: the schedule was shorter than the epochs
  std::vector<std::vector<double>> losses;  // by worker: loss of each of its batches
  double wall_seconds = 0;                  // real seconds of training, without evaluations
  double batch_seconds = 0;  // median real seconds of forward and backward of one batch
  std::int64_t train_images = 0, test_images = 0;  // sizes of the data set
};

// The learning rate after `epochs`, divided by the plan's initial rate.
double rate_factor(const LearningPlan& plan, double epochs);

// Runs the replay. `step`: the training step of one worker's micro-batch. `progress` is called with
// the finished share (0 to 1), and may throw to end the replay.
ReplayResult replay(const TrainingStep& step, const UpdateSchedule& schedule, const ImageSets& data,
                    const LearningPlan& plan, const std::function<void(double)>& progress = {});

}  // namespace lockstep
