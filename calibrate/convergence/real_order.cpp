// Replays a real run's own order of updates, and compares losses. For strategies with a server, the
// order is the server's record of pushes. For synchronous strategies, it follows from their
// definition.
#include "convergence/real_order.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "convergence/replay.hpp"
#include "torch/real_network.hpp"

namespace lockstep {

namespace {

// The largest relative difference of losses for one rank. The report does not have the warm-up
// steps, which `replayed` has.
double loss_difference(const std::vector<double>& replayed, const RankReport& report,
                       std::size_t warm_up) {
  double most = 0;
  for (std::size_t i = 0; i < report.steps.size() && warm_up + i < replayed.size(); ++i) {
    const double real = report.steps[i].loss;
    most = std::max(most, std::abs(replayed[warm_up + i] - real) / std::abs(real));
  }
  return most;
}

UpdateSchedule schedule_of(const TrainOptions& options, const std::vector<RankReport>& reports) {
  if (has_server(options.strategy)) {
    UpdateSchedule schedule;
    schedule.workers = options.ranks;
    schedule.pushes = reports.back().pushes;
    if (options.strategy == RunStrategy::fedavg) {
      schedule.exchange = Exchange::differences;
      schedule.local_steps = options.every;
    }
    return schedule;
  }
  if (options.strategy == RunStrategy::diloco && options.ranks > 1) {
    UpdateSchedule schedule = synchronous_schedule(
        options.ranks, (options.warm_up + options.steps) / options.every, 0, 0);
    schedule.exchange = Exchange::parameters;
    schedule.local_steps = options.every;
    schedule.outer_rate = options.outer_rate;
    schedule.outer_momentum = options.outer_momentum;
    return schedule;
  }
  UpdateSchedule schedule =
      synchronous_schedule(options.ranks, options.warm_up + options.steps, 0, 0);
  if (options.comm_hook == RealHook::fp16) schedule.mean.element = GradientElement::fp16;
  if (options.comm_hook == RealHook::top_k) {
    schedule.mean.compression = Compression::top_k;
    schedule.mean.fraction = options.hook_fraction;
  }
  if (options.comm_hook == RealHook::powersgd) {
    schedule.mean.compression = Compression::powersgd;
    schedule.mean.rank = options.hook_rank;
  }
  return schedule;
}

}  // namespace

ReplayedRun replay_real_run(const TrainOptions& options, const std::vector<RankReport>& reports) {
  at::set_num_threads(1);
  const TrainingStep step = build_step(*load_model(options.model), options.step);
  const auto seed = static_cast<std::uint64_t>(options.seed);
  const ImageSets data = read_data_set(options.data, output_classes(step), seed);
  const UpdateSchedule schedule = schedule_of(options, reports);
  LearningPlan plan;
  plan.optimizer = options.optimizer;
  plan.running_statistics =
      has_server(options.strategy) ? RunningStatistics::untouched : RunningStatistics::first_worker;
  plan.seed = seed;
  plan.evaluations = 1;
  const double samples = static_cast<double>(schedule.pushes.size()) * schedule.local_steps *
                         static_cast<double>(step.samples);
  plan.epochs = samples / static_cast<double>(data.train.count);
  const ReplayResult result = replay(step, schedule, data, plan);
  ReplayedRun replayed;
  for (int rank = 0; rank < options.ranks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    replayed.loss_difference = std::max(replayed.loss_difference,
                                        loss_difference(result.losses.at(r), reports.at(r),
                                                        static_cast<std::size_t>(options.warm_up)));
  }
  replayed.test_accuracy = result.curve.back().accuracy;
  return replayed;
}

}  // namespace lockstep
