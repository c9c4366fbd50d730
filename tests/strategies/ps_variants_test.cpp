// Do the variants of the parameter server obey their papers: n-softsync, backup workers, bounds
// that adapt, phases, exchanges every few batches, pulls that overlap, priorities?
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/errors.hpp"
#include "ps_fixture.hpp"
#include "strategies/parameter_server/rules/change.hpp"

namespace lockstep::testing::ps_variants_test {
namespace {

constexpr double exact = 1e-9;
const PsRule async_rule = asynchronous();

// A system in which transfers and updates take no time, so that only the rule has an effect.
ToySystem pure(int workers, PsRule rule) {
  ToySystem toy;
  toy.workers = workers;
  toy.bandwidth = 1e18;
  toy.rule = rule;
  return toy;
}

// --- ssp compared with sync

// With a lasting straggler both rules run at its pace. Under ssp every push is an update, and the
// straggler's update queues behind the others'. The cost of an update therefore decides which rule
// is faster.
TEST(Ssp, PaysAnUpdateForEveryPush) {
  const auto step = [](PsRule rule, double update) {
    ToySystem toy = pure(8, rule);
    toy.accumulate = toy.keep = 0.2e-3;
    toy.update = update;
    toy.steps = 100;
    PsSystem system = make_system(toy);
    system.factor = [](int worker, int) { return worker == 3 ? 1.3 : 1.0; };
    return mean_step(run_parameter_server(system));
  };
  const PsRule sync = bulk_synchronous(8), ssp = stale_synchronous(3);
  EXPECT_LT(step(ssp, 0.1e-3), step(sync, 0.1e-3));
  EXPECT_GT(step(ssp, 4e-3), step(sync, 4e-3));
}

// --- n-softsync (fact 84)

PsRule softsync(int workers, int splitting) {
  ParameterServerOptions options;
  options.consistency = Consistency::softsync;
  options.splitting = splitting;
  return consistency_rule(options, workers, 1);
}

TEST(Softsync, UpdatesFromAnNthOfTheWorkersAndNobodyWaits) {
  EXPECT_EQ(softsync(16, 1)(16)->pushes_per_update(0), 16);
  EXPECT_EQ(softsync(16, 4)(16)->pushes_per_update(0), 4);
  EXPECT_EQ(softsync(16, 16)(16)->pushes_per_update(0), 1);
  EXPECT_EQ(softsync(16, 99)(16)->pushes_per_update(0), 1);
  EXPECT_FALSE(softsync(16, 4)(16)->pusher_waits());
}

// Zhang et al. 2016: a round of W pushes makes n updates, so the mean staleness is about n.
TEST(Softsync, StalenessIsAboutItsSplitting) {
  for (const int splitting : {1, 2, 4, 8, 16}) {
    double staleness = 0;
    const int seeds = 5;
    for (int seed = 1; seed <= seeds; ++seed) {
      ToySystem toy = pure(16, softsync(16, splitting));
      toy.sigma = 0.3;
      toy.steps = 200;
      toy.seed = static_cast<std::uint64_t>(seed);
      staleness += mean_staleness(run_parameter_server(make_system(toy))) / seeds;
    }
    // A worker's own push is part of an update, so the mean is n (W - 1) / W.
    EXPECT_NEAR(staleness, splitting * 15.0 / 16, 0.07 * splitting) << splitting;
  }
}

// If the server is the bottleneck, fewer updates shorten its queue, because an update costs more
// than a sum.
TEST(Softsync, SparesUpdates) {
  ToySystem toy = pure(8, async_rule);
  toy.forward = toy.backward = 1e-3;  // the server is the bottleneck
  toy.update = 20e-3;
  toy.keep = toy.accumulate = 1e-3;
  toy.steps = 50;
  EXPECT_NEAR(step_times(run_parameter_server(make_system(toy))).back(), 8 * 20e-3, 1e-6);
  toy.rule = softsync(8, 2);  // two updates of four sums each in a round
  EXPECT_NEAR(mean_step(run_parameter_server(make_system(toy))), 2 * (20e-3 + 4 * 1e-3), 2e-4);
}

// --- backup workers (fact 87)

PsRule backup(int workers, int spare) {
  ParameterServerOptions options;
  options.backup_workers = spare;
  return consistency_rule(options, workers, 1);
}

TEST(BackupWorkers, NoneIsSynchronous) {
  EXPECT_EQ(backup(8, 0)(8)->pushes_per_update(0), 8);
  EXPECT_FALSE(backup(8, 0)(8)->drops(0, 1));
  EXPECT_THROW(backup(8, 8), ConfigError);
}

// An independent version of Chen et al. 2016: an update takes the first N gradients on the present
// weights. A late worker starts with the weights that it finds when it has finished.
TEST(BackupWorkers, AnUpdateWaitsForTheFirstNOfThem) {
  for (const int spare : {1, 3}) {
    const int workers = 10, needed = workers - spare;
    ToySystem toy = pure(workers, backup(workers, spare));
    toy.sigma = 0.5;
    toy.steps = 40;
    PsSystem system = make_system(toy);
    system.records_updates = true;
    const PsTrace trace = run_parameter_server(system);
    std::vector<double> ends(10, toy.forward + toy.backward);
    std::vector<int> steps(10, 1), read(10, 0);
    for (int w = 0; w < workers; ++w) ends[static_cast<std::size_t>(w)] *= system.factor(w, 0);
    int version = 0;
    std::vector<int> waiting;
    std::vector<double> updates;
    const auto begin = [&](int w, double now) {
      const auto at = static_cast<std::size_t>(w);
      read[at] = version;
      ends[at] = now + (toy.forward + toy.backward) * system.factor(w, steps[at]++);
    };
    while (updates.size() < 30) {
      const auto first = std::min_element(ends.begin(), ends.end());
      const int w = static_cast<int>(first - ends.begin());
      const double now = *first;
      *first = 1e9;
      if (read[static_cast<std::size_t>(w)] < version) {
        begin(w, now);  // dropped
        continue;
      }
      waiting.push_back(w);
      if (static_cast<int>(waiting.size()) < needed) continue;
      ++version;
      updates.push_back(now);
      for (const int each : waiting) begin(each, now);
      waiting.clear();
    }
    std::size_t update = 0;
    for (const ScheduledPush& push : trace.updates) {
      if (push.applied <= static_cast<std::int64_t>(update) || update >= updates.size()) continue;
      EXPECT_NEAR(push.time / updates[update], 1, 1e-6) << spare << " " << update;
      ++update;
    }
    EXPECT_EQ(update, updates.size());
    EXPECT_GT(trace.dropped, 0);
    EXPECT_EQ(trace.staleness.rbegin()->first, 0);  // no stale gradient is used
  }
}

// One worker of eight is three times slower. With one backup worker no step waits for it. A step is
// eight used batches, and seven workers make one each in a round.
TEST(BackupWorkers, ASlowWorkerIsNotWaitedFor) {
  ToySystem toy = pure(8, backup(8, 1));
  toy.steps = 700;
  PsSystem system = make_system(toy);
  system.factor = [](int worker, int) { return worker == 3 ? 3.1 : 1.0; };
  const double compute = toy.forward + toy.backward;
  EXPECT_NEAR(mean_step(run_parameter_server(system)), compute * 8 / 7, 0.01 * compute);
  system.rule = bulk_synchronous(8);
  EXPECT_NEAR(mean_step(run_parameter_server(system)), compute * 3.1, exact);
}

// --- a bound that adapts (DSSP)

TEST(AdaptiveBound, GoesAsFarAsTheSlowestWillSoonAllow) {
  // The slowest worker pushes every 3 s, next at 3 s. The fastest pushes every 1 s, last at 1 s.
  EXPECT_EQ(best_extra({1, 1}, {0, 3}, 8), 2);  // its second further push is at 3 s
  EXPECT_EQ(best_extra({1, 1}, {0, 3}, 1), 1);
  EXPECT_EQ(best_extra({3, 1}, {0, 3}, 8), 0);  // the slowest worker pushes at the same time
}

TEST(AdaptiveBound, LiesBetweenItsEnds) {
  const auto run = [](int bound, int highest) {
    ToySystem toy = pure(8, stale_synchronous(bound, highest));
    toy.sigma = 1.0;
    toy.steps = 150;
    return run_parameter_server(make_system(toy));
  };
  const double low = run(1, 0).split.waiting, high = run(9, 0).split.waiting;
  const PsTrace adapts = run(1, 9);
  EXPECT_LT(adapts.split.waiting, low);
  EXPECT_GT(adapts.split.waiting, high);
  EXPECT_LT(adapts.staleness.rbegin()->first, 8 * (2 * 9 + 1));
}

// --- phases (Sync-Switch)

TEST(Phases, MeanStepIsThatOfItsParts) {
  const double compute = 0.030;
  for (const bool sync_first : {true, false}) {
    const PsRule sync = bulk_synchronous(8);
    ToySystem toy = pure(8, sync_first ? sync : async_rule);
    toy.steps = 201;
    PsSystem system = make_system(toy);
    system.factor = [](int worker, int) { return worker == 3 ? 2.0 : 1.0; };
    system.later.push_back({0.25, sync_first ? async_rule : sync});
    const double synchronous = 2 * compute, asynchronous = compute * 8 / 7.5;
    const double share = sync_first ? 0.25 : 0.75;
    EXPECT_NEAR(mean_step(run_parameter_server(system)),
                share * synchronous + (1 - share) * asynchronous, 0.01 * compute);
  }
}

// When the rule changes, workers are in the middle of a step. Some of its messages are at the
// servers, which answer them in a different order for each worker. Afterwards all workers must wait
// for the same steps of each other in every message.
TEST(Phases, MessagesOfAStepChangeTogether) {
  for (const bool overlap : {false, true}) {
    ToySystem toy;
    toy.workers = 6;
    toy.servers = 4;
    toy.bytes = 40e6;
    toy.bandwidth = 5e9;
    toy.sigma = 0.4;
    toy.update = 1e-3;
    toy.steps = 400;
    const auto step = [&](const PsRule& first, std::vector<PsPhase> later) {
      toy.rule = first;
      PsSystem system = make_system(toy);
      if (overlap) {  // the keys of the servers are ready one after the other
        const PsSegment backward = system.segments.back();
        for (PsMessage& message : system.messages) {
          message.segment = 1 + message.server;
          if (message.server > 0) system.segments.push_back(backward);
        }
      }
      system.later = std::move(later);
      return mean_step(run_parameter_server(system));
    };
    const PsRule sync = bulk_synchronous(toy.workers);
    const double together = step(sync, {}), alone = step(async_rule, {});
    const double mean = 0.5 * together + 0.5 * alone;
    EXPECT_NEAR(step(async_rule, {{0.5, sync}}), mean, 0.03 * mean) << overlap;
    EXPECT_NEAR(step(sync, {{0.5, async_rule}}), mean, 0.03 * mean) << overlap;
    // Under softsync updates wait for pushes, but no worker waits.
    const PsRule soft = softsync(toy.workers, 2);
    const double softly = step(soft, {}), soft_mean = 0.5 * softly + 0.5 * together;
    EXPECT_NEAR(step(soft, {{0.5, sync}}), soft_mean, 0.03 * soft_mean) << overlap;
    // The rule changes back and forth within a few steps.
    std::vector<PsPhase> many;
    for (int i = 1; i < 80; ++i) many.push_back({i / 80.0, i % 2 == 0 ? sync : async_rule});
    const double changing = step(sync, many);
    EXPECT_GT(changing, alone) << overlap;
    EXPECT_LT(changing, together) << overlap;
  }
}

// One push of worker 0 and two pushes of worker 2 belong to steps that began under the earlier rule
// and are still to come.
TEST(Phases, PushesOfEarlierStepsAreUpdatesOfTheirOwn) {
  const auto rule = bulk_synchronous(4)(4);
  const auto pushes = [&] {
    std::vector<int> result;
    for (int worker = 0; worker < 4; ++worker) result.push_back(rule->pushes_per_update(worker));
    return result;
  };
  rule->begin_midway({1, 0, 2, 0});
  EXPECT_EQ(pushes(), (std::vector<int>{1, 4, 1, 4}));
  for (const int worker : {0, 1, 2}) rule->settle(worker, 0);
  EXPECT_EQ(pushes(), (std::vector<int>{4, 4, 1, 4}));
  rule->settle(2, 0);
  EXPECT_EQ(pushes(), (std::vector<int>{4, 4, 4, 4}));
}

// --- a controller of the pace

PsTrace controlled(int steps, std::function<double(int, int)> factor, bool asynchronous = false) {
  ToySystem toy = pure(8, asynchronous ? async_rule : bulk_synchronous(8));
  toy.steps = steps;
  PsSystem system = make_system(toy);
  system.factor = std::move(factor);
  if (!asynchronous) system.controller = PaceController{};
  return run_parameter_server(system);
}

TEST(Controller, SeesTheSlowestAgainstTheMedian) {
  WorkerPace pace(4, 2);
  for (const double seconds : {1.0, 3.0}) {
    EXPECT_EQ(pace.slowest_over_median(), 1);
    for (int w = 0; w < 4; ++w) pace.add(w, w == 2 ? 5 * seconds : seconds, 0);
  }
  EXPECT_DOUBLE_EQ(pace.slowest_over_median(), 5);
  for (int i = 0; i < 2; ++i) pace.add(2, 3, 0);
  EXPECT_DOUBLE_EQ(pace.slowest_over_median(), 1.5);
}

TEST(Controller, SeesTheShareOfCommunication) {
  WorkerPace pace(2, 2);
  pace.add(0, 4, 1);
  pace.add(0, 4, 1);
  pace.add(1, 4, 1);
  EXPECT_EQ(pace.communication_share(), 0);
  pace.add(1, 8, 5);
  EXPECT_DOUBLE_EQ(pace.communication_share(), 0.4);
  pace.add(1, 4, 1);
  pace.add(1, 4, 1);
  EXPECT_DOUBLE_EQ(pace.communication_share(), 0.25);
}

// Eight equal workers share the server's link. In step, communication is three quarters of the
// step; out of step, some workers have the link to themselves for a while. No worker is slow enough
// for the other condition.
TEST(Controller, LetsGoOfASlowNetwork) {
  ToySystem toy;
  toy.workers = 8;
  toy.rule = bulk_synchronous(8);
  toy.bytes = 100e6;
  toy.bandwidth = 8 * 100e6 * 2 / 0.090;  // there and back take 90 of 120 ms
  toy.sigma = 0.2;
  toy.steps = 100;
  const auto run = [&](std::optional<double> communication) {
    PsSystem system = make_system(toy);
    system.controller = PaceController{};
    system.controller->communication = communication;
    return run_parameter_server(system);
  };
  const PsTrace never = run(std::nullopt);
  EXPECT_EQ(never.stretches, 0);
  EXPECT_EQ(run(0.8).stretches, 0);
  const PsTrace lets_go = run(0.7);
  EXPECT_GE(lets_go.stretches, 1);
  EXPECT_LT(mean_step(lets_go), mean_step(never));
}

TEST(Controller, LeavesEqualWorkersInStep) {
  const PsTrace trace = controlled(50, [](int, int) { return 1.1; });
  EXPECT_EQ(trace.stretches, 0);
  EXPECT_EQ(trace.asynchronous_share, 0);
  EXPECT_NEAR(mean_step(trace), 1.1 * 0.030, 1e-8);  // plus the messages
}

// Five rounds wait for the slow worker; then all run at the pace of asynchronous workers.
TEST(Controller, LetsGoOfALastingStraggler) {
  const double compute = 0.030;
  const auto slow = [](int worker, int) { return worker == 3 ? 2.0 : 1.0; };
  const PsTrace trace = controlled(200, slow);
  EXPECT_EQ(trace.stretches, 1);
  const double expected = 5 * 2 * compute + 195 * compute * 8 / 7.5;
  EXPECT_NEAR(trace.step_ends.back(), expected, 0.02 * expected);
  EXPECT_NEAR(trace.asynchronous_share, 1 - 5 * 2 * compute / expected, 0.02);
  // From then on the steps equal the steps of an asynchronous run.
  const PsTrace async = controlled(200, slow, true);
  EXPECT_NEAR(step_times(trace).back(), step_times(async).back(), 0.3 * compute);
}

// Worker 3 takes three times as long for twenty steps. The others wait for two of these, until the
// mean of its latest five steps exceeds 1.5. During the other steps only an eighth of its loss is
// lost. After five normal steps all workers wait for each other again.
TEST(Controller, ComesBackWhenAStragglerHasCaughtUp) {
  const double compute = 0.030;
  const PsTrace trace = controlled(200, [](int worker, int batch) {
    return worker == 3 && batch >= 50 && batch < 70 ? 3.0 : 1.0;
  });
  EXPECT_EQ(trace.stretches, 1);
  const double expected = (200 + 2 * 2 + 18 * 2.0 / 8) * compute;
  EXPECT_NEAR(trace.step_ends.back(), expected, 0.02 * expected);
  EXPECT_NEAR(step_times(trace).back(), compute, 1e-6);
  const double slow_stretch = (18 * 3 + 5) * compute;
  EXPECT_NEAR(trace.asynchronous_share, slow_stretch / expected, 0.05);
  const double waiting_for_all = (200 + 20 * 2) * compute;
  EXPECT_LT(trace.step_ends.back(), 0.9 * waiting_for_all);
}

// --- an exchange every few batches

TEST(Exchange, EveryFewBatchesCommunicatesAsOften) {
  for (const int batches : {1, 4}) {
    ToySystem toy;
    toy.rule = bulk_synchronous(4);
    PsSystem system = make_system(toy);
    const std::vector<PsSegment> one = system.segments;
    for (int batch = 1; batch < batches; ++batch) {
      for (PsSegment segment : one) {
        segment.batch = batch;
        system.segments.push_back(segment);
      }
    }
    system.batches = batches;
    for (PsMessage& message : system.messages) message.segment = 2 * batches - 1;
    const double transfers = 2 * 4 * toy.bytes / toy.bandwidth;
    EXPECT_NEAR(step_times(run_parameter_server(system)).back(),
                batches * (toy.forward + toy.backward) + transfers, exact);
  }
}

// --- pulls that overlap, priorities

// Without priorities messages leave in order, and the front layer's gradients come last: both
// layers' weights are back 20 ms after the end of backward.
TEST(PullOverlap, GainsNothingWithoutPriorities) {
  PsSystem system = two_layers(5);
  const PsTrace overlapped = run_parameter_server(system);
  EXPECT_NEAR(step_times(overlapped).back(), 0.020 + 0.020 + 0.060 + 0.010, exact);
  EXPECT_NEAR(overlapped.split.exposed_communication, 0.110 - 0.065, exact);
  system.pull_overlap = false;
  EXPECT_NEAR(mean_step(run_parameter_server(system)), mean_step(overlapped), exact);
}

// Times count from the end of forward. The back layer's five parts would be pushed from 20 to 70
// ms. The front layer's message is ready at 45 ms, goes when the third part is through, and is back
// at 70 ms. The back layer's last part is back at 90 ms, when the front layer's forward has ended.
TEST(PullOverlap, WithPrioritiesForwardBeginsWhileTheBackLayersTravel) {
  PsSystem system = two_layers(5);
  system.priorities = true;
  const PsTrace trace = run_parameter_server(system);
  EXPECT_NEAR(step_times(trace).back(), 0.090 + 0.010, exact);
  EXPECT_NEAR(trace.split.exposed_communication, 0.100 - 0.065, exact);
  EXPECT_NEAR(total(trace.split), 0.100, exact);
  system.pull_overlap = false;  // all weights must be back
  EXPECT_NEAR(step_times(run_parameter_server(system)).back(), 0.090 + 0.020, exact);
}

// Among messages that are ready at the same moment, the last one goes first if it is the most
// urgent.
TEST(PullOverlap, TheMostUrgentOfAMomentGoesFirst) {
  PsSystem system = two_layers(3);
  for (PsMessage& message : system.messages) message.segment = 3;
  system.records_updates = true;
  const auto order = [&] {
    std::vector<int> messages;
    for (const ScheduledPush& push : run_parameter_server(system).updates) {
      if (push.applied == 1) messages.push_back(push.message);
    }
    return messages;
  };
  EXPECT_EQ(order(), (std::vector<int>{0, 1, 2, 3}));
  system.priorities = true;
  EXPECT_EQ(order(), (std::vector<int>{3, 0, 1, 2}));
}

// With any overlap, all pushed bytes are pulled, except the messages in flight.
TEST(PullOverlap, BytesReturn) {
  const PsTrace trace = run_parameter_server(two_layers(3));
  EXPECT_LE(trace.pulled_bytes, trace.pushed_bytes);
  EXPECT_GE(trace.pulled_bytes, trace.pushed_bytes - 400e6);
}

// --- the record of updates

TEST(Updates, OfEveryRuleAreVersionsInOrder) {
  std::vector<PsRule> rules{bulk_synchronous(4), async_rule, stale_synchronous(2), softsync(4, 2),
                            backup(4, 1)};
  rules.push_back(stale_synchronous(1, 5));
  for (const PsRule& rule : rules) {
    ToySystem toy = pure(4, rule);
    toy.sigma = 0.4;
    toy.steps = 50;
    PsSystem system = make_system(toy);
    system.records_updates = true;
    std::int64_t version = 0, used = 0, read_later = 0;
    for (const ScheduledPush& push : run_parameter_server(system).updates) {
      if (push.applied == 0) continue;
      EXPECT_TRUE(push.applied == version || push.applied == version + 1);
      EXPECT_LT(push.read, push.applied);
      version = push.applied;
      read_later += push.applied - 1 - push.read;
      ++used;
    }
    const auto message = rule(4);
    const int pushes = message->pushes_per_update(0);
    EXPECT_EQ(used / pushes, version);
    EXPECT_GT(version, 20);
    EXPECT_EQ(read_later > 0, pushes == 1 || !message->pusher_waits());
  }
}

}  // namespace
}  // namespace lockstep::testing::ps_variants_test
