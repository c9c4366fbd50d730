// How fast are long runs with failures? The input is 16,384 GPUs for 30 days with a failure every 3
// hours, in twenty repetitions (the number that a scenario plays), with every kind of recovery.
#include <benchmark/benchmark.h>

#include "../faults/fixture.hpp"

namespace lockstep {
namespace {

LongRun month() {
  LongRun plan = gang(2048, 30 * 86400 / 5.0, 1 / (3 * 3600.0) / 2048);
  plan.steps_per_second.back() = 1 / 5.0;
  plan.steps_between_checkpoints = 60;
  plan.write_seconds = 5;
  plan.faults.restart_seconds = 300;
  return plan;
}

void play_often(benchmark::State& state, const LongRun& plan) {
  for (auto _ : state) {
    for (int run = 0; run < 20; ++run) benchmark::DoNotOptimize(play(plan, 1, run));
  }
}

void month_of_2048_nodes(benchmark::State& state) {
  play_often(state, month());
}
BENCHMARK(month_of_2048_nodes)->Unit(benchmark::kMillisecond);

// Staged checkpoints, a copy in memory after every step, hot spares, and slow nodes that are
// evicted.
void month_of_2048_nodes_with_copies(benchmark::State& state) {
  LongRun plan = month();
  plan.copy_seconds = 1;
  plan.speed_while_writing = 0.9;
  plan.memory = {2, 1, 3, 2, 1};
  plan.speeds.slows = 1 / (24 * 3600.0) / 2048;
  plan.speed_with_slow_node = 0.8;
  plan.faults.degraded = Degraded{{}, 1.5, 1200};
  plan.faults.hot_restart_seconds = 60;
  plan.faults.repair_seconds = 12 * 3600;
  plan.faults.spare_nodes = 16;
  play_often(state, plan);
}
BENCHMARK(month_of_2048_nodes_with_copies)->Unit(benchmark::kMillisecond);

void month_of_256_replicas(benchmark::State& state) {
  LongRun plan = month();
  for (int nodes = 8; nodes < 2048; nodes += 8)
    plan.steps_per_second[static_cast<std::size_t>(nodes)] = nodes / 2048.0 / 5.0;
  plan.replica_nodes = 8;
  plan.faults.repair_seconds = 12 * 3600;
  plan.faults.spare_nodes = 16;
  play_often(state, plan);
}
BENCHMARK(month_of_256_replicas)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lockstep
