// How fast are long runs with failures: 16,384 GPUs for 30 days, failing every 3 hours, twenty times as
// a scenario has them played.
#include <benchmark/benchmark.h>

#include "../faults/fixture.hpp"

namespace lockstep {
namespace {

void month_of_2048_nodes(benchmark::State& state) {
  LongRun plan = gang(2048, 30 * 86400 / 5.0, 1 / (3 * 3600.0) / 2048);
  plan.steps_per_second.back() = 1 / 5.0;
  plan.steps_between_checkpoints = 60;
  plan.write_seconds = 5;
  plan.faults.restart_seconds = 300;
  for (auto _ : state) {
    for (int run = 0; run < 20; ++run) benchmark::DoNotOptimize(play(plan, 1, run));
  }
}
BENCHMARK(month_of_2048_nodes)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lockstep
