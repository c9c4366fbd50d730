// How do the consistency modes behave if workers differ: staleness, bounds, stragglers, bandwidth?
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <ctime>
#include <map>

#include "ps_fixture.hpp"

namespace lockstep::testing::ps_behaviour_test {
namespace {

ToySystem jittery(int workers, PsRule rule) {
  ToySystem toy;
  toy.workers = workers;
  toy.sigma = 0.3;
  toy.update = 5e-4;
  toy.accumulate = 1e-4;
  toy.steps = 200;
  toy.rule = rule;
  return toy;
}

std::int64_t largest_staleness(const PsTrace& trace) {
  return trace.staleness.rbegin()->first;
}

PsTrace with_slow_worker(ToySystem toy, double slow) {
  PsSystem system = make_system(toy);
  system.factor = [slow](int worker, int) { return worker == 0 ? slow : 1.0; };
  return run_parameter_server(system);
}

TEST(Staleness, NeverExceedsWhatTheBoundAllows) {
  // Between a worker's pull at clock c and the application of its push, every other worker is
  // between the clocks c - s and c + s, so each makes at most 2s + 1 pushes (fact 83).
  for (const int bound : {1, 2, 5}) {
    const int workers = 8;
    const PsTrace trace =
        run_parameter_server(make_system(jittery(workers, stale_synchronous(bound))));
    EXPECT_LE(largest_staleness(trace), (workers - 1) * (2 * bound + 1));
    EXPECT_GT(largest_staleness(trace), 0);
  }
}

TEST(Staleness, GrowsWithTheBoundWhileWaitingShrinks) {
  double waiting = 1e9, tail = -1;
  for (const int bound : {1, 3, 10}) {
    ToySystem toy = jittery(8, stale_synchronous(bound));
    toy.sigma = 1.0;
    const PsTrace trace = run_parameter_server(make_system(toy));
    EXPECT_LT(trace.split.waiting, waiting);
    EXPECT_GT(static_cast<double>(largest_staleness(trace)), tail);
    waiting = trace.split.waiting;
    tail = static_cast<double>(largest_staleness(trace));
  }
}

TEST(Staleness, EveryPushIsCounted) {
  const PsTrace trace = run_parameter_server(make_system(jittery(8, asynchronous())));
  std::int64_t pushes = 0;
  for (const auto& [staleness, count] : trace.staleness) pushes += count;
  // There are 199 measured steps of 8 workers. Pushes in flight at both ends change the count a
  // little.
  EXPECT_NEAR(static_cast<double>(pushes), 199 * 8, 8);
  EXPECT_NEAR(mean_staleness(trace), 7, 0.1);
}

TEST(Consistency, BoundZeroIsSynchronous) {
  // If the server takes no time, it makes no difference whether gradients are applied one by one or
  // together.
  ToySystem toy = jittery(8, bulk_synchronous(8));
  toy.update = toy.accumulate = 0;
  const PsTrace sync = run_parameter_server(make_system(toy));
  toy.rule = stale_synchronous(0);
  const PsTrace bounded = run_parameter_server(make_system(toy));
  ASSERT_EQ(sync.step_ends.size(), bounded.step_ends.size());
  for (std::size_t i = 0; i < sync.step_ends.size(); ++i) {
    EXPECT_NEAR(bounded.step_ends[i] / sync.step_ends[i], 1, 1e-9);
  }
  ParameterServerOptions options;
  options.consistency = Consistency::ssp;
  options.staleness_bound = 0;
  const auto rule = consistency_rule(options, 8, 1)(8);
  EXPECT_EQ(rule->pushes_per_update(0), 8);
  EXPECT_TRUE(rule->pusher_waits());
}

TEST(Consistency, LargeBoundIsAsynchronous) {
  const PsTrace bounded = run_parameter_server(make_system(jittery(8, stale_synchronous(1000))));
  const PsTrace async = run_parameter_server(make_system(jittery(8, asynchronous())));
  EXPECT_EQ(bounded.step_ends, async.step_ends);
  EXPECT_EQ(bounded.staleness, async.staleness);
}

TEST(Stragglers, OneSlowWorkerSlowsSynchronousButHardlyAsynchronousTraining) {
  ToySystem toy;
  toy.workers = 8;
  toy.bandwidth = 1e15;  // a transfer takes 0.1 us
  toy.steps = 100;
  toy.rule = bulk_synchronous(8);
  const double compute = toy.forward + toy.backward;
  EXPECT_NEAR(mean_step(with_slow_worker(toy, 2)) / (2 * compute), 1, 1e-4);
  toy.rule = asynchronous();
  // In the time of 8 steps of eight equal workers, seven workers at full speed and one at half make
  // 7.5 steps.
  EXPECT_NEAR(mean_step(with_slow_worker(toy, 2)) / (compute * 8 / 7.5), 1, 0.01);
  // With a bound the slow worker holds the others back in the end.
  toy.rule = stale_synchronous(2);
  EXPECT_NEAR(mean_step(with_slow_worker(toy, 2)) / (2 * compute), 1, 0.02);
}

// A message that names a server or place beyond the existing ones is a programming error.
TEST(ParameterServerSystem, AMessageToAServerThatIsNotThereIsRefused) {
  for (int PsMessage::*address : {&PsMessage::server, &PsMessage::place}) {
    PsSystem system = make_system({});
    system.messages.front().*address = 1;
    EXPECT_THROW(run_parameter_server(system), std::logic_error);
  }
}

// W = 8 workers compute c = 30 ms, the slow one 39 ms; transfers take no time.
// - Sync: seven pushes arrive at 30 ms and are summed in 7 x 2 ms, until 44 ms. The slow worker's
// push of 39 ms is summed next, and one update of u ends the step: 44 + 2 + u = 46 ms + u.
// - SSP: the fast workers are at the bound, so the slow worker's update releases all eight at once.
// Seven pushes arrive 30 ms later, and each is an update, until 30 + 7 u. The slow worker's push of
// 39 ms queues behind these, and its update ends the round: 30 ms + 8 u.
// The steps are 48 and 46 ms for u = 2 ms, and 52 and 78 ms for u = 6 ms.
TEST(Stragglers, ABoundIsSlowerThanSyncOnlyWhereUpdatesCostMoreThanSums) {
  ToySystem toy;
  toy.workers = 8;
  toy.bandwidth = 1e15;  // a transfer takes 0.1 us
  toy.steps = 100;
  toy.keep = toy.accumulate = 2e-3;
  const auto last_step = [](const ToySystem& system) {
    return step_times(with_slow_worker(system, 1.3)).back();
  };
  const auto ratio = [&](double update) {
    toy.update = update;
    toy.rule = bulk_synchronous(8);
    const double sync = last_step(toy);
    EXPECT_NEAR(sync / (46e-3 + update), 1, 1e-4);
    toy.rule = stale_synchronous(3);
    return last_step(toy) / sync;
  };
  EXPECT_NEAR(ratio(2e-3), 46.0 / 48, 1e-4);
  EXPECT_NEAR(ratio(6e-3), 78.0 / 52, 1e-4);
}

TEST(Stragglers, IdenticalRanksFoldIntoOneWorker) {
  ToySystem toy;
  toy.workers = 16;
  toy.keep = 1e-3;
  toy.accumulate = 2e-3;
  toy.update = 3e-3;
  toy.rule = bulk_synchronous(16);
  const PsTrace all = run_parameter_server(make_system(toy));
  toy.workers = 1;
  PsSystem folded = make_system(toy);
  folded.workers[0].ranks = 16;
  const PsTrace one = run_parameter_server(folded);
  EXPECT_NEAR(mean_step(one) / mean_step(all), 1, 1e-9);
  EXPECT_NEAR(one.link_bytes[0] / all.link_bytes[0], 1, 1e-9);
  EXPECT_EQ(one.staleness, all.staleness);
}

// Eight workers compute for 30 ms: forward 10 ms, then a back layer that is ready after 5 ms and
// costs the server 5 ms, then a front layer that costs almost nothing. The server could make eight
// updates in 40.08 ms, and reaches this if each worker pushes all at once. With overlapped pushes,
// served first come first served, a worker that is ahead waits at its end behind the back layers of
// the others. All workers fall into step, from any start, and the server idles while all
// compute up to their first push. Steps that vary a lot dissolve the convoy.
TEST(Convoy, EqualAsynchronousWorkersThatOverlapPushesFallIntoStep) {
  const auto step = [](bool overlap, double sigma, double bandwidth) {
    ToySystem toy;
    toy.workers = 8;
    toy.steps = 300;
    toy.sigma = sigma;
    toy.bandwidth = bandwidth;
    toy.rule = asynchronous();
    PsSystem system = make_system(toy);
    system.segments = {{Phase::forward, {0, 0.010, 0.010}, true},
                       {Phase::backward, {0, 0.005, 0.005}},
                       {Phase::backward, {0, 0.015, 0.015}}};
    PsMessage back = system.messages.front(), front = back;
    back.push_bytes = back.pull_bytes = 100e6;
    front.push_bytes = front.pull_bytes = 1;
    back.segment = overlap ? 1 : 2;
    front.segment = 2;
    back.update_seconds = 5e-3;
    front.update_seconds = 0.01e-3;
    system.messages = {back, front};
    const auto drawn = system.factor;
    system.factor = [drawn](int worker, int batch) {
      // the starts are 5 ms apart
      return drawn(worker, batch) * (batch == 0 ? 1 + worker / 6.0 : 1);
    };
    const PsTrace trace = run_parameter_server(system);
    const std::size_t half = trace.step_ends.size() / 2;
    return (trace.step_ends.back() - trace.step_ends[half]) /
           static_cast<double>(trace.step_ends.size() - 1 - half);
  };
  const double fast = 1e13, slow = 20e9, capacity = 8 * 5.01e-3;
  EXPECT_NEAR(step(false, 0, fast) / capacity, 1, 1e-3);
  EXPECT_NEAR(step(true, 0, fast) / (0.010 + 0.005 + capacity), 1, 0.01);
  EXPECT_NEAR(step(true, 0.1, fast) / (0.010 + 0.005 + capacity), 1, 0.05);
  EXPECT_LT(step(true, 0.3, fast), 0.85 * (0.010 + 0.005 + capacity));
  EXPECT_GT(step(true, 0, slow), capacity);
}

TEST(SteadyState, StopsEarlyAndSaysSo) {
  ToySystem toy;
  PsSystem system = make_system(toy);
  const PsTrace whole = run_parameter_server(system);
  system.steady = true;
  const PsTrace stopped = run_parameter_server(system);
  EXPECT_TRUE(stopped.extrapolated);
  EXPECT_FALSE(whole.extrapolated);
  EXPECT_EQ(stopped.step_ends.size(), 4U);
  EXPECT_NEAR(mean_step(stopped) / mean_step(whole), 1, 1e-9);
}

// A worker gets faster for nine steps; the report leaves these steps out.
TEST(SteadyState, ReportsNothingOfTheApproach) {
  ToySystem toy;
  toy.workers = 2;
  toy.rule = bulk_synchronous(2);
  PsSystem system = make_system(toy);
  system.steady = true;
  system.factor = [](int, int step) { return step < 9 ? 2 - 0.1 * step : 1.0; };
  const PsTrace trace = run_parameter_server(system);
  ASSERT_TRUE(trace.extrapolated);
  EXPECT_GT(trace.step_ends.size(), 9U);
  EXPECT_EQ(trace.reported, 3U);
  EXPECT_NEAR(trace.split.forward, toy.forward, 1e-9);
  EXPECT_NEAR(trace.split.backward, toy.backward, 1e-9);
  EXPECT_NEAR(total(trace.split), step_times(trace).back(), 1e-9);
}

// The slowest worker sets the step time, so steps of equal length may still have different parts;
// only equal parts count as steady.
TEST(SteadyState, IsOneOfEveryPart) {
  ToySystem toy;
  toy.workers = 2;
  toy.rule = bulk_synchronous(2);
  PsSystem system = make_system(toy);
  system.steady = true;
  system.factor = [](int worker, int step) {
    return worker == 0 ? 1.0 : std::max(0.3, 0.5 - 0.02 * step);
  };
  const PsTrace trace = run_parameter_server(system);
  ASSERT_TRUE(trace.extrapolated);
  EXPECT_GT(trace.step_ends.size(), 10U);
  EXPECT_NEAR(trace.split.backward, toy.backward * (1 + 0.3) / 2, 1e-9);
}

TEST(WorkerSteps, SayWhoDidThem) {
  ToySystem toy;
  toy.steps = 100;
  toy.rule = asynchronous();
  const PsTrace equal = run_parameter_server(make_system(toy));
  ASSERT_EQ(equal.worker_steps.size(), 1U);
  EXPECT_EQ(equal.worker_steps.begin()->second, toy.workers);
  // One of four workers is ten times slower and makes a tenth of another worker's steps.
  const PsTrace uneven = with_slow_worker(toy, 10);
  std::int64_t steps = 0, workers = 0;
  for (const auto& [made, by] : uneven.worker_steps) {
    steps += made * by;
    workers += by;
  }
  EXPECT_EQ(workers, toy.workers);
  EXPECT_NEAR(static_cast<double>(steps), 99.0 * toy.workers, toy.workers);
  EXPECT_LT(uneven.worker_steps.begin()->first, 0.25 * uneven.worker_steps.rbegin()->first);
  // The slow worker's own part of a mean step is not longer, because it makes fewer steps.
  double all = 0;
  for (const RankTimes& worker : uneven.workers) all += worker.steps;
  EXPECT_NEAR(all, toy.workers, 0.05 * toy.workers);
  const auto [least, most] =
      std::minmax_element(uneven.workers.begin(), uneven.workers.end(),
                          [](const auto& a, const auto& b) { return a.steps < b.steps; });
  EXPECT_NEAR(least->own / least->steps, 10 * most->own / most->steps, most->own);
}

TEST(Determinism, SameSystemSameTrace) {
  const PsSystem system = make_system(jittery(16, stale_synchronous(3)));
  const PsTrace a = run_parameter_server(system), b = run_parameter_server(system);
  EXPECT_EQ(a.step_ends, b.step_ends);
  EXPECT_EQ(a.staleness, b.staleness);
}

RC_GTEST_PROP(SynchronousServer, MoreBandwidthIsNeverSlower, ()) {
  ToySystem toy;
  toy.workers = *rc::gen::inRange(1, 12);
  toy.servers = *rc::gen::inRange(1, 4);
  toy.rule = bulk_synchronous(toy.workers);
  toy.sigma = *rc::gen::element(0.0, 0.2, 0.8);
  toy.update = *rc::gen::inRange(0, 20) * 1e-3;
  toy.accumulate = *rc::gen::inRange(0, 5) * 1e-3;
  toy.bandwidth = *rc::gen::inRange(1, 50) * 1e9;
  toy.seed = *rc::gen::inRange(1, 1000);
  const PsTrace slow = run_parameter_server(make_system(toy));
  toy.bandwidth *= 1 + *rc::gen::inRange(1, 30) / 10.0;
  const PsTrace fast = run_parameter_server(make_system(toy));
  for (std::size_t i = 0; i < slow.step_ends.size(); ++i) {
    RC_ASSERT(fast.step_ends[i] <= slow.step_ends[i] * (1 + 1e-9));
  }
}

RC_GTEST_PROP(ParameterServer, PartsAddUpAndBytesReturn, ()) {
  ToySystem toy;
  toy.workers = *rc::gen::inRange(1, 10);
  toy.servers = *rc::gen::inRange(1, 4);
  toy.sigma = *rc::gen::element(0.0, 0.5);
  toy.update = *rc::gen::inRange(0, 30) * 1e-3;
  toy.latency = *rc::gen::inRange(0, 3) * 1e-4;
  toy.rule = *rc::gen::element(bulk_synchronous(toy.workers), stale_synchronous(2), asynchronous());
  toy.seed = *rc::gen::inRange(1, 1000);
  PsSystem system = make_system(toy);
  system.serial_servers = *rc::gen::arbitrary<bool>();
  system.input_seconds = *rc::gen::element(0.0, 0.02, 0.2);
  const PsTrace trace = run_parameter_server(system);
  RC_ASSERT(std::abs(total(trace.split) / mean_step(trace) - 1) < 1e-9);
  RC_ASSERT(trace.split.waiting >= -1e-12);
  RC_ASSERT(trace.split.exposed_communication >= -1e-12);
  // Pulled bytes were pushed before; the rest is in flight when the run ends.
  const double on_the_way = toy.bytes * toy.workers;
  RC_ASSERT(trace.pulled_bytes <= trace.pushed_bytes * (1 + 1e-12));
  RC_ASSERT(trace.pushed_bytes <= trace.pulled_bytes + on_the_way * (1 + 1e-12));
  for (const double busy : trace.link_busy) RC_ASSERT(busy <= 1 + 1e-9);
  RC_ASSERT(trace.server_busy <= 1 + 1e-9);
}

// A worker's host is reported as a stream only if issuing layers takes it time.
TEST(Observed, AHostThatTakesNoTimeIsNotTold) {
  struct Listener final : Observer {
    bool watches(std::string_view, int) const override { return true; }
    void on_work(const Work& work) override {
      if (work.name != "layer") return;
      ++told[std::string(work.stream.name)];
      if (work.stream.name == "compute") launched += work.after != 0;
    }
    std::map<std::string, int> told;
    int launched = 0;
  };
  const auto told = [](double host) {
    PsSystem system = make_system({.workers = 1, .steps = 3, .rule = stale_synchronous(0)});
    for (PsSegment& segment : system.segments) {
      segment.work.host = host;
      segment.parts = {{"layer", segment.work}};
    }
    Listener listener;
    system.observer = &listener;
    run_parameter_server(system);
    return listener;
  };
  const Listener without = told(0), with = told(1e-3);
  EXPECT_EQ(without.told.count("host"), 0U);
  EXPECT_EQ(without.launched, 0);
  EXPECT_GE(with.told.at("host"), 6);  // two segments a step
  EXPECT_EQ(with.told.at("host"), with.told.at("compute"));
  EXPECT_EQ(with.launched, with.told.at("compute"));
}

TEST(Speed, ManyAsynchronousWorkersOnOneLink) {
  const auto seconds = [](int workers) {
    ToySystem toy = jittery(workers, asynchronous());
    toy.steps = 1000;
    const PsSystem system = make_system(toy);
    // of this process, because other processes may need the cores
    const std::clock_t begin = std::clock();
    run_parameter_server(system);
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  // The time per update hardly grows with the number of workers: an event does not cost O(flows).
  // The benchmark measures the time itself.
  EXPECT_LT(seconds(512), 8 * 4 * seconds(64));
}

}  // namespace
}  // namespace lockstep::testing::ps_behaviour_test
