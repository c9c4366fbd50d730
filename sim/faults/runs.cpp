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
    const LongRunResult played = play(plan, seed, run);
    seconds.push_back(played.seconds);
    if (!played.finished) ++all.unfinished;
    all.failures += played.failures;
    all.interruptions += played.interruptions;
    all.training += played.training;
    all.lost += played.lost;
    all.checkpoints += played.checkpoints;
    all.down += played.down;
    all.waiting += played.waiting;
    node_seconds += played.node_seconds;
    away_seconds += played.away_seconds;
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
