// Do servers, links and waiting workers obey the laws of queues and order statistics? M workers
// that compute for an exponential time form a Poisson stream if M is large.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "ps_fixture.hpp"

namespace lockstep::testing::ps_queueing_test {
namespace {

constexpr double exact = 1e-9;
constexpr double free_bandwidth = 1e18;  // bytes/s

double think(std::uint64_t seed, int worker, int step) {
  return exponential_draw({.seed = seed,
                           .rank = static_cast<std::uint32_t>(worker),
                           .step = static_cast<std::uint32_t>(step),
                           .event = 0});
}

// Asynchronous workers that compute for an exponential time with mean `compute`; nothing else takes
// time.
PsSystem poisson(int workers, int steps, double compute) {
  ToySystem toy;
  toy.workers = workers;
  toy.steps = steps;
  toy.forward = 0;
  toy.backward = compute;
  toy.bandwidth = free_bandwidth;
  toy.rule = asynchronous();
  PsSystem system = make_system(toy);
  system.factor = [](int worker, int step) { return think(1, worker, step); };
  return system;
}

constexpr int many = 2000;        // workers
constexpr double service = 1e-3;  // seconds a push

double compute_for(double load) {
  return many * service / load;
}
double load_of(const PsTrace& trace) {
  return many * service / mean_step(trace);
}

// M/D/1: with a constant update time the mean wait is service * rho / (2 (1 - rho)).
TEST(Queues, WaitAtAServerIsThatOfMD1) {
  for (const double load : {0.3, 0.6}) {
    PsSystem system = poisson(many, 400, compute_for(load));
    system.messages.front().update_seconds = service;
    const PsTrace trace = run_parameter_server(system);
    const double rho = load_of(trace);
    EXPECT_NEAR(rho, load, 0.01);
    EXPECT_NEAR(trace.server_busy, rho, 1e-3);
    const double wait = service * rho / (2 * (1 - rho));
    EXPECT_NEAR((trace.split.waiting - service) / wait, 1, 0.02) << load;
  }
}

// M/M/1: a serial server takes one message at a time, with an exponential transfer time. Each
// worker has a constant time of its own, at the quantiles of the distribution. The mean wait is
// service * rho / (1 - rho).
TEST(Queues, WaitAtASerialServerIsThatOfMM1) {
  for (const double load : {0.3, 0.5}) {
    PsSystem system = poisson(many, 500, compute_for(load));
    system.serial_servers = true;
    for (int w = 0; w < many; ++w) {
      PsRoute route = system.routes.front();
      route.latency = -service * std::log(1 - (w + 0.5) / many);
      system.workers[static_cast<std::size_t>(w)].ways[0].push =
          static_cast<int>(system.routes.size());
      system.routes.push_back(route);
    }
    const PsTrace trace = run_parameter_server(system);
    const double rho = load_of(trace);
    EXPECT_NEAR(rho, load, 0.01);
    EXPECT_NEAR(trace.split.exposed_communication / service, 1, 0.01);
    EXPECT_NEAR(trace.split.waiting / (service * rho / (1 - rho)), 1, 0.02) << load;
  }
}

// A fairly shared link is processor sharing: the mean time of a transfer is M/M/1's, service / (1 -
// rho), for any distribution of sizes (here all are equal).
TEST(Queues, TimeOnASharedLinkIsThatOfMM1) {
  for (const double load : {0.3, 0.6}) {
    PsSystem system = poisson(many, 200, compute_for(load));
    system.links.front() = system.messages.front().push_bytes / service;
    const PsTrace trace = run_parameter_server(system);
    const double rho = load_of(trace);
    EXPECT_NEAR(trace.split.exposed_communication / (service / (1 - rho)), 1, 0.02) << load;
  }
}

// The throughput of asynchronous workers is the sum of their own paces, or the server's pace if
// that is lower.
TEST(AsynchronousThroughput, IsThatOfTheWorkersOrOfTheServer) {
  const std::vector<double> speeds{1, 1.3, 1.7, 2.9, 0.8, 1.1};
  for (const double update : {1e-6, 20e-3, 60e-3}) {
    ToySystem toy;
    toy.workers = static_cast<int>(speeds.size());
    toy.bandwidth = free_bandwidth;
    toy.update = update;
    toy.steps = 300;
    toy.rule = asynchronous();
    PsSystem system = make_system(toy);
    system.factor = [&](int worker, int) { return speeds[static_cast<std::size_t>(worker)]; };
    double own = 0;
    for (const double speed : speeds) own += 1 / (speed * (toy.forward + toy.backward) + update);
    const double reached = toy.workers / mean_step(run_parameter_server(system));
    EXPECT_NEAR(reached / std::min(own, 1 / update), 1, 0.01) << update;
  }
}

// A synchronous step ends with the update after the last gradient. Each gradient is added when it
// has arrived and the server is free.
TEST(SynchronousSteps, AreTheSlowestWorkerAndWhatTheServerHasLeftToDo) {
  ToySystem toy;
  toy.workers = 12;
  toy.sigma = 0.4;
  toy.bytes = 0;
  toy.keep = 1e-3;
  toy.accumulate = 2e-3;
  toy.update = 5e-3;
  toy.rule = bulk_synchronous(12);
  const PsSystem system = make_system(toy);
  const PsTrace trace = run_parameter_server(system);
  double begun = 0;
  for (int step = 0; step < toy.steps; ++step) {
    std::vector<double> arrivals;
    for (int w = 0; w < toy.workers; ++w) {
      arrivals.push_back(begun + (toy.forward + toy.backward) * system.factor(w, step));
    }
    std::sort(arrivals.begin(), arrivals.end());
    double free_at = begun;
    for (const double arrival : arrivals) {
      free_at =
          std::max(free_at, arrival) + (arrival == arrivals.front() ? toy.keep : toy.accumulate);
    }
    begun = free_at + toy.update;
    EXPECT_NEAR(trace.step_ends[static_cast<std::size_t>(step)] / begun, 1, exact) << step;
  }
}

// Fact 145: the slowest of n exponential times takes H_n means, the k-th H_n - H_{n-k}.
TEST(SynchronousSteps, WaitForTheSlowestAsOrderStatisticsSay) {
  const int workers = 16, steps = 4000;
  const auto harmonic = [](int n) {
    double sum = 0;
    for (int i = 1; i <= n; ++i) sum += 1.0 / i;
    return sum;
  };
  PsSystem system = poisson(workers, steps, 0.030);
  system.rule = bulk_synchronous(workers);
  system.messages.front().update_seconds = 4e-3;
  const PsTrace trace = run_parameter_server(system);
  EXPECT_NEAR(mean_step(trace) / (0.030 * harmonic(workers) + 4e-3), 1, 0.02);
}

}  // namespace
}  // namespace lockstep::testing::ps_queueing_test
