// When something does not fit: does what is suggested really fit?
#include "questions/suggest.hpp"

#include <regex>

#include "helpers.hpp"
#include "points/measured.hpp"
#include "questions/anchor.hpp"
#include "questions/run.hpp"

namespace lockstep::suggest_test {
namespace {

// Applies the words of a suggestion to the scenario, by a reading of its own.
Scenario as_suggested(Scenario s, const std::string& words) {
  std::smatch match;
  if (std::regex_search(words, match,
                        std::regex("micro-batch ([0-9]+) with ([0-9]+) accumulation steps"))) {
    s.batch = {};
    s.batch.micro = std::stoll(match[1]);
    s.batch.accumulation = std::stoll(match[2]);
  }
  if (words.find("activation checkpointing") != std::string::npos) {
    s.strategies[0].activation_checkpointing = true;
  }
  if (words.find("fsdp with full_shard") != std::string::npos) {
    s.strategies[0].options = FsdpOptions{};
  }
  return s;
}

void expect_all_fit(const Scenario& s) {
  const ResultRecord record = run_scenario(s);
  for (const auto& p : record.predictions) {
    ASSERT_TRUE(p.out_of_memory.has_value()) << p.gpus;
    EXPECT_FALSE(p.out_of_memory->suggestions.empty()) << p.gpus;
    EXPECT_LE(p.out_of_memory->suggestions.size(), 3U);
    for (const auto& words : p.out_of_memory->suggestions) {
      const Scenario changed = as_suggested(only(s, 0, p.gpus), words);
      const ResultRecord again = run_scenario(changed);
      EXPECT_FALSE(again.predictions[0].out_of_memory.has_value()) << words;
      EXPECT_EQ(again.predictions[0].global_batch, p.global_batch) << words;
    }
  }
}

TEST(Suggest, ASmallerMicroBatchFits) {
  expect_all_fit(scenario_of("model: vgg16\nplatform: g5.12xlarge\nbatch: {per_gpu: 512}\n"));
}
TEST(Suggest, ShardingAndCheckpointingFit) {
  expect_all_fit(
      scenario_of("model: mpt-3b\nplatform: dgx-a100-80gb\ngpus: 8\nbatch: {per_gpu: 16}\n"
                  "precision: amp-bf16\noptimizer: {name: adamw}\n"));
}
TEST(Suggest, WhatNothingHelpsGetsNoSuggestion) {
  const auto record = run_scenario(
      scenario_of("model: llama3-70b\nplatform: g5.xlarge\ngpus: 1\nbatch: {per_gpu: 1}\n"));
  ASSERT_TRUE(record.predictions[0].out_of_memory.has_value());
  EXPECT_TRUE(record.predictions[0].out_of_memory->suggestions.empty());
}
// Shards have no whole matrices, and none whose gradients are added in fp32.
TEST(Suggest, NoShardsWhereTheyAreRefused) {
  for (const char* rule : {"precision: amp-bf16\noptimizer: {name: muon}\n",
                           "precision: master-bf16-fp32-gradients\noptimizer: {name: adamw}\n"}) {
    const auto of = [&](const std::string& model) {
      const auto record = run_scenario(scenario_of(
          "model: " + model + "\nplatform: dgx-a100-80gb\ngpus: 8\nbatch: {per_gpu: 16}\n" + rule));
      return record.predictions.front().out_of_memory.value_or(OutOfMemory{}).suggestions;
    };
    const std::vector<std::string> some = of("mpt-3b");
    EXPECT_FALSE(some.empty()) << rule;
    for (const std::string& words : some) {
      EXPECT_EQ(words.find("fsdp"), std::string::npos) << words;
    }
    EXPECT_TRUE(of("llama2-70b").empty()) << rule;  // however many GPUs
  }
}

// No PyTorch has a fused Muon, plain SGD is one pass either way, and who has a fused optimizer is
// not told to take one.
TEST(Suggest, AFusedOptimizerWhereThereIsOneToTake) {
  const auto bottleneck = [](const std::string& optimizer, int batch = 8) {
    return run_scenario(scenario_of("model: gpt2-xl\nplatform: dgx-h100\ngpus: 1\n"
                                    "batch: {per_gpu: " +
                                    std::to_string(batch) +
                                    "}\nprecision: amp-bf16\noptimizer: {name: " + optimizer +
                                    "}\ninput: {sequence: " + (batch == 1 ? "64" : "1024") + "}\n"))
        .predictions.front()
        .bottleneck;
  };
  using testing::HasSubstr;
  const std::string larger = "of the step; a larger batch per GPU";
  EXPECT_THAT(bottleneck("muon"), HasSubstr(larger));
  EXPECT_THAT(bottleneck("adamw", 1), HasSubstr("a fused optimizer"));
  EXPECT_THAT(bottleneck("adamw, implementation: fused", 1), testing::Not(HasSubstr("a fused")));
  const Prediction plain =
      run_scenario(scenario_of("gpus: 16\nmodel: vgg11\nbatch: {per_gpu: 2}\nstrategies: [ddp]\n"))
          .predictions.front();
  EXPECT_THAT(plain.bottleneck, HasSubstr(larger));
}

}  // namespace
}  // namespace lockstep::suggest_test
