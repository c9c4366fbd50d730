// Do rounds of drawn workers, pushed parameters and uneven data follow their closed forms?
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "core/errors.hpp"
#include "ps_fixture.hpp"
#include "ps_job.hpp"
#include "results/participants.hpp"
#include "strategies/parameter_server/build.hpp"

namespace lockstep::testing::ps_federated_test {
namespace {

constexpr double exact = 1e-9;

TEST(Participants, AreAsManyAsAskedAndDifferFromRoundToRound) {
  std::vector<int> rounds(20, 0);
  for (std::int64_t version = 0; version < 200; ++version) {
    const std::vector<bool> drawn = participants(20, 5, 1, version);
    EXPECT_EQ(std::count(drawn.begin(), drawn.end(), true), 5);
    EXPECT_EQ(drawn, participants(20, 5, 1, version));
    for (std::size_t w = 0; w < rounds.size(); ++w) rounds[w] += drawn[w];
  }
  // Each worker takes part in 50 of 200 rounds, with a standard deviation of 6.
  EXPECT_GT(*std::min_element(rounds.begin(), rounds.end()), 25);
  EXPECT_LT(*std::max_element(rounds.begin(), rounds.end()), 75);
  EXPECT_NE(participants(20, 5, 1, 0), participants(20, 5, 2, 0));
}

PsSystem sampled(int workers, int drawn, int backup = 0) {
  ToySystem toy;
  toy.workers = workers;
  toy.bandwidth = 1e18;
  toy.steps = 8;
  toy.rule = sampled_synchronous(drawn, backup, 1);
  PsSystem system = make_system(toy);
  system.factor = [](int worker, int) { return 1 + 0.1 * worker; };
  system.records_updates = true;
  return system;
}

// In federated averaging a round takes as long as its slowest participant (McMahan et al. 2017).
TEST(Federated, ARoundTakesItsSlowestParticipant) {
  const int workers = 12, drawn = 4;
  const PsTrace trace = run_parameter_server(sampled(workers, drawn));
  std::map<std::int64_t, std::set<int>> pushed;
  std::map<std::int64_t, double> ends{{0, 0.0}};
  for (const ScheduledPush& push : trace.updates) {
    pushed[push.applied].insert(push.worker);
    ends[push.applied] = push.time;
    EXPECT_EQ(push.read + 1, push.applied);
  }
  ASSERT_GE(pushed.size(), 20U);
  for (const auto& [version, of_round] : pushed) {
    const std::vector<bool> asked = participants(workers, drawn, 1, version - 1);
    double slowest = 0;
    for (int w = 0; w < workers; ++w) {
      EXPECT_EQ(of_round.contains(w), asked[static_cast<std::size_t>(w)]) << version;
      if (asked[static_cast<std::size_t>(w)]) slowest = std::max(slowest, 0.03 * (1 + 0.1 * w));
    }
    EXPECT_NEAR(ends[version] - ends[version - 1], slowest, exact) << version;
  }
}

// If more workers are drawn than needed, the slowest are left out and the round is shorter.
TEST(Federated, SparesTheSlowestOfThoseDrawn) {
  const PsTrace all = run_parameter_server(sampled(12, 6)),
                some = run_parameter_server(sampled(12, 6, 2));
  std::map<std::int64_t, int> used;
  for (const ScheduledPush& push : some.updates) {
    if (push.applied > 0) ++used[push.applied];
  }
  for (const auto& [version, pushes] : used) EXPECT_EQ(pushes, 4) << version;
  const auto round = [](const PsTrace& trace) {
    return trace.updates.back().time / static_cast<double>(trace.updates.back().applied);
  };
  EXPECT_GT(some.dropped, 0);
  EXPECT_LT(round(some), round(all));
}

TEST(Federated, RefusesRoundsThatWaitForNobody) {
  ParameterServerOptions options;
  options.participants = 0.25;
  options.backup_workers = 2;
  EXPECT_THROW(consistency_rule(options, 8, 1), ConfigError);
  options.backup_workers = 1;
  EXPECT_EQ(consistency_rule(options, 8, 1)(8)->pushes_per_update(0), 1);
}

ParameterServerOptions pushing_parameters(int every) {
  ParameterServerOptions options;
  options.push = PushedValues::parameters;
  options.exchange_every = every;
  return options;
}

// A worker that pushes parameters updates them in every batch, and the server has no update.
TEST(PushedParameters, AreStepsOfTheWorker) {
  const Job job = toy_job(4);
  const PsJob gradients = build_parameter_server(job, [] {
    ParameterServerOptions options;
    options.exchange_every = 5;
    return options;
  }());
  const PsJob parameters = build_parameter_server(job, pushing_parameters(5));
  const auto device = [](const PsSystem& system, Phase phase) {
    double seconds = 0;
    for (const PsSegment& segment : system.segments) {
      if (segment.phase == phase) seconds += segment.work.busy;
    }
    return seconds;
  };
  EXPECT_EQ(device(gradients.system, Phase::optimizer), 0);
  EXPECT_NEAR(device(parameters.system, Phase::optimizer), 5 * 50e6 * 12 / 1e12, exact);
  EXPECT_NEAR(device(parameters.system, Phase::copies) - device(gradients.system, Phase::copies),
              3 * kModelBytes / 1e12, exact);
  double mean = 0, outer = 0;
  ParameterServerOptions stepping = pushing_parameters(5);
  stepping.outer = NesterovOuter{};
  for (const PsMessage& m : parameters.system.messages) mean += m.update_seconds;
  for (const PsMessage& m : build_parameter_server(job, stepping).system.messages) {
    outer += m.update_seconds;
  }
  EXPECT_NEAR(outer / mean, 5.0 / 3, exact);
}

TEST(PushedParameters, AreLargerWhereTheServerMustNotSeeThem) {
  const Job job = toy_job(4);
  ParameterServerOptions options = pushing_parameters(1);
  const double plain = build_parameter_server(job, options).system.messages.front().push_bytes;
  options.secure_aggregation = 1.73;
  const PsMessage hidden = build_parameter_server(job, options).system.messages.front();
  EXPECT_NEAR(hidden.push_bytes / plain, 1.73, exact);
  EXPECT_NEAR(hidden.pull_bytes / plain, 1, exact);
}

// Workers take batches in proportion to their samples; the mean worker takes as many as with even
// data.
TEST(UnevenData, TakesAsLongAsEachWorkersShare) {
  const Job job = toy_job(16);
  ParameterServerOptions options = pushing_parameters(10);
  options.data.sizes = 0.5;
  const std::vector<double> shares = data_shares(job, options);
  ASSERT_EQ(shares.size(), 16U);
  EXPECT_NEAR(std::accumulate(shares.begin(), shares.end(), 0.0), 16, exact);
  EXPECT_LT(*std::min_element(shares.begin(), shares.end()), 0.8);
  const PsSystem system = build_parameter_server(job, options).system;
  ASSERT_EQ(system.workers.size(), 16U);
  options.data.sizes = 0;
  const PsSystem even = build_parameter_server(job, options).system;
  const double usual = even.factor(0, 3);
  for (int w = 0; w < 16; ++w) {
    EXPECT_NEAR(system.factor(w, 3) / usual, shares[static_cast<std::size_t>(w)], 0.05) << w;
  }
}

TEST(UnevenData, AClassesSkewMovesNoTime) {
  const Job job = toy_job(8);
  ParameterServerOptions options = pushing_parameters(10);
  const double even = mean_of(make_strategy(options)->simulate(job));
  options.data.classes = 0.1;
  EXPECT_EQ(mean_of(make_strategy(options)->simulate(job)), even);
}

// Each worker keeps the parameters that it pulled. A server with an outer optimizer keeps its
// momentum.
TEST(PushedParameters, KeepWhatWasPulled) {
  const Job job = toy_job(4);
  ParameterServerOptions elastic;
  elastic.consistency = Consistency::elastic;
  const double steps = make_strategy(elastic)->memory(job).allocated;
  EXPECT_NEAR(make_strategy(pushing_parameters(1))->memory(job).allocated - steps, kModelBytes,
              1e6);
  ParameterServerOptions on_gpu = pushing_parameters(1);
  on_gpu.placement = ServerPlacement::gpu;
  const double mean = make_strategy(on_gpu)->memory(job).allocated;
  on_gpu.outer = NesterovOuter{};
  // Ten tensors of 20 MB take whole blocks of 2 MiB.
  EXPECT_EQ(make_strategy(on_gpu)->memory(job).allocated - mean, 10 * 20 * 1024.0 * 1024.0);
}

}  // namespace
}  // namespace lockstep::testing::ps_federated_test
