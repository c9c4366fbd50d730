// Plays many runs, one seed each, and adds up what became of them.
#include "core/statistics.hpp"
#include "faults/long_run.hpp"

namespace lockstep {

RunWithFailures play_all(const LongRun& plan, std::uint64_t seed) {
  const int runs = plan.faults.runs;
  RunWithFailures all;
  all.runs = runs;
  std::vector<double> seconds;
  double node_seconds = 0, away_seconds = 0;
  for (int run = 0; run < runs; ++run) {
    const LongRunResult one = play(plan, seed, run);
    seconds.push_back(one.seconds);
    if (!one.finished) ++all.unfinished;
    all.failures += one.failures;
    all.interruptions += one.interruptions;
    all.training += one.training;
    all.lost += one.lost;
    all.checkpoints += one.checkpoints;
    all.down += one.down;
    all.waiting += one.waiting;
    node_seconds += one.node_seconds;
    away_seconds += one.away_seconds;
  }
  for (double* sum : {&all.failures, &all.interruptions, &all.training, &all.lost, &all.checkpoints,
                      &all.down, &all.waiting, &node_seconds, &away_seconds}) {
    *sum /= runs;
  }
  all.finish_seconds = mean(seconds);
  all.finish_interval = {quantile(seconds, 0.05), quantile(seconds, 0.95)};
  if (all.interruptions > 0) {
    all.seconds_between_interruptions = all.finish_seconds / all.interruptions;
  }
  if (all.unfinished == 0) {
    all.goodput = plan.steps / plan.steps_per_second.back() / all.finish_seconds;
  }
  all.availability = (all.training + all.lost + all.checkpoints) / all.finish_seconds;
  all.mean_nodes = node_seconds / all.finish_seconds;
  all.mean_gpus_away = away_seconds / all.finish_seconds;
  return all;
}

}  // namespace lockstep
