// Does a suggestion for a scenario that does not fit really fit, at the stated cost?
#include "questions/fitting.hpp"

#include <regex>

#include "points/measured.hpp"
#include "questions/anchor.hpp"
#include "questions/run.hpp"
#include "scenario/helpers.hpp"

namespace lockstep::fitting_test {
namespace {

// Applies the words of a suggestion to the scenario. The test parses the words independently of the
// program.
Scenario as_suggested(Scenario s, const std::string& words) {
  const auto has = [&](const std::string& text) { return words.find(text) != std::string::npos; };
  std::smatch match;
  if (std::regex_search(words, match, std::regex("about ([0-9]+) GPUs"))) {
    s.gpus = {std::stoi(match[1])};
  }
  if (std::regex_search(words, match,
                        std::regex("micro-batch ([0-9]+)( with ([0-9]+) accumulation steps)?"))) {
    s.batch = {};
    s.batch.micro = std::stoll(match[1]);
    s.batch.accumulation = match[3].matched ? std::stoll(match[3]) : 1;
  }
  StrategyEntry& entry = s.strategies[0];
  if (has("activation checkpointing") || has("recompute: ")) {
    entry.activation_checkpointing = true;
    entry.recompute = has("recompute: operators") ? Recompute::operators : Recompute::blocks;
  }
  if (has("fsdp with full_shard")) {
    const auto* given = std::get_if<FsdpOptions>(&entry.options);
    FsdpOptions full = given ? *given : FsdpOptions{};
    full.sharding = Sharding::full_shard;
    entry.options = full;
  }
  if (has("cpu_offload")) {
    std::get<FsdpOptions>(entry.options).cpu_offload = !has("no cpu_offload");
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
      std::smatch told;
      const bool tells = std::regex_search(words, told, std::regex("global batch ([0-9]+)"));
      EXPECT_EQ(again.predictions[0].global_batch, tells ? std::stoll(told[1]) : p.global_batch)
          << words;
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
// Muon needs whole matrices, and sharding cannot add gradients in fp32; sharding is not suggested
// then.
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
    EXPECT_TRUE(of("llama2-70b").empty()) << rule;  // no number of GPUs helps
  }
}

// A fused optimizer is not suggested for Muon, which PyTorch does not have fused, for plain SGD,
// which is one pass in any form, or if the optimizer is fused already.
TEST(Suggest, AFusedOptimizerWhereThereIsOneToTake) {
  const auto bottleneck = [](const std::string& optimizer, int batch = 8) {
    const std::string model = batch == 1 ? "llama3.2-1b" : "gpt2-xl";
    return run_scenario(scenario_of("model: " + model +
                                    "\nplatform: dgx-h100\ngpus: 1\nbatch: {per_gpu: " +
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

// With the suggested changes the point fits, has the stated batch, and takes the stated step at the
// stated price.
void expect_true(const FittingJob& job, const Scenario& s) {
  const ResultRecord again = run_scenario(as_suggested(s, fitting_text(job)));
  ASSERT_EQ(again.predictions.size(), 1U);
  const Prediction& p = again.predictions.front();
  EXPECT_FALSE(p.out_of_memory.has_value()) << fitting_text(job);
  EXPECT_EQ(p.global_batch, job.prediction.global_batch) << fitting_text(job);
  EXPECT_DOUBLE_EQ(p.step_seconds, job.prediction.step_seconds) << fitting_text(job);
  EXPECT_DOUBLE_EQ(p.dollars, job.prediction.dollars) << fitting_text(job);
}

// The suggestions for the only point of a scenario; each is checked.
std::vector<FittingJob> changes_of(const std::string& text) {
  const Scenario s = scenario_of(text);
  std::vector<FittingJob> jobs = least_changes(s, expand(s).front(), {});
  for (const FittingJob& job : jobs) expect_true(job, s);
  return jobs;
}

// The recipe recomputes single operators. A 70B model fits on 64 H100 if whole blocks are
// recomputed.
TEST(Fitting, RecomputesMoreThanTheRecipeDoes) {
  const auto jobs = changes_of(
      "recipe: torchtitan\nmodel: llama3-70b\ninput: {sequence: 8192}\ndataset: {tokens: 1T}\n"
      "batch: {per_gpu: 1}\nplatform: dgx-h100\ngpus: 64\nstrategies: [fsdp]\n");
  ASSERT_FALSE(jobs.empty());
  EXPECT_EQ(jobs.front().changes, (std::vector<std::string>{"recompute: blocks"}));
  EXPECT_EQ(jobs.front().prediction.gpus, 64);
}

// 64 samples are one step on 4 GPUs and on 8 GPUs.
TEST(Fitting, MoreGpusKeepTheGlobalBatch) {
  const auto jobs = changes_of(
      "model: qwen2.5-7b\ninput: {sequence: 2048}\nbatch: {global: 64, micro: 1}\n"
      "precision: amp-bf16\noptimizer: {name: adamw}\ndataset: {samples: 50k}\n"
      "platform: g5.12xlarge\ngpus: 4\nstrategies: [fsdp]\n");
  ASSERT_FALSE(jobs.empty());
  EXPECT_GT(jobs.back().prediction.gpus, 4);
  for (const FittingJob& job : jobs) EXPECT_EQ(job.prediction.global_batch, 64);
}

// Qwen2.5-32B has 32,763,876,352 parameters. Shards, gradients and Adam's two moments take 16 bytes
// for each parameter. PyTorch allocates pinned memory (shards and gradients) in powers of two.
TEST(Fitting, OffloadNeedsRoomOnTheHost) {
  const ResultRecord record = run_scenario(scenario_of(
      "model: qwen2.5-32b\ninput: {sequence: 2048}\nbatch: {per_gpu: 1}\n"
      "precision: amp-bf16\noptimizer: {name: adamw}\nactivation_checkpointing: true\n"
      "platform: g5.12xlarge\ngpus: 4\n"
      "strategies: [{fsdp: {version: 2, cpu_offload: true}, label: offload}, {fsdp: {}}]\n"));
  const Prediction& p = record.predictions.front();
  EXPECT_NEAR(p.memory.host - p.memory.host_rounding, 16 * 32763876352.0, 1e-3 * 16 * 32.8e9);
  EXPECT_LT(p.memory.host, 2 * 16 * 32763876352.0);
  EXPECT_EQ(p.memory.host_capacity, 192.0 * 1024 * 1024 * 1024);
  ASSERT_TRUE(p.out_of_memory.has_value());
  EXPECT_EQ(p.out_of_memory->shortfall, 0);
  EXPECT_DOUBLE_EQ(p.out_of_memory->host_shortfall, p.memory.host - p.memory.host_capacity);
  EXPECT_THAT(p.bottleneck, testing::HasSubstr("of the 192 GiB of the host's memory"));
  EXPECT_EQ(record.predictions[1].memory.host, 0);
}

// The suggested micro-batch fits, and one sample more does not.
TEST(Fitting, TheLargestMicroBatchIsTheLargest) {
  const Scenario s = scenario_of(
      "model: resnet50\nplatform: g5.12xlarge\ngpus: 1\nbatch: {per_gpu: 8}\nprecision: "
      "amp-fp16\n");
  const auto largest = largest_micro_batch(s, expand(s).front(), {});
  ASSERT_TRUE(largest.has_value());
  expect_true(*largest, s);
  EXPECT_GT(largest->prediction.micro_batch, 64);
  Scenario more = largest->scenario;
  ++more.batch.micro;
  EXPECT_FALSE(fits(memory_of(expand(more)).front()));
}

TEST(Fitting, TheFewestGpusAreTheFewest) {
  const Scenario s = scenario_of(
      "model: llama3-8b\nplatform: dgx-h100\ngpus: 64\nbatch: {global: 64, micro: 1}\n"
      "input: {sequence: 4096}\nprecision: amp-bf16\noptimizer: {name: adamw}\nstrategies: "
      "[fsdp]\n");
  const auto fewest = fewest_gpus(s, expand(s).front(), {});
  ASSERT_TRUE(fewest.has_value());
  const int gpus = fewest->prediction.gpus;
  EXPECT_EQ(fewest->prediction.global_batch, 64);
  ASSERT_GT(gpus, 1);
  Scenario fewer = s;
  fewer.gpus = {gpus / 2};
  EXPECT_FALSE(fits(memory_of(expand(fewer)).front()));
}

TEST(Fitting, EverySuggestionIsTrue) {
  for (const char* strategy : {"ddp", "fsdp: {sharding: shard_grad_op}", "zero: {stage: 2}",
                               "fsdp: {version: 2, cpu_offload: true}"}) {
    std::size_t found = 0;
    for (const char* rest : {"model: gpt2-xl\ngpus: 8\nbatch: {global: 192, micro: 24}\n",
                             "model: vit_b_16\ngpus: 4\nbatch: {micro: 480, accumulation: 3}\n",
                             "model: mpt-1b\ngpus: 1\nbatch: {per_gpu: 24}\n"}) {
      found += changes_of(std::string(rest) + "platform: g5.12xlarge\nprecision: amp-bf16\n" +
                          "optimizer: {name: adamw}\nstrategies: [" + strategy +
                          "]\nsimulation: {steps: 3}\n")
                   .size();
    }
    EXPECT_GE(found, 3U) << strategy;
  }
}

}  // namespace
}  // namespace lockstep::fitting_test
