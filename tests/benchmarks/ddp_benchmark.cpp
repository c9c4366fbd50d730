// How fast is the simulator? The input is 100 steps of a 50-layer model at 8 to 16384 ranks, with
// DDP and eleven buckets or with hybrid sharding and a unit per layer. A process can hold only one
// World, so every repetition is a forked child. The benchmark counts the child's processor time
// (one thread, without the fork), so that other work on the machine does not matter.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <ctime>

#include "../strategies/toy_job.hpp"

namespace lockstep {
namespace {

// 50 layers of 2.5 M parameters: 500 MB of gradients, five layers to a bucket of 50 MB.
Job benchmark_job(int gpus, bool jitter, bool interference) {
  Job job = testing::toy_job(50, 2.5e6, gpus);
  job.simulation.steps = 99;  // 99 steps after the first
  job.simulation.interference = interference;
  if (jitter) job.stragglers.per_step = Lognormal{0.05};
  return job;
}

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void measure(benchmark::State& state, const StrategyOptions& options, bool jitter,
             bool interference) {
  Job job = benchmark_job(static_cast<int>(state.range(0)), jitter, interference);
  job.simulation.engine = Engine::loop;
  double memory = 0;
  double steps = 0;
  for (auto _ : state) {
    const auto numbers = in_child([&] {
      const double start = processor_seconds();
      const StrategyResult result = make_strategy(options)->simulate(job);
      const double took = processor_seconds() - start;
      rusage usage{};
      getrusage(RUSAGE_SELF, &usage);
      return std::vector<double>{took, static_cast<double>(usage.ru_maxrss) * 1024,
                                 static_cast<double>(result.step_seconds.size())};
    });
    state.SetIterationTime(numbers[0]);
    memory = numbers[1];
    steps = numbers[2];
  }
  state.counters["peak_MB"] = memory / 1e6;
  state.counters["steps"] = steps;
}

DdpOptions ddp() {
  DdpOptions options;
  options.bucket_bytes = 50e6;
  return options;
}
FsdpOptions hybrid() {
  FsdpOptions options;
  options.sharding = Sharding::hybrid_shard;
  return options;
}

void jitter(benchmark::State& state) {
  measure(state, ddp(), true, false);
}
void jitter_and_interference(benchmark::State& state) {
  measure(state, ddp(), true, true);
}
void symmetric(benchmark::State& state) {
  measure(state, ddp(), false, false);
}
void symmetric_and_interference(benchmark::State& state) {
  measure(state, ddp(), false, true);
}
void hybrid_jitter(benchmark::State& state) {
  measure(state, hybrid(), true, false);
}
void hybrid_jitter_and_interference(benchmark::State& state) {
  measure(state, hybrid(), true, true);
}

void ranks(benchmark::internal::Benchmark* b) {
  b->Arg(8)->Arg(64)->Arg(1024)->Arg(4096)->Arg(16384)->UseManualTime()->Unit(
      benchmark::kMillisecond);
}
BENCHMARK(jitter)->Apply(ranks);
BENCHMARK(jitter_and_interference)->Apply(ranks);
BENCHMARK(symmetric)->Apply(ranks);
BENCHMARK(symmetric_and_interference)->Apply(ranks);
BENCHMARK(hybrid_jitter)->Apply(ranks);
BENCHMARK(hybrid_jitter_and_interference)->Apply(ranks);

}  // namespace
}  // namespace lockstep

BENCHMARK_MAIN();
