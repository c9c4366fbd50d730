// Do the sharding rules place every parameter exactly once, and as the published systems place it?
#include "strategies/parameter_server/keys.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

namespace lockstep::keys_test {
namespace {

TrainingStep step_with(const std::vector<std::int64_t>& tensors) {
  TrainingStep step;
  for (const std::int64_t count : tensors) {
    Layer layer;
    Parameter parameter;
    parameter.count = count;
    layer.parameters.push_back(parameter);
    step.layers.push_back(layer);
    step.parameter_count += count;
  }
  return step;
}

constexpr KeyRule kAllRules[] = {KeyRule::split_large, KeyRule::ranges, KeyRule::hash,
                                 KeyRule::balanced};

TEST(Keys, LargeTensorsAreCutOverAllServersSmallOnesHashed) {
  const std::vector<Key> keys =
      make_keys(step_with({999'999, 1'000'000, 5}), {4, KeyRule::split_large, 0});
  ASSERT_EQ(keys.size(), 6U);
  EXPECT_EQ(keys[0].server, 0);
  for (int server = 0; server < 4; ++server) {
    EXPECT_EQ(keys[static_cast<std::size_t>(1 + server)].server, server);
    EXPECT_EQ(keys[static_cast<std::size_t>(1 + server)].elements, 250'000);
  }
  EXPECT_EQ(keys[5].tensor, 2);
  EXPECT_EQ(keys[5].server, 2 * 9973 % 4);
}

TEST(Keys, RangesAreEqualWhateverTheTensors) {
  const std::vector<Key> keys =
      make_keys(step_with({10, 1000, 3, 7, 500}), {4, KeyRule::ranges, 0});
  const std::vector<std::int64_t> held = elements_per_server(keys, 4);
  EXPECT_EQ(held, (std::vector<std::int64_t>{380, 380, 380, 380}));
}

TEST(Keys, HashIsDjb2OfTheDecimalKeyNumber) {
  EXPECT_EQ(djb2(""), 5381U);
  EXPECT_EQ(djb2("0"), 5381U * 33 + 48);
  const std::vector<Key> keys = make_keys(step_with({3000}), {7, KeyRule::hash, 1000});
  ASSERT_EQ(keys.size(), 3U);
  EXPECT_EQ(keys[2].server, static_cast<int>(djb2("2") % 7));
}

TEST(Keys, BalancedPutsTheLongestOnTheEmptiest) {
  const std::vector<Key> keys = make_keys(step_with({4, 5, 3, 3, 3}), {2, KeyRule::balanced, 0});
  EXPECT_EQ(elements_per_server(keys, 2), (std::vector<std::int64_t>{8, 10}));
}

TEST(Keys, FrozenAndEmptyTensorsHaveNoKey) {
  TrainingStep step = step_with({10, 0, 20});
  step.layers[2].parameters[0].trainable = false;
  EXPECT_EQ(make_keys(step, {1, KeyRule::split_large, 0}).size(), 1U);
  EXPECT_DOUBLE_EQ(imbalance({}, {3}), 1);
}

// One tensor dominates: hashing leaves it on one server, cutting spreads it over all (facts 71,
// 72).
TEST(Keys, OneBigTensorUnbalancesHashingOnly) {
  const TrainingStep step = step_with({1000, 102'760'448, 2000, 16'777'216});
  EXPECT_GT(imbalance(make_keys(step, {4, KeyRule::hash, 0}), {4}), 2.5);
  EXPECT_LT(imbalance(make_keys(step, {4, KeyRule::split_large, 0}), {4}), 1.001);
  EXPECT_LT(imbalance(make_keys(step, {4, KeyRule::balanced, 1'000'000}), {4}), 1.01);
}

RC_GTEST_PROP(Keys, EveryElementIsKeptOnceAndInOrder, ()) {
  const auto tensors = *rc::gen::container<std::vector<std::int64_t>>(
      *rc::gen::inRange(0, 30), rc::gen::inRange<std::int64_t>(0, 3'000'000));
  const TrainingStep step = step_with(tensors);
  const int servers = *rc::gen::inRange(1, 9);
  const std::int64_t longest = *rc::gen::element<std::int64_t>(0, 70'000, 1'000'000);
  for (const KeyRule rule : kAllRules) {
    const std::vector<Key> keys = make_keys(step, {servers, rule, longest});
    std::vector<std::int64_t> per_layer(step.layers.size(), 0);
    int previous = 0;
    for (const Key& key : keys) {
      RC_ASSERT(key.elements > 0);
      RC_ASSERT(longest == 0 || key.elements <= longest);
      RC_ASSERT(key.server >= 0 && key.server < servers);
      RC_ASSERT(key.layer >= previous);
      previous = key.layer;
      per_layer[static_cast<std::size_t>(key.layer)] += key.elements;
    }
    RC_ASSERT(per_layer == tensors);
    const std::vector<std::int64_t> held = elements_per_server(keys, servers);
    RC_ASSERT(std::accumulate(held.begin(), held.end(), std::int64_t{0}) == step.parameter_count);
  }
}

}  // namespace
}  // namespace lockstep::keys_test
