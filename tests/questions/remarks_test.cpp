// Does the record warn of what a reader should know: nodes that are priced as whole ones, work that
// a profile did not measure, too many FSDP units? (Options without effect have options_test.cpp.)
#include <fstream>

#include "core/units.hpp"
#include "costs/collective.hpp"
#include "costs/profile.hpp"
#include "questions/run.hpp"
#include "scenario/helpers.hpp"
#include "test_folder.hpp"

namespace lockstep::remarks_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> warnings(const std::string& more) {
  return run_scenario(scenario_of(more)).warnings;
}

TEST(Remarks, AnOptionIsNamedOnlyWhereItChangesNoneOfItsEntrysPoints) {
  const std::string strategies =
      "strategies:\n- ddp: {comm_hook: bf16-compress}\n  label: half\n- ddp\n";
  EXPECT_THAT(warnings("gpus: [1, 2]\n" + strategies), ElementsAre());
  EXPECT_THAT(warnings("gpus: 1\n" + strategies),
              ElementsAre("half: comm_hook has no effect: one GPU reduces nothing"));
  // The option belongs to the scenario, and the second strategy uses it.
  EXPECT_THAT(warnings("optimizer: {implementation: for-loop}\n"
                       "strategies: [ddp, parameter_server]\n"),
              ElementsAre());
}

// If the run also predicts accuracies, an option without effect on times may change these.
TEST(Remarks, WhatIsLearntIsAnEffectWhereItIsAskedFor) {
  const std::string asked = "dataset: {samples: 1000}\nconvergence: {}\n";
  const auto server = [](const std::string& options) {
    return "gpus: 4\nstrategies: [parameter_server: {" + options + "}]\n";
  };
  const std::string learnt = " has no effect on time: it only changes the learning";
  for (const std::string option : {"weighting", "weighting_strength"}) {
    const std::string of_async =
        server("consistency: async, weighting: age, weighting_strength: 0.7");
    EXPECT_THAT(warnings(of_async), Contains("parameter_server: " + option + learnt));
    EXPECT_THAT(warnings(of_async + asked), Not(Contains(HasSubstr(option))));
    const std::string of_sync = server("weighting: age, weighting_strength: 0.7");
    EXPECT_THAT(warnings(of_sync + asked),
                Contains("parameter_server: " + option + " has no effect: no gradient is stale"));
  }
  EXPECT_THAT(
      warnings(server("consistency: async, weighting: staleness, weighting_strength: 0.7") + asked),
      ElementsAre("parameter_server: weighting_strength has no effect: weighting is not "
                  "age nor compensated"));
  const std::string elastic = server("consistency: elastic, elasticity: 0.3");
  EXPECT_THAT(warnings(elastic), Contains("parameter_server: elasticity" + learnt));
  EXPECT_THAT(warnings(elastic + asked), ElementsAre());
  const std::string decay = "optimizer: {weight_decay: 1e-4, implementation: fused}\n";
  EXPECT_THAT(warnings(decay), Contains(HasSubstr("optimizer.weight_decay has no effect")));
  EXPECT_THAT(warnings(decay + asked), Not(Contains(HasSubstr("optimizer.weight_decay"))));
}

const std::string gpt =
    "model: gpt\nmodel_parameters: {layers: 8, hidden: 1024, heads: 16, sequence: 1024, "
    "vocabulary: "
    "51200}\nprecision: amp-bf16\n";

// Tensor parallelism across nodes gives a warning with the time of its exchanges.
TEST(Remarks, TensorRanksOnSeveralNodesHaveTheirPrice) {
  const std::string job = gpt + "gpus: 32\nbatch: {global: 32, micro: 4}\n";
  EXPECT_THAT(warnings(job + "parallel: {tensor: 8}\n"),
              Not(Contains(HasSubstr("leaves the nodes"))));
  const std::string wide = job + "parallel: {tensor: {size: 16, split_loss: true}}\n";
  ASSERT_THAT(warnings(wide),
              Contains(HasSubstr("tensor parallelism over 16 GPUs leaves the nodes of 8")));
  const auto priced = [](const std::string& text) {
    for (const std::string& remark : warnings(text)) {
      const std::size_t from = remark.find("exchanges take "), to = remark.find(" of every step");
      if (from == std::string::npos) continue;
      return parse_quantity(remark.substr(from + 15, to - from - 15), Dimension::seconds);
    }
    return 0.0;
  };
  // A step has four micro-batches and 8 blocks, with two all-reduces forward and two backward in
  // each block, one after the embedding and one from the head. Each carries 4 samples of 1024 x
  // 1024 values of 2 bytes. The loss adds small ones.
  std::string pure = wide;
  pure.replace(pure.find("amp-bf16"), 8, "pure-bf16");
  const Point point = expand(scenario_of(pure)).front();
  const double counted = 4 * (8 * 4 + 2) *
                         collective_cost(point.job.machine, {.ranks_per_node = 8, .nodes = 2},
                                         Collective::all_reduce, 4.0 * 1024 * 1024 * 2)
                             .seconds();
  EXPECT_GT(priced(pure), counted);
  EXPECT_LT(priced(pure), 1.05 * counted);
  // Under autocast the gradient of a norm's output has 4 bytes.
  EXPECT_GT(priced(wide), 1.2 * priced(pure));
  std::string doubled = wide;
  doubled.replace(doubled.find("global: 32"), 10, "global: 64");
  EXPECT_NEAR(priced(doubled), 2 * priced(wide), 0.02 * priced(doubled));  // the text is rounded
}

