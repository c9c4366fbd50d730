// How fast is the simulator with asynchronous workers that share a server's link, on the loop? The
// arguments are the numbers of workers and of updates per worker; the result is processor time.
#include <benchmark/benchmark.h>

#include "../strategies/ps_fixture.hpp"

namespace lockstep {
namespace {

void asynchronous(benchmark::State& state) {
  testing::ToySystem toy;
  toy.workers = static_cast<int>(state.range(0));
  toy.steps = static_cast<int>(state.range(1));
  toy.bandwidth = 50e9;
  toy.update = 50e-6;
  toy.sigma = 0.3;
  toy.rule = lockstep::asynchronous();
  const PsSystem system = testing::make_system(toy);
  for (auto _ : state) benchmark::DoNotOptimize(run_parameter_server(system));
}
BENCHMARK(asynchronous)
    ->Args({64, 1000})
    ->Args({512, 1000})
    ->Args({4096, 100})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lockstep
