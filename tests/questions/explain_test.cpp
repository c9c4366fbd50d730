// Is every second of the step attributed, do sensitivities have the right sign, and do differences
// add up?
#include "questions/explain.hpp"

#include <fmt/format.h>

#include <fstream>

#include "costs/collective.hpp"
#include "costs/profile.hpp"
#include "scenario/helpers.hpp"
#include "test_folder.hpp"

namespace lockstep::explain_test {
namespace {

double sum(const Attribution& parts) {
  double total = 0;
  for (const auto& [what, seconds] : parts) total += seconds;
  return total;
}

struct Explained {
  Scenario scenario;
  std::vector<Point> points;
  std::vector<StrategyResult> results;
  std::vector<Prediction> predictions;
};

Explained explained(const std::string& more) {
  Explained e;
  e.scenario = scenario_of(more);
  e.points = expand(e.scenario);
  e.results = simulate(e.points);
  for (std::size_t i = 0; i < e.points.size(); ++i) {
    e.predictions.push_back(summarise_point(e.scenario, e.points[i], e.results[i]));
  }
  return e;
}

const char* three_strategies =
    "gpus: [1, 8]\nstrategies: [ddp, fsdp, parameter_server]\nplatform: g5.48xlarge\n"
    "stragglers: {per_rank: 3%}\n";

TEST(Explain, TheAttributionAddsUpToTheStep) {
  const Explained e = explained(three_strategies);
  for (std::size_t i = 0; i < e.points.size(); ++i) {
    const Attribution parts = attribute(e.predictions[i], e.points[i]);
    const double step = mean(e.results[i].step_seconds);
    EXPECT_NEAR(sum(parts), step, 1e-9 * step) << e.points[i].label << e.points[i].job.mesh.gpus();
    for (const auto& [what, seconds] : parts) EXPECT_GE(seconds, -1e-12) << what;
  }
}

TEST(Explain, DifferencesAddUp) {
  const Explained e = explained(three_strategies);
  for (std::size_t i = 1; i < e.points.size(); ++i) {
    const Prediction &a = e.predictions[0], &b = e.predictions[i];
    double before = 0, after = 0;
    for (const auto& part : difference(a, e.points[0], b, e.points[i])) {
      before += part.before;
      after += part.after;
    }
    EXPECT_NEAR(before, a.gpus / a.samples_per_second, 1e-12);
    EXPECT_NEAR(after, b.gpus / b.samples_per_second, 1e-9 * after);
  }
}

const std::string gpt =
    "model: gpt\nmodel_parameters: {layers: 8, hidden: 1024, heads: 16, sequence: 1024, "
    "vocabulary: "
    "51200}\nprecision: amp-bf16\ngpus: 16\nbatch: {global: 32, micro: 1}\n";

// The changes of a mesh's axes add up to the difference, each under the axis's name.
TEST(Explain, AxesOfAMeshAddUp) {
  const Explained a = explained(gpt + "parallel: {tensor: 2, pipeline: 2}\n");
  const Explained b =
      explained(gpt + "parallel: {tensor: 4, pipeline: {stages: 4, schedule: interleaved}}\n");
  const auto axes = axis_changes(a.scenario, a.points[0], b.scenario, b.points[0], {}, {});
  ASSERT_EQ(axes.size(), 2u);
  EXPECT_EQ(axes[0].change, "tensor 2 -> 4");
  EXPECT_EQ(axes[1].change, "pipeline 2 1f1b -> 4 interleaved x2");
  double whole = 0, by_axis = 0;
  for (const auto& part :
       difference(a.predictions[0], a.points[0], b.predictions[0], b.points[0])) {
    whole += part.after - part.before;
  }
  for (const AxisChange& axis : axes) by_axis += axis.seconds;
  EXPECT_NEAR(by_axis, whole, 1e-9 * std::abs(whole));
  EXPECT_TRUE(axis_changes(a.scenario, a.points[0], a.scenario, a.points[0], {}, {}).empty());
}

// With as many micro-batches, a longer pipeline has a larger bubble.
TEST(Explain, MoreStagesAreMoreBubble) {
  std::string few_samples = gpt;
  few_samples.replace(few_samples.find("global: 32"), 10, "global: 16");
  const Explained a = explained(gpt + "parallel: {pipeline: 2}\n");
  const Explained b = explained(few_samples + "parallel: {pipeline: 8}\n");
  const Explained few = explained(few_samples + "parallel: {pipeline: 2}\n");
  const auto axes = axis_changes(few.scenario, few.points[0], b.scenario, b.points[0], {}, {});
  ASSERT_EQ(axes.size(), 1u);
  EXPECT_EQ(axes[0].change, "pipeline 2 1f1b -> 8 1f1b");
  EXPECT_EQ(axes[0].mostly, "waiting for other stages of the pipeline");
  EXPECT_GT(axes[0].seconds, 0);
  // Axes that cannot be changed alone form one change: 16 GPUs cannot hold replicas of 2 x 16.
  const Explained c = explained(gpt + "parallel: {tensor: 16}\n");
  const auto both = axis_changes(a.scenario, a.points[0], c.scenario, c.points[0], {}, {});
  ASSERT_EQ(both.size(), 1u);
  EXPECT_EQ(both[0].change, "tensor 1 -> 16, pipeline 2 1f1b -> 1");
}

std::map<std::string, double> sensitivity_map(const Explained& e, std::size_t i) {
  std::map<std::string, double> map;
  for (const auto& s : sensitivities(e.scenario, e.points[i], {}, {})) map[s.input] = s.step_change;
  return map;
}

TEST(Explain, MoreOfAnythingGoodIsNotSlower) {
  const Explained e = explained("gpus: [1, 16]\nplatform: dgx-a100-80gb-25gbe\n");
  auto one = sensitivity_map(e, 0), many = sensitivity_map(e, 1);
  for (const auto* map : {&one, &many}) {
    for (const auto& [input, change] : *map) {
      const bool good =
          input.find("bandwidth") != std::string::npos || input.find("FLOP/s") != std::string::npos;
      const bool bad = input.find("floor") != std::string::npos ||
                       input.find("dispatch") != std::string::npos ||
                       input.find("latency") != std::string::npos;
      if (good) {
        EXPECT_LT(change, 0) << input;
      }
      if (bad) {
        EXPECT_GT(change, 0) << input;
      }
      EXPECT_GT(change, -0.5) << input;  // a change of 10 % in one input, or of twice the batch
    }
  }
  EXPECT_EQ(one.count("NIC bandwidth +10 %"), 0U);   // one GPU uses no network
  ASSERT_EQ(many.count("NIC bandwidth +10 %"), 1U);  // 25 GbE between two nodes matters
  EXPECT_LT(many["NIC bandwidth +10 %"], -0.005);
}

TEST(Explain, MostSensitiveFirst) {
  const Explained e = explained("gpus: 8\n");
  const auto found = sensitivities(e.scenario, e.points[0], {}, {});
  ASSERT_GT(found.size(), 4U);
  for (std::size_t i = 1; i < found.size(); ++i) {
    EXPECT_LE(std::abs(found[i].step_change), std::abs(found[i - 1].step_change));
  }
  EXPECT_NE(found.front().step_change, found.back().step_change);
}

// A step consists of seconds that each depend on one rate or one time. If all improve by a tenth,
// the step takes a tenth less, so the single changes add up to it. The second node adds latencies
// that no input here changes.
TEST(Explain, SensitivitiesAddUpToTheStep) {
  const Explained e = explained("gpus: [1, 16]\nplatform: dgx-a100-80gb-25gbe\n");
  std::vector<double> shares;
  for (const std::size_t i : {0, 1}) {
    double share = 0;
    for (const auto& [input, change] : sensitivity_map(e, i)) {
      const bool rate =
          input.find("bandwidth") != std::string::npos || input.find("FLOP/s") != std::string::npos;
      if (input.find("%") != std::string::npos) share += rate ? -1.1 * change / 0.1 : change / 0.1;
    }
    shares.push_back(share);
  }
  EXPECT_NEAR(shares[0], 1, 0.05);
  EXPECT_GT(shares[1], 0.2);
  EXPECT_LT(shares[1], 1);
}

// A profile with a measurement for everything that the point needs; each takes twice its modelled
// time.
std::string fully_measured(const Explained& modelled) {
  const Point& point = modelled.points[0];
  const Job& job = point.job;
  const auto& costs = *job.costs;
  Profile profile;
  profile.device = job.machine.device.name;
  profile.host = {2 * job.machine.host.dispatch_seconds, job.machine.host.dispatch_seconds,
                  2 * job.machine.host.launch_seconds};
  ProfileBatch batch;
  batch.samples = point.job.step->samples;
  for (std::size_t i = 0; i < point.job.step->layers.size(); ++i) {
    const LayerCost cost = costs.layer(*point.job.step, i);
    batch.layers.push_back({.name = point.job.step->layers[i].name,
                            .forward_seconds = 2 * cost.forward.busy,
                            .backward_seconds = 2 * cost.backward.busy});
  }
  profile.models = {{point.job.step->model,
                     point.precision,
                     point.job.step->input_bytes / static_cast<double>(batch.samples),
                     {batch}}};
  int tensors = 0;
  for (const Layer& layer : point.job.step->layers)
    tensors += static_cast<int>(layer.parameters.size());
  const double elements = static_cast<double>(point.job.step->parameter_count);
  profile.optimizers = {
      {.name = job.optimizer.name,
       .implementation = job.optimizer.implementation,
       .momentum = job.optimizer.momentum != 0,
       .precision = point.precision,
       .elements = elements,
       .tensors = tensors,
       .seconds = 2 * costs.optimizer(job.optimizer, point.precision, elements, tensors).busy}};
  const CommGroup group = group_of(job.machine, job.mesh.gpus());
  for (const double bytes : {1e2, 1e4, 1e6, 1e8})
    profile.copies.push_back({bytes, 1e-6 + bytes / 1e12});
  for (const Collective kind : {Collective::all_reduce, Collective::broadcast}) {
    if (job.mesh.gpus() == 1) break;
    ProfileCollective curve;
    curve.collective = EnumNames<Collective>::names[static_cast<std::size_t>(kind)];
    curve.backend = "nccl";
    curve.ranks = job.mesh.gpus();
    curve.nodes = group.nodes;
    for (double bytes = 16; bytes < 1e9; bytes *= 4) {
      curve.points.push_back(
          {bytes, 2 * collective_cost(job.machine, group, kind, bytes).seconds()});
    }
    profile.collectives.push_back(curve);
  }
  return test_folder().write("profile.yaml", profile_text(profile));
}

// Measured costs are explained like modelled ones: the same inputs matter by as much.
TEST(Explain, AFullyMeasuredScenarioExplainsItself) {
  const std::string text =
      "gpus: 16\nplatform: dgx-a100-80gb-25gbe\nprecision: amp-fp16\nbatch: {micro: 256}\n"
      "data_loading: {on_device: true}\n";  // a profile has no copies of batches from the host
  const Explained modelled = explained(text);
  const Explained measured = explained(text + "profile: " + fully_measured(modelled) + "\n");
  EXPECT_GT(measured.results[0].provenance.measured + measured.results[0].provenance.interpolated,
            0.99);
  auto a = sensitivity_map(modelled, 0), b = sensitivity_map(measured, 0);
  for (const char* input :
       {"device FLOP/s +10 %", "memory bandwidth +10 %", "kernel launch floor +10 %"}) {
    ASSERT_EQ(b.count(input), 1U) << input;
    EXPECT_NEAR(b[input], a[input], 0.2 * std::abs(a[input])) << input;
  }
  // The exposed part of the transfers between the two nodes.
  const double exposed =
      measured.predictions[0].split.exposed_communication / measured.predictions[0].step_seconds;
  EXPECT_NEAR(b["NIC bandwidth +10 %"], -exposed * 0.1 / 1.1, 0.3 * exposed);
  EXPECT_LT(b["NIC bandwidth +10 %"], -0.005);
}

TEST(Explain, AMeasuredHostExplainsItselfToo) {
  const std::string text = "model: lenet5\nprecision: amp-fp16\n";
  const Explained modelled = explained(text);
  ASSERT_GT(modelled.predictions[0].split.host_bound, 0.5 * modelled.predictions[0].step_seconds);
  const Explained measured = explained(text + "profile: " + fully_measured(modelled) + "\n");
  EXPECT_GT(sensitivity_map(measured, 0)["host dispatch time +10 %"], 0.05);
  // This also holds with a dispatch time that the scenario sets.
  const Explained own = explained(text + "framework: {operator_seconds: 40 us}\n");
  EXPECT_GT(sensitivity_map(own, 0)["host dispatch time +10 %"], 0.05);
  const Explained megatron = explained(text + "framework: {name: megatron}\n");
  EXPECT_GT(sensitivity_map(megatron, 0)["host dispatch time +10 %"], 0.05);
}

TEST(Explain, EveryClassOfLinksCounts) {
  const Explained pcie = explained("platform: g5.12xlarge\nmodel: vgg16\ngpus: 4\n");
  EXPECT_LT(sensitivity_map(pcie, 0)["PCIe bandwidth +10 %"], -0.02);
  const Explained loop = explained("platform: cpu-loopback-x2\ngpus: 2\n");
  EXPECT_LT(sensitivity_map(loop, 0)["loopback bandwidth +10 %"], -5e-5);
}

TEST(Explain, AChangeThatDoesNotFitIsMarked) {
  const Explained e = explained("model: resnet50\nbatch: {micro: 512}\n");
  ASSERT_FALSE(e.predictions[0].out_of_memory.has_value());
  for (const Sensitivity& s : sensitivities(e.scenario, e.points[0], {}, {})) {
    EXPECT_EQ(s.fits, s.input != "batch doubled") << s.input;
  }
}

TEST(Explain, DeviceTimeByKindIsAllOfTheDevicesTime) {
  const Explained e = explained("model: gpt2\nbatch: {micro: 2}\n");
  const Point& point = e.points[0];
  double device = 0;
  for (std::size_t i = 0; i < point.job.step->layers.size(); ++i) {
    const LayerCost cost = point.job.costs->layer(*point.job.step, i);
    device += cost.forward.busy + cost.backward.busy;
  }
  EXPECT_NEAR(sum(device_time_by_kind(point)), device, 1e-12);
}

}  // namespace
}  // namespace lockstep::explain_test
