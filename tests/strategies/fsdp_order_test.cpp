// Does FSDP's host gather, free and reduce the units in PyTorch's order? The order of a step is
// compared as a text.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "strategies/fsdp/order.hpp"
#include "tests/memory/networks.hpp"

namespace lockstep::fsdp_order_test {
namespace {

struct Case {
  FsdpOptions options;
  int ranks = 4;
  bool first = true, reduces = true;  // of the micro-batch
  bool once_a_step = false;           // as in a pipeline
};

FsdpLayout layout_of(const TrainingStep& step, const Case& asked) {
  FsdpLayout layout;
  layout.options = asked.options;
  layout.groups.ranks = asked.ranks;
  layout.once_a_step = asked.once_a_step;
  layout.units = make_units(step, {});
  for (const FsdpUnit& unit : layout.units) {
    layout.layouts.push_back(flat_layout(unit, asked.ranks));
  }
  return layout;
}

// The actions of a step as text: "+0" gathers unit 0, "=0" is the same for a unit that is already
// gathered, "!" marks a gather for which the host waits. "0" uses a unit, "-0" frees it, "R0"
// reduces its gradients, "K0" keeps and "A0" accumulates them. Joins are left out, and a bar
// separates forward from backward.
std::string text(FsdpOrder::Actions actions) {
  std::string text;
  for (const FsdpAction& action : actions) {
    switch (action.deed) {
      case FsdpDeed::unshard:
        text += fmt::format("{}{}{} ", action.limited ? "!" : "", action.fresh ? "+" : "=",
                            action.unit);
        break;
      case FsdpDeed::use:
        text += fmt::format("{} ", action.unit);
        break;
      case FsdpDeed::reshard:
        text += fmt::format("-{} ", action.unit);
        break;
      case FsdpDeed::reduce:
        text += fmt::format("R{} ", action.unit);
        break;
      case FsdpDeed::keep:
        text += fmt::format("K{} ", action.unit);
        break;
      case FsdpDeed::accumulate:
        text += fmt::format("A{} ", action.unit);
        break;
      case FsdpDeed::join:
        break;
    }
  }
  return text;
}

// The order for a network of three blocks. With `root` a further layer lies outside the blocks, and
// unit 0 is the root.
std::string order_of(const Case& asked, bool root = false) {
  TrainingStep step = chain(root ? 4 : 3, 512, 1024 * 1024);
  if (root) step.layers.back().block.clear();
  const FsdpLayout layout = layout_of(step, asked);
  const HookPlaces hooks = fsdp_hooks(layout, step);
  FsdpOrder order(layout, hooks);
  order.begin_forward(asked.first, asked.reduces);
  const int layers = static_cast<int>(step.layers.size());
  std::string said;
  for (int layer = 0; layer < layers; ++layer) {
    for (const int u : hooks.before_forward[layer]) said += text(order.pre_forward(u));
    for (const int u : hooks.after_forward[layer]) said += text(order.post_forward(u));
  }
  said += "| ";
  for (int layer = layers - 1; layer >= 0; --layer) {
    for (const int u : hooks.before_backward[layer]) said += text(order.pre_backward(u));
    for (const int u : hooks.after_backward[layer]) said += text(order.post_backward(u));
  }
  said.pop_back();
  return said;
}

TEST(FsdpOrder, OneGathersTheNextUnitOfBackwardBeforeThisOneComputes) {
  EXPECT_EQ(order_of({}),
            "+0 0 -0 +1 1 -1 !+2 2 -2 | "
            "!+2 2 +1 -2 R2 1 !+0 -1 R1 0 -0 R0");
}

TEST(FsdpOrder, OneMayGatherItAfterwardsOrNotAhead) {
  Case asked;
  asked.options.backward_prefetch = BackwardPrefetch::post;
  EXPECT_EQ(order_of(asked),
            "+0 0 -0 +1 1 -1 !+2 2 -2 | "
            "!+2 2 -2 !+1 R2 1 -1 !+0 R1 0 -0 R0");
  asked.options.backward_prefetch = BackwardPrefetch::none;
  EXPECT_EQ(order_of(asked),
            "+0 0 -0 +1 1 -1 !+2 2 -2 | "
            "!+2 2 -2 R2 !+1 1 -1 R1 !+0 0 -0 R0");
}

// FSDP1 makes a unit's views early, so the unit is reduced only after the backward of the unit
// before.
TEST(FsdpOrder, OneGathersAheadInForwardWhenAsked) {
  Case asked;
  asked.options.forward_prefetch = true;
  asked.options.limit_all_gathers = false;
  EXPECT_EQ(order_of(asked),
            "+0 0 +1 -0 1 +2 -1 2 -2 | "
            "+2 2 +1 1 +0 -2 R2 0 -1 R1 -0 R0");
}

TEST(FsdpOrder, TheRootIsThereFromBeginningToEnd) {
  // The rate limiter also counts the root, although it is already gathered (fact 34).
  EXPECT_EQ(order_of({}, true),
            "+0 0 +1 1 -1 +2 2 -2 !+3 3 -3 | "
            "!=0 0 +3 -0 R0 3 !+2 -3 R3 2 !+1 -2 R2 1 -1 R1");
}

TEST(FsdpOrder, ShardGradOpKeepsParametersAndWithoutReductionGradients) {
  Case asked;
  asked.options.sharding = Sharding::shard_grad_op;
  asked.options.limit_all_gathers = false;
  asked.options.sync_every_micro_batch = false;
  EXPECT_EQ(order_of(asked),
            "+0 0 +1 1 +2 2 | "
            "=2 2 =1 -2 R2 1 =0 -1 R1 0 -0 R0");
  asked.reduces = false;
  EXPECT_EQ(order_of(asked),
            "+0 0 +1 1 +2 2 | "
            "=2 2 =1 K2 1 =0 K1 0 K0");
  asked.first = false;
  EXPECT_EQ(order_of(asked),
            "+0 0 +1 1 +2 2 | "
            "=2 2 =1 A2 K2 1 =0 A1 K1 0 A0 K0");
}

TEST(FsdpOrder, TwoIsOneUnitAheadAndNeverWaits) {
  Case asked;
  asked.options.version = 2;
  EXPECT_EQ(order_of(asked),
            "+0 0 -0 +1 1 -1 +2 2 -2 | "
            "+2 2 +1 -2 R2 1 +0 -1 R1 0 -0 R0");
}

// In a pipeline gradients are reduced after the last micro-batch. Parameters stay gathered for the
// whole step, or are freed after every forward with reshard_in_pipeline. After a backward they stay
// for the forward that follows.
TEST(FsdpOrder, TwoInAPipelineGathersOnceAStepOrForEachMicroBatch) {
  Case asked;
  asked.options.version = 2;
  asked.once_a_step = true;
  EXPECT_EQ(order_of(asked), "+0 0 +1 1 +2 2 | K2 K1 K0");
  asked.options.reshard_in_pipeline = true;
  EXPECT_EQ(order_of(asked),
            "+0 0 -0 +1 1 -1 +2 2 -2 | "
            "+2 2 +1 K2 1 +0 K1 0 K0");
}

}  // namespace
}  // namespace lockstep::fsdp_order_test
