// Does a trace that the simulator wrote import as the layer times with which it was simulated?
#include <gtest/gtest.h>

#include <filesystem>

#include "imports/compared_layers.hpp"
#include "imports/import_trace.hpp"
#include "points/points.hpp"
#include "test_folder.hpp"
#include "timeline/timeline.hpp"

namespace lockstep::own_trace_test {
namespace {

void expect_round_trip(const std::string& model, const std::string& optimizer) {
  const Scenario scenario = read_scenario_text(
      "name: test\nmodel: " + model + "\nplatform: dgx-a100-80gb\ngpus: [1]\n" +
          "batch: {micro: 16}\nstrategies: [ddp]\noptimizer: " + optimizer + "\n",
      "test.yaml");
  const Point point = expand(scenario).front();
  Job job = point.job;
  job.simulation.steps = 3;
  Timeline timeline(job, {});
  job.simulation.observer = &timeline;
  point.strategy->simulate(job);
  const std::string path = test_folder().file("own_trace.json");
  TraceHeader header;
  header.device = job.machine.device.title;
  write_trace(path, trace_document(header, timeline.events("", 0)));
  const TraceImport imported = import_trace(path, *job.step);

  EXPECT_TRUE(imported.on_gpu);
  EXPECT_EQ(imported.profile.device, job.machine.device.title);
  EXPECT_GT(imported.attributed, 0.95);  // the rest is the batch's copy and zero_grad
  const auto& layers = imported.profile.models.at(0).batches.at(0).layers;
  ASSERT_EQ(layers.size(), job.step->layers.size());
  const double rounding = 1e-10;  // of each slice in the file
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerCost cost = job.costs->layer(*job.step, i);
    EXPECT_EQ(layers[i].name, job.step->layers[i].name);
    EXPECT_NEAR(layers[i].forward_seconds, cost.forward.busy, rounding) << layers[i].name;
    EXPECT_NEAR(layers[i].backward_seconds.value(), cost.backward.busy, rounding) << layers[i].name;
  }
  // Compared with the model that wrote the trace, no layer differs.
  for (const ComparedLayers& each : compare_layers(imported.profile.models[0].batches[0], *job.step,
                                                   job.machine.device, ComparedBy::layers)) {
    EXPECT_NEAR(each.forward.measured, each.forward.modelled, each.layers * rounding) << each.name;
    EXPECT_NEAR(each.backward->measured, each.backward->modelled, each.layers * rounding);
  }
  ASSERT_EQ(imported.profile.optimizers.size(), 1u);
  EXPECT_EQ(imported.profile.optimizers[0].name, job.optimizer.name);
  EXPECT_EQ(imported.profile.optimizers[0].implementation, job.optimizer.implementation);
  EXPECT_EQ(imported.profile.optimizers[0].momentum, job.optimizer.momentum > 0);
}

TEST(OwnTrace, ImportsAsTheLayersItWasMadeOf) {
  expect_round_trip("resnet50", "{name: sgd, momentum: 0.9}");
  expect_round_trip("vgg16", "{name: sgd, implementation: for-loop}");
  expect_round_trip("mobilenet_v2", "{name: adamw, implementation: fused}");
  expect_round_trip("densenet121", "{name: adam}");
  expect_round_trip("vit_b_16", "{name: adamw}");
  expect_round_trip("gpt2", "{name: adamw}");
}

}  // namespace
}  // namespace lockstep::own_trace_test
