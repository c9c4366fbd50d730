// Under any failures, is all work counted exactly once, and do runs with enough spares end?
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "fixture.hpp"

namespace lockstep::long_run_property_test {
namespace {

LongRun any_plan() {
  const int nodes = *rc::gen::inRange(1, 9);
  const double steps = *rc::gen::inRange(1, 2000);
  LongRun plan = *rc::gen::arbitrary<bool>() ? gang(nodes, steps, 0) : elastic(nodes, steps, 0);
  plan.independent_workers = plan.steps_per_second[1] > 0 && *rc::gen::arbitrary<bool>();
  plan.state_nodes = *rc::gen::inRange(0, nodes + 1);
  plan.servers = *rc::gen::inRange(0, 3);
  plan.workers_per_node = *rc::gen::inRange(1, 9);
  for (double* speed : {&plan.speeds.node, &plan.speeds.server, &plan.speeds.job,
                        &plan.speeds.workers, &plan.speeds.link}) {
    *speed = *rc::gen::inRange(0, 20) / 1e4;
  }
  if (*rc::gen::arbitrary<bool>()) plan.steps_between_checkpoints = *rc::gen::inRange(1, 300);
  plan.write_seconds = *rc::gen::inRange(0, 20);
  if (*rc::gen::arbitrary<bool>()) {
    plan.copy_seconds = *rc::gen::inRange(0, 5);
    plan.speed_while_writing = *rc::gen::inRange(5, 11) / 10.0;
  }
  plan.read_seconds = *rc::gen::inRange(0, 20);
  Faults& faults = plan.faults;
  faults.detection_seconds = *rc::gen::inRange(0, 30);
  faults.restart_seconds = *rc::gen::inRange(0, 30);
  faults.repair_seconds = *rc::gen::inRange(0, 500);
  faults.link_outage_seconds = *rc::gen::inRange(0, 500);
  faults.spare_nodes = *rc::gen::inRange(0, 4);
  if (*rc::gen::arbitrary<bool>()) faults.hot_restart_seconds = *rc::gen::inRange(0, 30);
  if (!plan.independent_workers && nodes > 1 && plan.steps_per_second[1] > 0 &&
      *rc::gen::arbitrary<bool>()) {
    plan.replica_nodes = nodes % 2 == 0 && nodes > 2 ? 2 : 1;
    plan.catch_up_seconds = *rc::gen::inRange(0, 20);
    plan.servers = 0;
  }
  if (*rc::gen::arbitrary<bool>()) {
    const double copies = *rc::gen::inRange(1, nodes + 1);
    plan.memory = {static_cast<int>(copies), copies * 10, 5, 2, 3};
  }
  if (*rc::gen::arbitrary<bool>()) {
    plan.speeds.slows = 5e-4;
    plan.speed_with_slow_node = 0.75;
    faults.degraded.emplace();
    if (*rc::gen::arbitrary<bool>())
      faults.degraded->evict_after_seconds = *rc::gen::inRange(0, 200);
  }
  for (int n = *rc::gen::inRange(0, 5); n > 0; --n) {
    ScheduledFailure& one = faults.at.emplace_back();
    one.seconds = *rc::gen::inRange(0, 3000);
    std::optional<int>* const what[] = {&one.node, &one.link, &one.leaves, &one.joins};
    *what[*rc::gen::inRange(0, 4)] = *rc::gen::inRange(0, nodes + faults.spare_nodes);
  }
  return plan;
}

RC_GTEST_PROP(LongRunProperty, NoWorkIsLostOrCountedTwice, ()) {
  const LongRun plan = any_plan();
  const LongRunResult r = play(plan, 3, 0);
  const double sum = r.training + r.lost + r.checkpoints + r.down + r.waiting;
  RC_ASSERT(std::abs(sum - r.seconds) <= 1e-9 * r.seconds);
  // Work that is kept is done once: a step a second on all nodes, and never faster on fewer nodes.
  if (r.finished) RC_ASSERT(r.steps == plan.steps);
  RC_ASSERT(r.steps <= plan.steps);
  RC_ASSERT(r.training >= r.steps * (1 - 1e-9));
  // With independent workers a node may run without some of these, which changes its speed.
  const bool at_one_speed =
      plan.speeds.slows == 0 && (!plan.copy_seconds || plan.speed_while_writing == 1);
  if (at_one_speed && !plan.independent_workers &&
      (plan.nodes() == 1 || plan.steps_per_second[1] == 0)) {
    RC_ASSERT(std::abs(r.training - r.steps) <= 1e-9 * plan.steps);
  }
  RC_ASSERT(r.seconds >= plan.steps * (1 - 1e-9) || !r.finished);
  // A departure with notice interrupts the job if it takes the last replica.
  const int departures = r.evictions + static_cast<int>(plan.faults.at.size());
  RC_ASSERT(r.interruptions <= r.failures + (plan.replica_nodes > 0 ? departures : 0));
  RC_ASSERT(r.node_seconds <= r.seconds * plan.nodes() * (1 + 1e-9));
  if (r.failures == 0 && plan.faults.at.empty() && plan.speeds.slows == 0) {
    RC_ASSERT(std::abs(r.seconds - plan.failure_free_seconds()) <= 1e-9 * r.seconds);
  }
}

// If every leaving or joining node has a spare node, no job waits for ever.
RC_GTEST_PROP(LongRunProperty, WithEnoughSparesItEnds, ()) {
  LongRun plan = any_plan();
  plan.speeds = {};
  plan.faults.spare_nodes = 5;
  for (ScheduledFailure& one : plan.faults.at) {
    const int nodes = plan.nodes();
    for (std::optional<int>* node : {&one.node, &one.link, &one.leaves, &one.joins}) {
      if (*node) **node %= nodes;
    }
  }
  RC_ASSERT(play(plan, 3, 0).finished);
}

RC_GTEST_PROP(LongRunProperty, IsTheSameForTheSameSeed, ()) {
  const LongRun plan = any_plan();
  const LongRunResult a = play(plan, 3, 1), b = play(plan, 3, 1);
  RC_ASSERT(a.seconds == b.seconds);
  RC_ASSERT(a.failures == b.failures);
}

}  // namespace
}  // namespace lockstep::long_run_property_test
