// Plays many runs, each with random failures of its own, and summarises their outcomes: means, the
// 5 % and 95 % quantiles of the finish, and the error of the mean finish. With `until`, runs are
// added until this error is small enough.
#include <cmath>

#include "core/random.hpp"
#include "core/statistics.hpp"
#include "faults/long_run.hpp"

namespace lockstep {

namespace {

// Half of the mean's 95 % interval, divided by the mean (normal approximation).
double error_of_mean(const std::vector<double>& values) {
  const double count = static_cast<double>(values.size());
  return normal_quantile(0.975) * standard_deviation(values) / std::sqrt(count) / mean(values);
}

// Whether the runs suffice: at least the number `runs` was played, and the mean is as precise as
// `until` demands, or the largest number of runs is reached.
bool is_enough(const Faults& faults, const std::vector<double>& seconds) {
  const auto runs = static_cast<int>(seconds.size());
  if (runs < faults.runs) return false;
  return !faults.until || runs >= faults.until->runs ||
         error_of_mean(seconds) <= faults.until->interval;
}

}  // namespace

RunWithFailures play_all(const LongRun& plan, std::uint64_t seed) {
  RunWithFailures all;
  std::vector<double> seconds;
  double node_seconds = 0, away_seconds = 0;
  while (!is_enough(plan.faults, seconds)) {
    const LongRunResult played = play(plan, seed, static_cast<int>(seconds.size()));
    seconds.push_back(played.seconds);
    if (!played.finished) ++all.unfinished;
    all.failures += played.failures;
    all.interruptions += played.interruptions;
    all.training += played.training;
    all.lost += played.lost;
    all.checkpoints += played.checkpoints;
    all.down += played.down;
    all.waiting += played.waiting;
    all.evictions += played.evictions;
    all.memory_restarts += played.memory_restarts;
    node_seconds += played.node_seconds;
    away_seconds += played.away_seconds;
  }
  for (double* sum :
       {&all.failures, &all.interruptions, &all.training, &all.lost, &all.checkpoints, &all.down,
        &all.waiting, &all.evictions, &all.memory_restarts, &node_seconds, &away_seconds}) {
    *sum /= static_cast<double>(seconds.size());
  }
  all.runs = static_cast<int>(seconds.size());
  all.finish_seconds = mean(seconds);
  all.finish_error = error_of_mean(seconds);
  all.finish_interval = {quantile(seconds, 0.05), quantile(seconds, 0.95)};
  if (all.interruptions > 0) {
    all.seconds_between_interruptions = all.finish_seconds / all.interruptions;
  }
  // Goodput: the run's time without failures and checkpoints, divided by the mean finish.
  if (all.unfinished == 0) {
    all.goodput = plan.steps / plan.steps_per_second.back() / all.finish_seconds;
  }
  all.availability = (all.training + all.lost + all.checkpoints) / all.finish_seconds;
  all.mean_nodes = node_seconds / all.finish_seconds;
  all.mean_gpus_away = away_seconds / all.finish_seconds;
  return all;
}

}  // namespace lockstep
