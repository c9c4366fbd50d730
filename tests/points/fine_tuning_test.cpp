// Do adapters and frozen parameters change a prediction as they should: bytes on the wire,
// optimizer state, memory, time?
#include "scenario/helpers.hpp"

namespace lockstep::fine_tuning_points_test {
namespace {

using testing::HasSubstr;

const std::string llama =
    "model: llama\nmodel_parameters: {layers: 2, hidden: 1024, heads: 8, mlp: 4096, vocabulary: "
    "8000}\n"
    "input: {sequence: 128}\nbatch: {micro: 1}\noptimizer: {name: adamw}\ngpus: 2\n";

Prediction predicted(const std::string& more) {
  const Scenario scenario = scenario_of(llama + more);
  return predict_each(scenario, expand(scenario)).predictions.at(0);
}

std::int64_t trained_of(const std::string& more) {
  return expand(scenario_of(llama + more)).at(0).parameters;
}

double nvlink_bytes(const Prediction& p) {
  for (const LinkTraffic& traffic : p.traffic) {
    if (traffic.link_class == "NVLink") return traffic.bytes;
  }
  return 0;
}

constexpr double trained = 2 * 16 * (2 * 2048.0);  // two layers' q_proj and v_proj, rank 16
const std::string adapters = "adapters: {rank: 16, targets: [q_proj, v_proj]}\n";

TEST(FineTuning, OnlyAdaptersAreReducedAndHaveStates) {
  for (const std::string strategy : {"ddp", "zero: {stage: 1}", "zero: {stage: 2}"}) {
    const Prediction p = predicted(adapters + "strategies: [{" + strategy +
                                   (strategy == "ddp" ? ": {}}]\n" : "}]\n"));
    EXPECT_NEAR(nvlink_bytes(p), 4 * trained, 100) << strategy;
  }
  EXPECT_EQ(trained_of(adapters), trained);
  const Prediction p = predicted(adapters);
  EXPECT_NEAR(p.memory.at_peak.at("optimizer state"), 8 * trained, 16 * 512);
  const Prediction whole = predicted("");
  EXPECT_NEAR(p.memory.at_peak.at("parameters") - whole.memory.at_peak.at("parameters"),
              4 * trained, 8 * 512);
  EXPECT_LT(p.split.backward, 0.8 * whole.split.backward);
  EXPECT_LT(p.split.optimizer, 0.1 * whole.split.optimizer);
}

TEST(FineTuning, MoreIsTrainedMoreIsPaid) {
  const Prediction p = predicted(adapters);
  const Prediction wide = predicted("adapters: {rank: 32, targets: [q_proj, v_proj]}\n");
  EXPECT_NEAR(nvlink_bytes(wide), 2 * nvlink_bytes(p), 100);
  const std::string whole = "adapters: {rank: 16, targets: [q_proj, v_proj], whole: lm_head}\n";
  const Prediction head = predicted(whole);
  EXPECT_EQ(trained_of(whole), trained + 8000 * 1024);
  EXPECT_NEAR(head.memory.at_peak.at("parameters") - p.memory.at_peak.at("parameters"),
              4.0 * 8000 * 1024, 2 << 20);
  EXPECT_GT(head.step_seconds, p.step_seconds);
}

// Two ranks gather all parameters twice, in forward and backward, and reduce the trained gradients
// once. Each transfer carries half of the bytes over the link.
TEST(FineTuning, Fsdp2GathersAllAndReducesWhatIsTrained) {
  const std::string fsdp = "strategies: [fsdp: {version: 2}]\n";
  const double narrow = nvlink_bytes(predicted(adapters + fsdp));
  const double wide =
      nvlink_bytes(predicted("adapters: {rank: 32, targets: [q_proj, v_proj]}\n" + fsdp));
  EXPECT_NEAR(wide - narrow, 3 * 4 * trained / 2, 100);
  const Prediction whole = predicted(fsdp);
  const double all = trained_of(fsdp) * 4.0;
  EXPECT_NEAR(nvlink_bytes(whole) - narrow, all / 2 - 3 * 4 * trained / 2, 0.001 * all);
  const double half = nvlink_bytes(predicted("precision: pure-bf16\n" + adapters + fsdp));
  const double nf4 = nvlink_bytes(
      predicted("precision: pure-bf16\nfrozen: {quantization: nf4}\n" + adapters + fsdp));
  EXPECT_LT(nf4, 0.6 * half);
}

TEST(FineTuning, AFrozenBaseIsSmallerTheMoreItIsQuantised) {
  const auto bytes = [&](const std::string& frozen) {
    return predicted("precision: amp-bf16\n" + adapters + frozen).memory.at_peak.at("parameters");
  };
  const double wide = bytes(""), half = bytes("frozen: {half: true}\n");
  const double int8 = bytes("frozen: {half: true, quantization: int8}\n");
  const double nf4 = bytes("frozen: {half: true, quantization: nf4}\n");
  const double nested = bytes("frozen: {half: true, quantization: nf4, nested: true}\n");
  EXPECT_NEAR(wide - half, half - 4 * trained, 1e5);
  EXPECT_GT(half, int8);
  EXPECT_GT(int8, nf4);
  EXPECT_GT(nf4, nested);
}

TEST(FineTuning, WhatDoesNotGoTogetherIsRefused) {
  const auto wrong = [](const std::string& more) {
    return refusal([&] { expand(scenario_of(llama + more)); });
  };
  EXPECT_THAT(wrong(adapters + "strategies: [parameter_server]\n"),
              HasSubstr("parameter_server is not with adapters"));
  EXPECT_THAT(wrong("frozen: {parameters: lm_head}\nstrategies: [local_sgd]\n"),
              HasSubstr("local_sgd is not with frozen"));
  EXPECT_THAT(wrong(adapters + "parallel: {tensor: {size: 2}}\n"), HasSubstr("layers are not cut"));
  EXPECT_THAT(wrong(adapters + "frozen: {half: true}\n"), HasSubstr("has no effect with fp32"));
  EXPECT_THAT(wrong(adapters + "frozen: {parameters: lm_head}\n"),
              HasSubstr("no effect beside adapters"));
  EXPECT_THAT(wrong("frozen: {quantization: nf4}\n"), HasSubstr("no effect without adapters"));
}

}  // namespace
}  // namespace lockstep::fine_tuning_points_test
