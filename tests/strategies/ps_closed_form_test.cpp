// Does the simulated parameter server obey the formulas that can be derived by hand?
#include <gtest/gtest.h>

#include "ps_fixture.hpp"

namespace lockstep::testing::ps_closed_form_test {
namespace {

constexpr double kExact = 1e-9;

// With W workers and S servers, a step is T = compute + W*M/S over the server's link + W sums and
// an update + W*M/S back (fact 78).
TEST(SynchronousServer, StepIsComputePushUpdatePull) {
  for (const int workers : {1, 2, 5, 8, 64}) {
    for (const int servers : {1, 2, 4}) {
      ToySystem toy;
      toy.workers = workers;
      toy.servers = servers;
      toy.keep = 1e-3;
      toy.accumulate = 2e-3;
      toy.update = 5e-3;
      toy.latency = 20e-6;
      toy.rule = bulk_synchronous(workers);
      const PsTrace trace = run_parameter_server(make_system(toy));
      const double transfer = toy.latency + workers * toy.bytes / servers / toy.bandwidth;
      const double service = toy.keep + (workers - 1) * toy.accumulate + toy.update;
      const double expected =
          toy.forward + toy.backward + transfer + (workers == 1 ? toy.update : service) + transfer;
      for (const double step : step_times(trace)) EXPECT_NEAR(step / expected, 1, kExact);
      EXPECT_NEAR(trace.step_ends.front() / expected, 1, kExact);
      EXPECT_NEAR(trace.split.forward, toy.forward, kExact);
      EXPECT_NEAR(trace.split.backward, toy.backward, kExact);
      EXPECT_NEAR(trace.split.exposed_communication / (2 * transfer), 1, kExact);
      EXPECT_NEAR(total(trace.split) / expected, 1, kExact);
      EXPECT_EQ(trace.staleness.size(), 1U);
      EXPECT_EQ(trace.staleness.begin()->first, 0);
      EXPECT_DOUBLE_EQ(trace.pushed_bytes, trace.pulled_bytes);
    }
  }
}

// A worker's period is its own cycle, or W turns of the server if these take longer.
TEST(AsynchronousServer, PeriodIsOwnCycleOrTheServersRound) {
  for (const int workers : {4, 16}) {
    for (const double update : {1e-5, 1e-3, 20e-3, 80e-3}) {
      ToySystem toy;
      toy.workers = workers;
      toy.forward = 0.3;
      toy.bandwidth = 1e15;  // transfers take no time
      toy.update = update;
      toy.rule = asynchronous();
      const PsTrace trace = run_parameter_server(make_system(toy));
      const double alone = toy.forward + toy.backward + update;
      EXPECT_NEAR(step_times(trace).back() / std::max(alone, workers * update), 1, 1e-6);
    }
  }
}

// The server shares the core of worker 0. While it answers worker 1, worker 0 computes, and both
// run at half speed: the service takes twice as long, and worker 0 loses one service time. Worker
// 0's own service finds the core free. Both workers need compute and two services.
TEST(AsynchronousServer, OnTheCoreOfAWorkerBothSlowDown) {
  for (const bool transfers : {false, true}) {
    ToySystem toy;
    toy.workers = 2;
    toy.forward = 0.060;
    toy.backward = 0.120;
    toy.update = transfers ? 0.005 : 0.045;
    toy.bytes = 20e6;
    toy.bandwidth = transfers ? 1e9 : 1e15;  // 20 ms each way
    toy.rule = asynchronous();
    PsSystem system = make_system(toy);
    system.serial_servers = true;
    for (PsRoute& route : system.routes) route.cores = 1;
    const double compute = toy.forward + toy.backward;
    const double service = toy.update + 2 * toy.bytes / toy.bandwidth;
    const PsTrace apart = run_parameter_server(system);
    EXPECT_NEAR(step_times(apart).back(), compute + service, kExact);
    system.core_of_server = {0};
    const PsTrace together = run_parameter_server(system);
    EXPECT_NEAR(step_times(together).back(), compute + 2 * service, kExact);
    EXPECT_NEAR(mean_staleness(together), mean_staleness(apart), kExact);
    EXPECT_NEAR(total(together.split), mean_step(together), kExact);
    // the mean of two workers
    EXPECT_NEAR(together.split.backward, toy.backward + service / 2, kExact);
  }
}

// Under sync all workers wait while the server works, so sharing a core costs nothing.
TEST(SynchronousServer, OnTheCoreOfAWorkerCostsNothing) {
  ToySystem toy;
  toy.update = 5e-3;
  PsSystem system = make_system(toy);
  const PsTrace apart = run_parameter_server(system);
  system.core_of_server = {2};
  EXPECT_EQ(run_parameter_server(system).step_ends, apart.step_ends);
}

// Messages between a server and the worker on its core take the time measured on one core; other
// messages do not change.
TEST(SynchronousServer, MessagesOnOneCoreTakeLonger) {
  ToySystem toy;
  toy.workers = 2;
  toy.rule = bulk_synchronous(2);
  PsSystem system = make_system(toy);
  system.serial_servers = true;
  system.core_of_server = {1};
  const double alone = mean_step(run_parameter_server(system));
  system.flow = [](int, double bytes, bool one_core) {
    return PsFlow{(one_core ? 1.5 : 1) * bytes, 0};
  };
  const double longer = 0.5 * 2 * toy.bytes / toy.bandwidth;  // push and pull of one worker
  EXPECT_NEAR(mean_step(run_parameter_server(system)), alone + longer, kExact);
}

// Equal workers that start together stay together on a fairly shared link: all push, then all pull,
// and the link's two directions are never busy at once. Random compute times separate them. The
// lower bound is W*M/B, the duplex link's time.
TEST(AsynchronousServer, SharedLinkKeepsEqualWorkersTogether) {
  ToySystem toy;
  toy.workers = 16;
  toy.bandwidth = 5e9;
  toy.rule = asynchronous();
  const double one_way = toy.workers * toy.bytes / toy.bandwidth;
  const double together = toy.forward + toy.backward + 2 * one_way;
  EXPECT_NEAR(mean_step(run_parameter_server(make_system(toy))) / together, 1, kExact);
  toy.sigma = 0.5;
  toy.steps = 200;
  const double apart = mean_step(run_parameter_server(make_system(toy)));
  EXPECT_LT(apart, 0.9 * together);
  EXPECT_GE(apart, one_way);
}

// A single-threaded server serves one worker at a time, transfers included: the period is
// max(compute + service, W * service).
TEST(AsynchronousServer, SerialServerFollowsTheTwoRegimeFormula) {
  for (const int workers : {2, 3, 8}) {
    for (const double compute : {0.01, 0.1, 0.4}) {
      ToySystem toy;
      toy.workers = workers;
      toy.forward = compute;
      toy.backward = 0;
      toy.bytes = 59e6;
      toy.bandwidth = 2.5e9;
      toy.update = 0.002;
      toy.rule = asynchronous();
      PsSystem system = make_system(toy);
      system.serial_servers = true;
      const PsTrace trace = run_parameter_server(system);
      const double service = 2 * toy.bytes / toy.bandwidth + toy.update;
      const double expected = std::max(compute + service, workers * service);
      EXPECT_NEAR(step_times(trace).back() / expected, 1, kExact) << workers << " " << compute;
      EXPECT_NEAR(mean_staleness(trace), workers - 1, kExact);
    }
  }
}

// The end of an answer is still in the buffers when the server takes the next push. A single worker
// does not notice; with many workers the server is the bottleneck and saves that time.
TEST(AsynchronousServer, SerialServerIsFreeBeforeItsAnswerHasArrived) {
  for (const int workers : {1, 8}) {
    ToySystem toy;
    toy.workers = workers;
    toy.forward = 0.05;
    toy.backward = 0;
    toy.bytes = 59e6;
    toy.bandwidth = 2.5e9;
    toy.update = 0.002;
    toy.rule = asynchronous();
    PsSystem system = make_system(toy);
    system.serial_servers = true;
    system.flow = [](int, double bytes, bool) { return PsFlow{bytes, 10e6 / bytes}; };
    const PsTrace trace = run_parameter_server(system);
    const double whole = 2 * toy.bytes / toy.bandwidth + toy.update;
    const double expected =
        workers == 1 ? toy.forward + whole : workers * (whole - 10e6 / toy.bandwidth);
    EXPECT_NEAR(step_times(trace).back() / expected, 1, kExact) << workers;
    EXPECT_NEAR(trace.pulled_bytes / trace.pushed_bytes, 1, 0.05);
    EXPECT_NEAR(trace.link_bytes[1] / trace.link_bytes[0], 1, 1e-9);
  }
}

TEST(SynchronousServer, SerialServerReceivesAndAnswersOneByOne) {
  ToySystem toy;
  toy.keep = 1e-3;
  toy.accumulate = 2e-3;
  toy.update = 4e-3;
  PsSystem system = make_system(toy);
  system.serial_servers = true;
  const PsTrace trace = run_parameter_server(system);
  const double transfer = toy.bytes / toy.bandwidth;
  const double service = toy.keep + 3 * toy.accumulate + toy.update;
  // Worker 0 is answered first and begins its next step at once; its next push waits until the
  // server has sent the last answer.
  const double expected = std::max(4 * transfer + service + transfer + toy.forward + toy.backward,
                                   8 * transfer + service);
  EXPECT_NEAR(step_times(trace).back() / expected, 1, kExact);
}

TEST(AsynchronousServer, EqualWorkersSeeAllOthersOnceBetweenPullAndPush) {
  for (const int workers : {1, 2, 4, 16, 64}) {
    for (const double update : {1e-4, 5e-3}) {
      ToySystem toy;
      toy.workers = workers;
      toy.update = update;
      toy.rule = asynchronous();
      toy.steps = 50;
      const PsTrace trace = run_parameter_server(make_system(toy));
      EXPECT_NEAR(mean_staleness(trace), workers - 1, kExact) << workers << " " << update;
      EXPECT_NEAR(total(trace.split) / mean_step(trace), 1, kExact);
    }
  }
}

// If keys are pushed one after the other, transfers and updates of different keys overlap as in a
// pipeline.
TEST(SynchronousServer, PartsOverlapTransferAndUpdate) {
  ToySystem toy;
  toy.workers = 1;
  toy.rule = stale_synchronous(0);
  toy.update = 8e-3;
  PsSystem system = make_system(toy);
  const int parts = 10;
  PsMessage part = system.messages.front();
  part.push_bytes /= parts;
  part.pull_bytes /= parts;
  part.update_seconds /= parts;
  system.messages.assign(parts, part);
  const PsTrace trace = run_parameter_server(system);
  const double push = part.push_bytes / toy.bandwidth;
  ASSERT_GT(push, part.update_seconds);
  const double expected = toy.forward + toy.backward + parts * push + part.update_seconds + push;
  EXPECT_NEAR(step_times(trace).back() / expected, 1, kExact);
}

// The gradients of the later segment are pushed while the earlier layers still compute.
TEST(SynchronousServer, OverlapHidesTheFirstPush) {
  ToySystem toy;
  toy.workers = 1;
  toy.rule = stale_synchronous(0);
  toy.bandwidth = 20e9;
  PsSystem system = make_system(toy);
  system.segments.push_back({Phase::backward, {0, 0.030, 0.030}, false});
  PsMessage half = system.messages.front();
  half.push_bytes /= 2;
  half.pull_bytes /= 2;
  system.messages.assign(2, half);
  system.messages.back().segment = 2;
  const PsTrace trace = run_parameter_server(system);
  const double transfer = half.push_bytes / toy.bandwidth;
  EXPECT_NEAR(step_times(trace).back(), 0.060 + 2 * transfer, kExact);
  EXPECT_NEAR(trace.split.exposed_communication, 2 * transfer, kExact);
}

// The loader takes longer than the rest of the step and sets the pace.
TEST(SynchronousServer, SlowLoaderIsTheStepTime) {
  ToySystem toy;
  PsSystem system = make_system(toy);
  system.input_seconds = 0.5;
  const PsTrace trace = run_parameter_server(system);
  EXPECT_NEAR(step_times(trace).back(), 0.5, kExact);
  const double rest = toy.forward + toy.backward + 2 * 4 * toy.bytes / toy.bandwidth;
  EXPECT_NEAR(trace.split.data_loading, 0.5 - rest, kExact);
}

// The loader gets ahead in a long first step. The steps after it are equal and shorter than the
// loader's time until this lead is used up.
TEST(SynchronousServer, IsNotSteadyWhileTheLoaderLosesItsLead) {
  ToySystem toy;
  PsSystem system = make_system(toy);
  const double rest = toy.forward + toy.backward + 2 * 4 * toy.bytes / toy.bandwidth;
  system.factor = [](int, int step) { return step == 0 ? 5.0 : 1.0; };
  system.input_seconds = rest + 0.005;
  system.steps = 100;
  system.steady = true;
  const PsTrace trace = run_parameter_server(system);
  EXPECT_NEAR(step_times(trace)[2], rest, kExact);
  EXPECT_NEAR(step_times(trace).back(), system.input_seconds, kExact);
  EXPECT_TRUE(trace.extrapolated);
}

}  // namespace
}  // namespace lockstep::testing::ps_closed_form_test