// With p equal stages, v chunks on each and m micro-batches, the bubble is (p - 1) / (m v + p - 1)
// of the step.
TEST(Remarks, TooFewMicroBatchesNameTheBubble) {
  const auto remarks_of = [](int micro_batches, const std::string& pipeline) {
    return warnings(gpt + "gpus: 4\nbatch: {micro: 1, accumulation: " +
                    std::to_string(micro_batches) + "}\nparallel: {pipeline: " + pipeline + "}\n");
  };
  EXPECT_THAT(remarks_of(2, "4"), Contains("ddp on 4 GPUs: 2 micro-batches do not fill 4 stages: "
                                           "with equal stages, 60 % of the step is bubble"));
  EXPECT_THAT(remarks_of(1, "4"), Contains(HasSubstr("75 % of the step is bubble")));
  EXPECT_THAT(remarks_of(2, "{stages: 4, schedule: looped-bfs, chunks: 2}"),
              Contains(HasSubstr("43 % of the step is bubble")));
  EXPECT_THAT(remarks_of(4, "4"), Not(Contains(HasSubstr("bubble"))));
  EXPECT_THAT(remarks_of(8, "4"), Not(Contains(HasSubstr("bubble"))));
}

TEST(Remarks, APartOfANodeIsPricedAsSuch) {
  const std::string priced = "platform: p4d.24xlarge\ngpus: [1, 8, 12]\nstrategies: [ddp, fsdp]\n";
  const std::string length = "dataset: {samples: 10000}\n";
  EXPECT_THAT(warnings(priced + length),
              ElementsAre("the cost on 1, 12 GPUs counts only the GPUs in use: nodes have 8, and "
                          "clouds mostly rent whole nodes"));
  EXPECT_THAT(warnings(priced), ElementsAre());
  EXPECT_THAT(warnings(priced + length + "price_per_gpu_hour: 1 USD/h\n"), ElementsAre());
  // without a price there is no warning
  EXPECT_THAT(warnings("gpus: 1\n" + length), ElementsAre());
}

TEST(Remarks, WhatAProfileDoesNotAnswerIsSaid) {
  const auto with = [](const std::string& model, Precision precision) {
    Profile profile;
    profile.device = "a100-sxm4-80gb";
    ProfileBatch batch;
    batch.samples = 16;
    profile.models = {{model, precision, 3 * 224 * 224 * 4 + 8, {batch}}};
    return warnings("gpus: [1, 2]\nprofile: " +
                    test_folder().write("profile.yaml", profile_text(profile)) + "\n");
  };
  EXPECT_THAT(with("foo", Precision::fp32),
              ElementsAre("the profile has no figures for resnet18 (it has foo): modelled"));
  EXPECT_THAT(with("resnet18", Precision::tf32),
              ElementsAre("the profile has no figures for resnet18 in fp32 (it has tf32): "
                          "modelled"));
  EXPECT_THAT(
      with("resnet18", Precision::fp32),
      ElementsAre(testing::StartsWith(
          "the profile has no figures for conv1, bn1, relu, maxpool, layer1.0.conv1 and ")));
}

TEST(Remarks, ManyUnitsThatKeepTheHostBusyAreNamedAndTheAdviceHelps) {
  const auto fsdp = [](const std::string& model, const std::string& wrap) {
    return run_scenario(scenario_of("model: " + model +
                                    "\nbatch: {per_gpu: 32}\ngpus: 2\nstrategies: [fsdp: {" + wrap +
                                    "}]\n"))
        .predictions[0];
  };
  const std::string note = "59 units keep the host busy";
  const Prediction many = fsdp("densenet121", "");
  EXPECT_THAT(many.notes, Contains(HasSubstr(note)));
  const Prediction fewer = fsdp("densenet121", "wrap: {policy: size, min_parameters: 1M}");
  EXPECT_THAT(fewer.notes, Not(Contains(HasSubstr("keep the host busy"))));
  EXPECT_LT(fewer.step_seconds, 0.8 * many.step_seconds);
  EXPECT_THAT(fsdp("resnet50", "").notes, Not(Contains(HasSubstr("keep the host busy"))));
}

// A warning about a node must be there if at least one point has the node.
TEST(Remarks, WhatOtherDevicesLackIsSaid) {
  const auto of_node = [](const std::string& node) {
    return warnings("gpus: [8, 16]\nprecision: amp-bf16\nstragglers: {other_devices: [{device: " +
                    std::string("t4, nodes: ") + node + "}]}\n");
  };
  EXPECT_THAT(of_node("0"), Contains(HasSubstr("T4 has no units for bf16")));
  EXPECT_THAT(of_node("1"), Contains(HasSubstr("T4 has no units for bf16")));
  EXPECT_THAT(warnings("gpus: [8, 16]\nprecision: amp-bf16\n"), ElementsAre());
}

}  // namespace
}  // namespace lockstep::remarks_test
