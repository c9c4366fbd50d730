// Do compiled, captured and low-precision steps follow closed forms of the host, gain time, and
// refuse what they cannot do?
#include <fmt/format.h>

#include "scenario/helpers.hpp"

namespace lockstep::fast_path_points_test {
namespace {

using testing::HasSubstr;

std::vector<Prediction> predictions(const std::string& text) {
  const Scenario scenario = read_scenario_text("name: x\n" + text, "test.yaml");
  return predict_each(scenario, expand(scenario)).predictions;
}

double nvlink_bytes(const Prediction& p) {
  for (const LinkTraffic& traffic : p.traffic) {
    if (traffic.link_class == "NVLink") return traffic.bytes;
  }
  return 0;
}

const std::string small =
    "model: resnet18\nmodel_parameters: {cifar: 1}\ninput: {image: [3, 32, 32]}\nbatch: {per_gpu: "
    "4}\nprecision: amp-bf16\nplatform: dgx-h100\ngpus: [1]\noptimizer: {name: sgd}\n";

// The eager step is bound by launches. As one CUDA graph it is bound by the device, because the
// host only launches the graph and the optimizer.
TEST(CudaGraphs, LeaveNoHostTimeInTheStep) {
  const auto all = predictions(
      small +
      "strategies: [{ddp: {}, label: eager}, {ddp: {}, label: graph, cuda_graphs: true}]\n");
  ASSERT_EQ(all.size(), 2U);
  const Prediction &eager = all[0], &graph = all[1];
  EXPECT_GT(eager.split.host_bound, 0.4 * eager.step_seconds);
  EXPECT_LT(graph.split.host_bound, 0.02 * graph.step_seconds);
  EXPECT_NEAR(graph.split.forward, eager.split.forward, 1e-9);
  EXPECT_NEAR(graph.split.backward, eager.split.backward, 1e-9);
}

TEST(Compile, IsNeverSlowerThanEagerOnTheDevice) {
  for (const char* model : {"gpt2", "llama3.2-1b", "resnet50", "efficientnet_b0", "vit_b_16"}) {
    const auto all = predictions(fmt::format(
        "model: {}\nbatch: {{per_gpu: 2}}\nprecision: amp-bf16\nplatform: dgx-h100\n"
        "gpus: [1]\noptimizer: {{name: sgd}}\ncuda_graphs: true\nstrategies: [{{ddp: {{}}, "
        "label: eager}}, {{ddp: {{}}, label: blocks, compile: blocks}}, {{ddp: {{}}, "
        "label: whole, compile: whole}}]\n",
        model));
    ASSERT_EQ(all.size(), 3U);
    EXPECT_LT(all[1].step_seconds, all[0].step_seconds) << model;
    EXPECT_LT(all[2].step_seconds, all[0].step_seconds) << model;
    EXPECT_LE(all[2].memory.allocated, 1.001 * all[0].memory.allocated) << model;
  }
}

const std::string large =
    "model: llama3-8b\nmodel_parameters: {layers: 4}\ninput: {sequence: 4096}\nbatch: {per_gpu: "
    "2}\nprecision: amp-bf16\ngpus: [8]\noptimizer: {name: adamw}\n";

TEST(LowPrecisionPoints, GatherFewerBytes) {
  const auto all = predictions(
      large +
      "platform: dgx-h100\ncompile: blocks\nlow_precision: {recipe: fp8-tensorwise}\nstrategies: "
      "[{fsdp: {version: 2}, label: wide}, {fsdp: {version: 2}, label: narrow, low_precision: "
      "{recipe: fp8-tensorwise, gather: true}}]\n");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_LT(all[1].step_seconds, all[0].step_seconds);
  EXPECT_LT(nvlink_bytes(all[1]), 0.9 * nvlink_bytes(all[0]));
}

std::string refused(const std::string& text) {
  return refusal([&] { predictions(text); });
}

TEST(LowPrecisionPoints, AreRefusedWithoutUnits) {
  const std::string fsdp = "strategies: [{fsdp: {version: 2}}]\n";
  EXPECT_THAT(refused(large + "platform: dgx-a100-80gb\nlow_precision: fp8-current\n" + fsdp),
              HasSubstr("has no units for it; Ada, Hopper or Blackwell"));
  EXPECT_THAT(refused(large + "platform: dgx-h100\nlow_precision: mxfp8\n" + fsdp),
              HasSubstr("low_precision: mxfp8: NVIDIA H100 SXM5 80 GB has no units for it"));
  EXPECT_THAT(refused("model: gpt2\nbatch: {per_gpu: 2}\nprecision: tf32\ngpus: [1]\nplatform: "
                      "dgx-h100\nlow_precision: fp8-current\noptimizer: {name: sgd}\n" +
                      fsdp),
              HasSubstr("low_precision: fp8-current computes in tf32"));
  EXPECT_THAT(refused(large + "platform: dgx-h100\nlow_precision: {recipe: fp8-current, gather: "
                              "true}\nstrategies: [ddp]\n"),
              HasSubstr("low_precision.gather: not with ddp and fp8-current"));
}

TEST(CudaGraphs, AreRefusedWhereTheHostWaits) {
  EXPECT_THAT(refused("model: qwen3-30b-a3b\nmodel_parameters: {layers: 2}\ninput: {sequence: "
                      "1024}\nbatch: {per_gpu: 1}\nprecision: master-bf16\nplatform: dgx-h100\n"
                      "gpus: [8]\noptimizer: {name: adamw}\nparallel: {expert: 8}\ncuda_graphs: "
                      "true\nstrategies: [{zero: {stage: 1}}]\n"),
              HasSubstr("the host waits for numbers of tokens"));
}

}  // namespace
}  // namespace lockstep::fast_path_points_test
