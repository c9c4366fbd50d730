// Do the statements of docs/resources.md about servers, workers and the tree between them follow
// from the simulated job?
#include <algorithm>

#include "costs/optimizer.hpp"
#include "points/simulate.hpp"
#include "scenario/helpers.hpp"

namespace lockstep::resources_test {
namespace {

// Eight workers with one GPU and one network card each; they push and pull all keys at once.
constexpr double workers = 8;
constexpr double model = 25557032 * 4.0;    // bytes, ResNet-50 in FP32
constexpr double card = 17.4e9 / 8 * 0.94;  // bytes/s of payload
// seconds for all messages through one host's card
constexpr double through_one = workers * model / card;
const std::string job =
    "model: resnet50\nbatch: {per_gpu: 32}\nprecision: fp32\noptimizer: {name: sgd}\n"
    "platform: v100-sxm2-16gb-x1-tcp\ngpus: 8\n";

double step(const std::string& options, const std::string& more = "", int steps = 40) {
  const std::string simulation = "simulation: {seeds: 1, steps: " + std::to_string(steps) + "}\n";
  const Scenario scenario =
      scenario_of(job + more + simulation + "strategies: [parameter_server: {" +
                  "keys: balanced, " + options + "}]\n");
  return mean(simulate(expand(scenario)).at(0).step_seconds);
}

std::string own(int servers) {
  return "placement: own-hosts, servers: " + std::to_string(servers);
}
std::string spread(int servers) {
  return "placement: worker-host, servers: " + std::to_string(servers);
}
const std::string async = ", consistency: async";

// Seconds that one of `servers` servers needs to apply the pushes of all workers, one after the
// other.
double updates(int servers) {
  const Job of = expand(scenario_of(job)).at(0).job;
  return workers * host_optimizer_seconds(of.optimizer, Precision::fp32, model / 4 / servers,
                                          of.machine.host);
}

// Seconds of a worker's own step: batch, forward and backward.
double own_work() {
  const Scenario alone = scenario_of(job + "strategies: [ddp]\n");
  const StepSplit split = simulate(expand(alone)).at(0).split;
  return split.data_loading + split.forward + split.backward;
}

TEST(Resources, AsyncGoesAtThePaceOfTheServerUntilWorkersHaveEnough) {
  const double capacity = std::max(through_one, updates(1));
  EXPECT_NEAR(step(own(1) + async + ", partition_size: 4 MiB", "", 200) / capacity, 1, 0.02);
  // Whole pushes follow one another and wait a little at the server, so the step is close to the
  // larger of both limits.
  const double cycle = own_work() + 2 * model / card;
  for (const int servers : {2, 4, 8}) {
    const double least = std::max({cycle, through_one / servers, updates(servers)});
    const double found = step(own(servers) + async);
    EXPECT_GT(found, least) << servers;
    EXPECT_LT(found, 1.3 * least + updates(servers) / workers) << servers;
  }
}

// Under sync the step is the worker's own work, all pushes, the sums of the pushes, the update, and
// all answers.
TEST(Resources, SyncUsesOneDirectionAfterTheOther) {
  const HostSpec host = expand(scenario_of(job)).at(0).job.machine.host;
  for (const int servers : {1, 2, 4}) {
    const double sums = (3 * workers - 1) * model / servers / (0.8 * host.memory_bandwidth);
    const double expected =
        own_work() + 2 * through_one / servers + sums + updates(servers) / workers;
    EXPECT_NEAR(step(own(servers)) / expected, 1, 0.05) << servers;
  }
}

TEST(Resources, OnWorkersHostsACardCarriesPushesOutAndAnswersOut) {
  for (const int servers : {2, 4}) {
    const int steps = 200;  // after 40 steps two servers are not yet in their steady state
    EXPECT_GT(step(spread(servers) + async, "", steps), step(own(servers) + async, "", steps))
        << servers;
    // Under sync the two directions of a card take turns, and traffic to the server on the worker's
    // own host is saved.
    EXPECT_LT(step(spread(servers)), step(own(servers))) << servers;
  }
}

// Four nodes are below each leaf switch; the servers' hosts have a leaf of their own.
TEST(Resources, InATreeThePlaceOfServersDecides) {
  const auto tree = [](const std::string& over) {
    return "fabric: {nodes_per_leaf: 4, oversubscription: " + over + "}\n";
  };
  const double flat = step(own(4) + async), thin = step(own(4) + async, tree("4"));
  // The pushes of all eight workers enter one leaf over an uplink as fast as a single card.
  EXPECT_GT(thin, through_one);
  EXPECT_LT(thin, own_work() + 2 * through_one);
  EXPECT_GT(thin, 1.8 * flat);
  // Servers on the workers' hosts keep three sevenths of the traffic below their leaf.
  EXPECT_LT(step(spread(8) + async, tree("4")), 0.75 * thin);
  // A degraded uplink of the workers' second leaf slows its four workers; the others slow down only
  // under sync.
  const std::string slow =
      tree("1") + "stragglers: {slow_links: [{link: uplink, node: 5, speed: 12%}]}\n";
  EXPECT_GT(step(own(4), slow), 1.5 * step(own(4), tree("1")));
  EXPECT_LT(step(own(4) + async, slow), 0.75 * step(own(4), slow));
}

}  // namespace
}  // namespace lockstep::resources_test
