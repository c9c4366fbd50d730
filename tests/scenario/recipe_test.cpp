// Which values does a recipe set, and which does it leave to the file?
#include "scenario/recipe.hpp"

#include <fmt/format.h>

#include "helpers.hpp"
#include "questions/run.hpp"
#include "results/render.hpp"
#include "scenario/alternatives.hpp"

namespace lockstep::recipe_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string start =
    "name: test\nmodel: gpt2\nbatch: {per_gpu: 2}\nplatform: dgx-a100-80gb\ngpus: 8\n";

Scenario read(const std::string& fields) {
  return read_scenario_text(start + fields, "test.yaml");
}

TEST(Recipe, SetsWhatTheFileDoesNotSay) {
  const Scenario titan = read("recipe: torchtitan\nstrategies: [fsdp, ddp]\n");
  EXPECT_EQ(titan.precision, Precision::amp_bf16);
  EXPECT_EQ(titan.optimizer.name, OptimizerKind::adamw);
  EXPECT_EQ(titan.optimizer.implementation, OptimizerImplementation::fused);
  EXPECT_EQ(titan.gradient_clipping, 1);
  EXPECT_TRUE(titan.activation_checkpointing);
  EXPECT_EQ(titan.recompute, Recompute::operators);
  const auto& fsdp = std::get<FsdpOptions>(titan.strategies[0].options);
  EXPECT_EQ(fsdp.version, 2);
  EXPECT_EQ(fsdp.reduce_bytes, 4);
  EXPECT_EQ(titan.strategies[0].label, "fsdp");
  const auto of_meshes = [](const RecipeSetting& setting) {
    return setting.field.starts_with("parallel.");
  };
  const auto& settings = settings_of(Recipe::torchtitan);
  EXPECT_EQ(std::ptrdiff_t(titan.recipe_set.size()),
            std::count_if(settings.begin(), settings.end(), std::not_fn(of_meshes)));
}

// A recipe sets axes of the scenario's mesh and of a strategy's own mesh. An axis that is a number
// is treated as a map with that size.
TEST(Recipe, SetsTheAxesThatAMeshHas) {
  const Scenario scenario = read(
      "recipe: megatron\nparallel: {tensor: 4}\n"
      "strategies: [{zero: {stage: 1}, label: a}, {ddp: {}, label: b, parallel: {pipeline: 2}}]\n");
  EXPECT_EQ(scenario.parallel.tensor.size, 4);
  EXPECT_TRUE(scenario.parallel.tensor.sequence);
  EXPECT_EQ(scenario.parallel.tensor.overlap, TensorOverlap::backward);
  EXPECT_EQ(scenario.parallel.pipeline.transfers, PipelineTransfers::stream);
  const ParallelOptions& own = scenario.strategies[1].parallel.value();
  EXPECT_EQ(own.pipeline.stages, 2);
  EXPECT_EQ(own.pipeline.transfers, PipelineTransfers::host);
  EXPECT_FALSE(own.tensor.sequence);
}

TEST(Recipe, LeavesWhatTheFileSaysFieldByField) {
  const Scenario scenario = read(
      "recipe: torchtitan\nprecision: pure-bf16\noptimizer: {name: sgd, momentum: 0.9}\n"
      "strategies: [{fsdp: {version: 1}, label: a}, {fsdp: {sharding: shard_grad_op}, label: b}]\n"
      "gradient_clipping: 0\n");
  EXPECT_EQ(scenario.precision, Precision::pure_bf16);
  EXPECT_EQ(scenario.optimizer.name, OptimizerKind::sgd);
  EXPECT_EQ(scenario.optimizer.implementation, OptimizerImplementation::fused);
  EXPECT_EQ(scenario.gradient_clipping, 0);
  EXPECT_EQ(std::get<FsdpOptions>(scenario.strategies[0].options).version, 1);
  EXPECT_EQ(std::get<FsdpOptions>(scenario.strategies[1].options).version, 2);
  for (const std::string& set : scenario.recipe_set) {
    for (const char* said : {"precision", "optimizer.name", "gradient_clipping"}) {
      EXPECT_EQ(set.find(said), std::string::npos) << set;
    }
  }
}

// A scenario that is written out in full, as --set, sweep and the explorer do, has the same
// meaning.
TEST(Recipe, ExpandedScenarioAsksTheSame) {
  for (std::size_t i = 0; i < EnumNames<Recipe>::names.size(); ++i) {
    const Scenario scenario =
        read(fmt::format("recipe: {}\nstrategies: [ddp, zero]\n", EnumNames<Recipe>::names[i]));
    const std::string written = write_scenario(scenario);
    EXPECT_EQ(write_scenario(read_scenario_text(written, "written.yaml")), written);
  }
}

// A setting with an unknown field or a wrong value would refuse every file with the recipe.
TEST(Recipe, EachRunsAndIsTold) {
  for (std::size_t i = 1; i < EnumNames<Recipe>::names.size(); ++i) {
    const std::string name = EnumNames<Recipe>::names[i];
    const ResultRecord record =
        run_scenario(read(fmt::format("recipe: {}\nstrategies: [ddp, zero]\n", name)), {1, {}});
    EXPECT_THAT(render_text(record), HasSubstr("Recipe " + name + ": precision "));
    EXPECT_EQ(record.predictions.size(), 2u);
  }
  const ResultRecord none = run_scenario(read("strategies: [ddp]\n"), {1, {}});
  EXPECT_FALSE(none.recipe);
}

TEST(Recipe, MayBeListed) {
  const auto all = read_alternatives_text(
      start + "recipe: [nanotron, deepspeed]\nstrategies: [zero]\n", "test.yaml");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].scenario.precision, Precision::master_bf16_fp32_gradients);
  EXPECT_EQ(all[1].scenario.precision, Precision::master_bf16);
}

TEST(Recipe, UnknownOnesAndMisfitsAreRefusedWhereTheyStand) {
  EXPECT_THAT(refusal([] { read("recipe: torchtitain\nstrategies: [ddp]\n"); }),
              AllOf(HasSubstr("test.yaml:6:9: recipe:"), HasSubstr("did you mean 'torchtitan'")));
  // FSDP does not have Megatron's gradients.
  EXPECT_THAT(refusal([] {
                run_scenario(read("recipe: megatron\nstrategies: [ddp, fsdp]\n"), {1, {}});
              }),
              AllOf(HasSubstr("test.yaml:7:19"), HasSubstr("master-bf16-fp32-gradients")));
}

}  // namespace
}  // namespace lockstep::recipe_test
