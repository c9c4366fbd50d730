// Real SGD on real data in the order that a simulation says: gradients are computed on exactly the
// stale parameters that a worker had read, and applied in exactly the order of the schedule. The
// clock is simulated, the learning is real. No LibTorch in this header.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/fields.hpp"
#include "costs/optimizer.hpp"
#include "results/schedule.hpp"
#include "runs/images.hpp"
#include "workload/step.hpp"

namespace lockstep {

// Where momentum is kept.
enum class MomentumPlace { server, worker };
template <>
struct EnumNames<MomentumPlace> {
  static constexpr std::array names{"server", "worker"};
};

enum class RateSchedule { constant, cosine, steps };
template <>
struct EnumNames<RateSchedule> {
  static constexpr std::array names{"constant", "cosine", "steps"};
};

struct LearningPlan {
  OptimizerSpec optimizer;  // its learning rate is the one at the beginning, scaling applied
  MomentumPlace momentum_at = MomentumPlace::server;
  RateSchedule rate_schedule = RateSchedule::constant;  // steps: a tenth after 1/2 and after 3/4
  double warm_up_epochs = 0;  // the rate grows from nothing to its value in these
  double epochs = 1;          // of all workers together
  int evaluations = 10;       // of the test set, spread over the run; at least the one at its end
  std::int64_t test_samples = 0;  // 0 = all
  std::uint64_t seed = 1;         // of initial values and of the order of the data
};

// What the shared parameters were worth at some moment.
struct AccuracyPoint {
  double time = 0;           // simulated seconds
  double epochs = 0;         // of all workers together
  std::int64_t updates = 0;  // of the first message
  double accuracy = 0;       // share of the test set
  double loss = 0;           // mean over the training batches since the point before
};

struct ReplayResult {
  std::vector<AccuracyPoint> curve;
  bool diverged = false;    // a loss was not finite: the run ended there
  bool complete = true;     // false: the schedule was shorter than the epochs
  double wall_seconds = 0;  // of training, evaluations apart
};

// The rate at `epochs` of the plan, as a factor of the one that the plan begins with.
double rate_factor(const LearningPlan& plan, double epochs);

// `step`: of one worker's batch. Hears the share that is done and may throw to end it.
ReplayResult replay(const TrainingStep& step, const UpdateSchedule& schedule, const ImageSets& data,
                    const LearningPlan& plan, const std::function<void(double)>& progress = {});

}  // namespace lockstep
