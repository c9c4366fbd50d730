// Which parameters has each FSDP unit, and how are they padded?
#include "strategies/fsdp/units.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "strategies/fsdp/order.hpp"
#include "workload/model.hpp"

namespace lockstep::units_test {
namespace {

Layer layer(const std::string& name, const std::string& block,
            const std::vector<std::vector<std::int64_t>>& shapes) {
  Layer l;
  l.name = name;
  l.block = block;
  for (const auto& shape : shapes) {
    Parameter p;
    p.name = name + "." + std::to_string(l.parameters.size());
    p.shape = shape;
    p.count = 1;
    for (const auto size : shape) p.count *= size;
    l.parameters.push_back(p);
  }
  return l;
}

TrainingStep transformer() {
  TrainingStep step;
  step.layers = {layer("embedding", "", {{100, 8}}),
                 layer("h.0.attention", "h.0", {{8, 24}, {24}}),
                 layer("h.0.add", "h.0", {}),
                 layer("h.0.mlp", "h.0", {{8, 32}}),
                 layer("h.1.attention", "h.1", {{8, 24}, {24}}),
                 layer("h.1.mlp", "h.1", {{8, 32}}),
                 layer("norm", "", {{8}}),
                 layer("head", "", {})};
  return step;
}

// VGG-16's classifier after a small trunk.
TrainingStep vgg() {
  TrainingStep step;
  step.layers = {layer("features.0", "", {{64, 3, 3, 3}, {64}}),
                 layer("features.1", "", {}),
                 layer("features.28", "", {{512, 512, 3, 3}, {512}}),
                 layer("classifier.0", "", {{4096, 25088}, {4096}}),
                 layer("classifier.3", "", {{4096, 4096}, {4096}}),
                 layer("classifier.6", "", {{1000, 4096}, {1000}})};
  return step;
}

std::vector<std::string> names(const std::vector<FsdpUnit>& units) {
  std::vector<std::string> result;
  for (const auto& unit : units) result.push_back(unit.module);
  return result;
}

TEST(Units, BlocksOwnTheirParametersAndTheRestBelongsToTheRoot) {
  const auto units = make_units(transformer(), {});
  ASSERT_EQ(names(units), (std::vector<std::string>{"", "h.0", "h.1"}));
  EXPECT_TRUE(units[0].root);
  EXPECT_EQ(units[0].layers, (std::vector<int>{0, 6}));
  EXPECT_EQ(units[0].elements(), 808);
  EXPECT_EQ(units[0].first, 0);
  EXPECT_EQ(units[0].last, 7);
  EXPECT_FALSE(units[1].root);
  EXPECT_EQ(units[1].layers, (std::vector<int>{1, 3}));
  EXPECT_EQ(units[1].first, 1);
  EXPECT_EQ(units[1].last, 3);
  EXPECT_EQ(units[2].elements(), 8 * 24 + 24 + 8 * 32);
  EXPECT_EQ(units[2].trainable_tensors(), 3);
}

TEST(Units, NestedBlocksKeepTheirOwnParameters) {
  TrainingStep step;
  step.layers = {layer("stage.0.down", "stage.0", {{5}}),
                 layer("stage.0.block.0.conv", "stage.0.block.0", {{7}}),
                 layer("stage.0.block.1.conv", "stage.0.block.1", {{11}}),
                 layer("stage.0.norm", "stage.0", {{3}})};
  const auto units = make_units(step, {});
  ASSERT_EQ(names(units),
            (std::vector<std::string>{"stage.0", "stage.0.block.0", "stage.0.block.1"}));
  EXPECT_EQ(units[0].elements(), 8);
  EXPECT_EQ(units[0].first, 0);
  EXPECT_EQ(units[0].last, 3);
  EXPECT_EQ(units[1].elements(), 7);
}

// As in torchtitan, the unit before the blocks is freed after forward; norm and head are one unit
// that stays.
TEST(Units, OfBlocksAndEndsLeaveTheRootNothing) {
  TrainingStep step = transformer();
  step.layers.back() = layer("head", "", {{100, 8}});
  const auto units = make_units(step, {WrapPolicy::block_and_ends, 0});
  ASSERT_EQ(names(units), (std::vector<std::string>{"embedding", "h.0", "h.1", "norm"}));
  for (const FsdpUnit& unit : units) {
    EXPECT_FALSE(unit.root) << unit.module;
    EXPECT_EQ(unit.stays, unit.module == "norm") << unit.module;
  }
  EXPECT_EQ(units[0].last, 0);
  EXPECT_EQ(units[3].layers, (std::vector<int>{6, 7}));
  EXPECT_EQ(units[3].elements(), 808);
}

// Experts with a mesh of their own are gathered before their block and reduced after the block's
// backward.
TEST(Units, OfExpertsBeginAndEndWithTheirBlock) {
  StepOptions options;
  options.parameters = {{"layers", 2}, {"hidden", 64}, {"heads", 4}, {"kv_heads", 4}, {"mlp", 64}};
  options.sequence = 16;
  options.parallel.expert.size = 2;
  const TrainingStep step = build_step(*load_model("mixtral"), options);
  FsdpLayout layout;
  layout.options.version = 2;
  layout.groups.ranks = 4;
  layout.units = make_units(step, {});
  const HookPlaces hooks = fsdp_hooks(layout, step);
  int experts = 0;
  for (std::size_t u = 1; u < layout.units.size(); ++u) {
    const FsdpUnit &unit = layout.units[u], &around = layout.units[u - 1];
    if (!unit.expert) continue;
    ++experts;
    EXPECT_EQ(unit.module, around.module + " experts");
    EXPECT_EQ(std::pair(unit.first, unit.last), std::pair(around.first, around.last));
    const int both[] = {static_cast<int>(u), static_cast<int>(u) - 1};  // the inner unit first
    EXPECT_TRUE(
        std::any_of(hooks.after_backward.begin(), hooks.after_backward.end(),
                    [&](const std::vector<int>& at) { return std::ranges::equal(at, both); }));
  }
  EXPECT_EQ(experts, 2);
}

TEST(Units, OfBlocksAndATiedHeadKeepItInTheRoot) {
  TrainingStep step = transformer();
  step.layers.back().tied_layer = 0;
  EXPECT_EQ(names(make_units(step, {WrapPolicy::block_and_ends, 0})),
            (std::vector<std::string>{"", "h.0", "h.1"}));
}

TEST(Units, PolicyNoneIsOneUnit) {
  const auto units = make_units(transformer(), {WrapPolicy::none, 0});
  ASSERT_EQ(units.size(), 1u);
  EXPECT_TRUE(units[0].root);
  EXPECT_EQ(units[0].layers, (std::vector<int>{0, 1, 3, 4, 5, 6}));
}

TEST(Units, SizePolicyWrapsWhatPyTorchWraps) {
  // With the default of 100M only the first linear layer (102.8M) is large enough; the rest of the
  // classifier is not.
  EXPECT_EQ(names(make_units(vgg(), {WrapPolicy::size, 0})),
            (std::vector<std::string>{"", "classifier.0"}));
  // With 20M the rest of the classifier (16.8M + 4.1M = 20.9M) becomes a unit around the layer.
  const auto units = make_units(vgg(), {WrapPolicy::size, 20e6});
  EXPECT_EQ(names(units), (std::vector<std::string>{"", "classifier", "classifier.0"}));
  EXPECT_EQ(units[1].elements(), 4096 * 4096 + 4096 + 4096000 + 1000);
  // With 1M every large leaf is a unit; the modules around the leaves have too little left.
  EXPECT_EQ(names(make_units(vgg(), {WrapPolicy::size, 1e6})),
            (std::vector<std::string>{"", "features.28", "classifier.0", "classifier.3",
                                      "classifier.6"}));
  // With a size larger than the model the root is the only unit.
  EXPECT_EQ(make_units(vgg(), {WrapPolicy::size, 1e12}).size(), 1u);
}

// A block has 472 elements, the embedding 800. An nn.Sequential of blocks becomes a unit if it is
// large enough. An nn.ModuleList, which models of tokens have, never does.
TEST(Units, SizePolicyNeverWrapsAModuleList) {
  TrainingStep step = transformer();
  EXPECT_EQ(names(make_units(step, {WrapPolicy::size, 900})), (std::vector<std::string>{"", "h"}));
  step.tokens = 16;
  step.input_shape = {8};
  EXPECT_EQ(names(make_units(step, {WrapPolicy::size, 900})), (std::vector<std::string>{""}));
  EXPECT_EQ(names(make_units(step, {WrapPolicy::size, 470})),
            (std::vector<std::string>{"", "embedding", "h.0", "h.1"}));
}

// FSDP1's mixed precision leaves batch norms in fp32, as units inside the units.
TEST(Units, LayersThatStayWideAreUnitsOfTheirOwn) {
  TrainingStep step = transformer();
  step.layers[1].wide = step.layers[6].wide = true;
  const auto units = make_units(step, {});
  EXPECT_EQ(names(units), (std::vector<std::string>{"", "h.0", "h.0.attention", "h.1", "norm"}));
  EXPECT_EQ(units[1].layers, (std::vector<int>{3}));
  EXPECT_EQ(units[1].first, 1);
  EXPECT_TRUE(units[2].wide);
  EXPECT_FALSE(units[1].wide);
  // Their parameters do not count for other modules.
  EXPECT_EQ(names(make_units(step, {WrapPolicy::size, 400})),
            (std::vector<std::string>{"", "embedding", "h.0.attention", "h.1", "norm"}));
}

TEST(Units, AutomaticMeansBlocksUnlessASizeIsGiven) {
  EXPECT_EQ(make_units(transformer(), {}).size(), 3u);
  EXPECT_EQ(names(make_units(transformer(), {WrapPolicy::automatic, 250})),
            names(make_units(transformer(), {WrapPolicy::size, 250})));
  // Without blocks the size policy applies.
  EXPECT_EQ(names(make_units(vgg(), {})), names(make_units(vgg(), {WrapPolicy::size, 0})));
}

TEST(Units, ModelWithoutParametersHasNone) {
  TrainingStep step;
  step.layers = {layer("relu", "", {})};
  EXPECT_TRUE(make_units(step, {}).empty());
}

TEST(Units, FlatParameterIsPaddedToTheRanks) {
  FsdpUnit unit;
  unit.parameters = layer("a", "", {{10}, {3}}).parameters;
  EXPECT_EQ(flat_layout(unit, 4).elements, 16);
  EXPECT_EQ(flat_layout(unit, 4).shard, 4);
  EXPECT_EQ(flat_layout(unit, 13).elements, 13);
  // With 16-byte alignment of fp32 the second parameter starts at element 12.
  EXPECT_EQ(flat_layout(unit, 1, 4).elements, 15);
}

TEST(Units, DimensionZeroIsPaddedPerParameterInVersionTwo) {
  FsdpUnit unit;
  unit.parameters = layer("a", "", {{10}, {32, 3}}).parameters;
  // A bias of 10 elements on 16 ranks takes 16 (fact 46); 32 rows need no padding.
  EXPECT_EQ(per_parameter_layout(unit, 16).elements, 16 + 96);
  EXPECT_EQ(per_parameter_layout(unit, 16).shard, 7);
}

RC_GTEST_PROP(UnitProperties, EveryParameterIsOwnedOnce, ()) {
  TrainingStep step;
  const int layers = *rc::gen::inRange(1, 30);
  double total = 0;
  for (int i = 0; i < layers; ++i) {
    const int block = *rc::gen::inRange(-1, 5);
    const auto size = *rc::gen::inRange<std::int64_t>(0, 1000);
    const std::string path = block < 0 ? "" : "stage." + std::to_string(block);
    const std::string name = (block < 0 ? "l" : path + ".l") + std::to_string(i);
    step.layers.push_back(layer(name, path,
                                size > 0 ? std::vector<std::vector<std::int64_t>>{{size}}
                                         : std::vector<std::vector<std::int64_t>>{}));
    total += static_cast<double>(size);
  }
  const auto policy =
      *rc::gen::element(WrapPolicy::automatic, WrapPolicy::block, WrapPolicy::block_and_ends,
                        WrapPolicy::size, WrapPolicy::none);
  const auto least = *rc::gen::inRange(0, 2000);
  const auto units = make_units(step, {policy, static_cast<double>(least)});
  double owned = 0;
  int roots = 0;
  for (const auto& unit : units) {
    owned += unit.elements();
    roots += unit.root;
    RC_ASSERT(unit.first <= unit.layers.front() && unit.layers.back() <= unit.last);
    const int ranks = *rc::gen::inRange(1, 70);
    const auto flat = flat_layout(unit, ranks);
    RC_ASSERT(flat.elements >= unit.elements() && flat.elements < unit.elements() + ranks);
    RC_ASSERT(std::fmod(flat.elements, ranks) == 0);
    RC_ASSERT(per_parameter_layout(unit, ranks).elements >= unit.elements());
  }
  RC_ASSERT(owned == total);
  RC_ASSERT(roots <= 1);
}

}  // namespace
}  // namespace lockstep::units_test
