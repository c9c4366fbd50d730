// Is every part of the step booked under its cause? Only a slow data loader, or the copy of a
// batch, counts as data loading.
#include "costs/collective.hpp"
#include "questions/explain.hpp"
#include "questions/run.hpp"
#include "scenario/helpers.hpp"

namespace lockstep::attribution_test {
namespace {

using testing::HasSubstr;

// Models that the device bounds and models that the host bounds, with every strategy, with and
// without offload.
const char* every_strategy =
    "strategies:\n"
    "  - ddp\n"
    "  - fsdp\n"
    "  - fsdp: {version: 2}\n"
    "    label: fsdp2\n"
    "  - fsdp: {cpu_offload: true}\n"
    "    label: offload\n"
    "  - fsdp: {cpu_offload: true, version: 2}\n"
    "    label: offload2\n"
    "  - parameter_server: {consistency: sync}\n"
    "    label: sync\n"
    "  - parameter_server: {consistency: async}\n"
    "    label: async\n";

ResultRecord record_of(const std::string& more) {
  return run_scenario(scenario_of(more));
}

TEST(DataLoading, IsNothingWithoutALoaderAndWithoutCopies) {
  for (const char* workload :
       {"model: lenet5\nprecision: amp-fp16\n", "model: resnet18\ngradient_clipping: 1\n",
        "model: gpt2\nbatch: {micro: 1, accumulation: 2}\nprecision: amp-bf16\n"}) {
    const ResultRecord record = record_of(std::string("gpus: [1, 8]\ndata_loading: {on_device: "
                                                      "true}\n") +
                                          workload + every_strategy);
    ASSERT_EQ(record.predictions.size(), 14U);
    for (const Prediction& p : record.predictions) {
      EXPECT_EQ(p.split.data_loading, 0) << workload << p.strategy << " " << p.gpus;
      EXPECT_THAT(p.bottleneck, testing::Not(HasSubstr("loader")));
    }
  }
}

TEST(DataLoading, IsTheCopyOfTheBatchWhereThatIsAllThereIs) {
  for (const char* workload : {"model: lenet5\nbatch: {micro: 8, accumulation: 4}\n",
                               "model: resnet18\ngradient_clipping: 1\n"}) {
    const Scenario scenario =
        scenario_of(std::string("gpus: [1, 8]\n") + workload + every_strategy);
    const auto points = expand(scenario);
    const auto results = simulate(points);
    for (std::size_t i = 0; i < points.size(); ++i) {
      const double bytes = points[i].job.step->input_bytes;
      const double copy = points[i].job.accumulation *
                          host_device_copy(points[i].job.machine, bytes).seconds(bytes);
      // When the count of steps ends, asynchronous workers are in the middle of a step.
      const double tolerance = points[i].label == "async" ? 0.1 : 1e-6;
      EXPECT_NEAR(results[i].split.data_loading / copy, 1, tolerance)
          << workload << points[i].label;
    }
  }
}

TEST(DataLoading, OfASlowLoaderIsBookedAsBefore) {
  const ResultRecord record = record_of(
      "gpus: [1, 8]\ndata_loading: {samples_per_second: 20}\n"
      "strategies: [ddp, fsdp: {cpu_offload: true}]\n");
  for (const Prediction& p : record.predictions) {
    EXPECT_GT(p.split.data_loading, 0.5 * p.step_seconds) << p.strategy;
    EXPECT_THAT(p.bottleneck, HasSubstr("the data loader delivers too slowly"));
  }
}

TEST(CpuOffload, IsTheOptimizerAndTheDeviceIsIdleMeanwhile) {
  const std::string rest =
      "model: llama2-7b\nbatch: {micro: 1}\nprecision: amp-bf16\noptimizer: {name: adamw}\n"
      "gradient_clipping: 1\nplatform: dgx-h100\ngpus: 8\n";
  for (const char* version : {"1", "2"}) {
    const Scenario scenario =
        scenario_of(rest + "strategies: [fsdp: {cpu_offload: true, version: " + version + "}]\n");
    const auto points = expand(scenario);
    const StrategyResult result = simulate(points).front();
    const Prediction p = summarise_point(scenario, points[0], result);
    const Job& job = points[0].job;
    const double elements = static_cast<double>(points[0].job.step->parameter_count);
    const double update =
        host_optimizer_seconds(job.optimizer, job.step->precision, elements, job.machine.host) +
        clipping_bytes(job.step->precision, elements) / (0.8 * job.machine.host.memory_bandwidth);
    EXPECT_NEAR(p.split.optimizer / update, 1, 0.01) << version;  // shards are padded
    EXPECT_NEAR(sum(p.split) / mean(result.step_seconds), 1, 1e-9);
    EXPECT_THAT(p.bottleneck, HasSubstr("the optimizer on the CPU and its copies take"));
    const double busy = p.split.forward + p.split.backward + p.split.copies;
    EXPECT_NEAR(p.gpu_utilisation, busy / p.step_seconds, 1e-9);
    const Attribution parts = attribute(p, points[0]);
    EXPECT_TRUE(std::any_of(parts.begin(), parts.end(), [&](const auto& part) {
      return part.first == "optimizer on the CPU" && part.second == p.split.optimizer;
    }));
  }
}

}  // namespace
}  // namespace lockstep::attribution_test
