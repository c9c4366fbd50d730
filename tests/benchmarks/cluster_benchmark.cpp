// How fast is the scheduler? The input is 10,000 jobs on 64 nodes of 8 GPUs; some of the jobs are
// elastic.
#include <benchmark/benchmark.h>

#include "../cluster/jobs.hpp"
#include "cluster/generated.hpp"

namespace lockstep {
namespace {

void measure_schedule(benchmark::State& state, const std::vector<JobKind>& kinds,
                      const std::vector<ClusterJob>& jobs) {
  const auto policy = static_cast<Policy>(state.range(0));
  for (auto _ : state) {
    benchmark::DoNotOptimize(schedule({64, 8}, kinds, jobs, {policy, 3600 * 8.0}));
  }
  state.SetLabel(enum_name(policy));
}

// 10,000 jobs that arrive over some 130 hours. Every third job is elastic.
void ten_thousand_jobs(benchmark::State& state) {
  GeneratedSpec spec;
  spec.count = 10'000;
  spec.per_hour = 75;
  MixSpec small, large;
  small.weight = 3;
  small.gpus = {1, 2, 4, 8};
  small.duration = LognormalLength{1800, 1.4};
  large.gpus = {16, 32, 64};
  large.duration = LognormalLength{3600, 1};
  spec.mix = {small, large};
  std::vector<JobKind> kinds{linear_kind(64), linear_kind(64)};
  kinds[1].elastic = true;
  std::vector<ClusterJob> jobs;
  for (const JobSpec& drawn : generated_jobs(spec)) {
    jobs.push_back(job_of(drawn.submit, drawn.gpus, drawn.duration));
    jobs.back().kind = jobs.size() % 3 == 0 ? 1 : 0;
  }
  measure_schedule(state, kinds, jobs);
}
BENCHMARK(ten_thousand_jobs)->DenseRange(0, 5)->Unit(benchmark::kMillisecond);

// All jobs arrive within a minute and half of the jobs are elastic, so every event examines a queue
// of thousands.
void ten_thousand_at_once(benchmark::State& state) {
  GeneratedSpec spec;
  spec.count = 10'000;
  spec.per_hour = 1e6;
  MixSpec mix;
  mix.gpus = {1, 2, 4, 8, 16};
  mix.duration = ExponentialLength{3600};
  spec.mix = {mix};
  std::vector<JobKind> kinds{linear_kind(16), linear_kind(16)};
  kinds[1].elastic = true;
  kinds[1].most = 16;
  std::vector<ClusterJob> jobs;
  for (const JobSpec& drawn : generated_jobs(spec)) {
    jobs.push_back(job_of(drawn.submit, drawn.gpus, drawn.duration));
    jobs.back().kind = jobs.size() % 2;
  }
  measure_schedule(state, kinds, jobs);
}
BENCHMARK(ten_thousand_at_once)->DenseRange(0, 3)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lockstep
