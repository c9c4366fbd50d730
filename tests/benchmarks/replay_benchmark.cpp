// How much do stale copies of the weights cost the replay? LeNet-5 is trained alone, and beside
// seventeen workers whose gradients are sixteen updates old. The result is the processor time of
// 200 updates; the goal is at most 10 % more with stale copies.
#include <benchmark/benchmark.h>

#include "../calibrate/replay_plans.hpp"
#include "torch/optimizer.hpp"

namespace lockstep::replay_test {
namespace {

constexpr int updates = 200;

void trained(benchmark::State& state) {
  const TrainingStep step = lenet(32);
  for (auto _ : state) {
    RealNetwork network(step, at::kCPU, 1);
    Optimizer optimizer(plan().optimizer, network);
    const ImageBatches batches(data().train, step, at::kCPU);
    ShardOrder order(data().train.count, 1, 0, 32, 1);
    for (int i = 0; i < updates; ++i) {
      network.drop_gradients();
      network.forward(batches.make(data().train, order.indices(i))).backward();
      optimizer.step();
    }
  }
}
BENCHMARK(trained)->Unit(benchmark::kMillisecond);

void replayed(benchmark::State& state) {
  const TrainingStep step = lenet(32);
  LearningPlan with = plan();
  with.evaluations = 1;
  with.test_samples = 1;
  with.epochs = updates * 32 / static_cast<double>(data().train.count);
  const UpdateSchedule schedule = round_robin(17, updates);
  for (auto _ : state) replay(step, schedule, data(), with);
}
BENCHMARK(replayed)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lockstep::replay_test
