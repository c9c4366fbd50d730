// Are real asynchronous runs as stale as theory says, and do slow ranks and links take their time?
// The tests measure times, so nothing may run beside them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "calibrate/run_ranks.hpp"
#include "calibrate/trained.hpp"
#include "launch/network.hpp"

namespace lockstep::real_runs_test {
namespace {

using testing::HasSubstr;

const Words lenet{"--model", "lenet5", "--batch", "4", "--ranks", "3", "--warm-up", "3"};

// Between two updates of a worker each other worker makes about one, so with three workers the mean
// staleness is 2.
TEST(AsynchronousRuns, AreAsStaleAsThereAreOtherWorkers) {
  const auto reports = run(lenet + Words{"--strategy", "ps-async", "--steps", "40"}, 4);
  const auto& updates = reports.back().updates;
  // Workers push once more after the server has all updates; these pushes do not count.
  ASSERT_EQ(updates.size(), 3u * 40u);
  double sum = 0;
  for (const ServerUpdate& update : updates) sum += static_cast<double>(update.staleness);
  EXPECT_NEAR(sum / static_cast<double>(updates.size()), 2, 0.2);
  for (std::size_t i = 1; i < updates.size(); ++i) EXPECT_GE(updates[i].time, updates[i - 1].time);
}

// Ho et al., "More effective distributed ML via a stale synchronous parallel parameter server",
// 2013: each other worker is at most s ahead and s behind, and has one push in flight, so an update
// is at most 2s + 1 pushes of each old.
TEST(AsynchronousRuns, KeepTheBoundOfStaleSynchronousTraining) {
  for (const int bound : {0, 2}) {
    const auto reports =
        run(lenet + Words{"--strategy", "ps-ssp", "--staleness-bound", std::to_string(bound),
                          "--steps", "20", "--slow-rank", "2:4"},
            4);
    const auto& updates = reports.back().updates;
    ASSERT_EQ(updates.size(), 3u * 20u);
    std::int64_t most = 0;
    for (const ServerUpdate& update : updates) most = std::max(most, update.staleness);
    EXPECT_LE(most, 2 * (2 * bound + 1)) << "bound " << bound;
    EXPECT_GE(most, 1) << "bound " << bound;
  }
}

template <class What>
double least_of_steps(const RankReport& report, What what) {
  double least = INFINITY;
  for (const RankStep& step : report.steps) least = std::min(least, what(step));
  return least;
}

const Words short_steps{"--model", "lenet5", "--batch", "8", "--steps", "60"};

// The time of a step is compared with its own CPU time, because the cores of a shared machine may
// differ by half, as may the steps of one core. The step with the least disturbance counts.
TEST(SlowRank, OfAServerSleepsAsLongAsItComputes) {
  const auto reports = run(short_steps + Words{"--slow-rank", "1:2", "--strategy", "ps-sync"}, 3);
  const auto of_compute = [&](int rank) {
    return least_of_steps(reports[rank], [](const RankStep& step) {
      return (step.forward + step.backward) / step.compute;
    });
  };
  EXPECT_NEAR(of_compute(0), 1, 0.1);
  EXPECT_NEAR(of_compute(1), 2, 0.2);
  // The slowness is in both passes.
  const auto forward_of_backward = [&](int rank) {
    return least_of_steps(reports[rank], [](const RankStep& step) { return step.forward; }) /
           least_of_steps(reports[rank], [](const RankStep& step) { return step.backward; });
  };
  EXPECT_NEAR(forward_of_backward(1) / forward_of_backward(0), 1, 0.3);
}

// A DDP rank reports no CPU time, and its backward waits, so only forward is compared. The bounds
// distinguish four times from once and from sixteen times, on cores that differ.
TEST(SlowRank, OfDdpTakesSoManyTimesAsLong) {
  const auto reports = run(short_steps + Words{"--slow-rank", "1:4", "--strategy", "ddp"}, 2);
  const auto forward = [&](int rank) {
    return least_of_steps(reports[rank], [](const RankStep& step) { return step.forward; });
  };
  EXPECT_GT(forward(1) / forward(0), 2);
  EXPECT_LT(forward(1) / forward(0), 8);
}

TEST(Train, OverALinkTakesAsLongAsTheLinkNeeds) {
  const std::string reason = why_no_linked_hosts();
  if (!reason.empty()) GTEST_SKIP() << reason;
  // LeNet-5's gradients of 247 kB take at least 4 ms at 500 Mbit/s in every step of two ranks. Ten
  // steps exceed the token bucket.
  const auto record = trained("--batch 2 --steps 10 --network 500Mbit");
  EXPECT_THAT(record.value("platform", ""), HasSubstr("500Mbit"));
  const auto run = run_of(record);
  ASSERT_TRUE(run.contains("step_seconds")) << record;
  EXPECT_GT(run["step_seconds"].get<double>(), 0.8 * 61706 * 4 / 62.5e6);
  EXPECT_LT(run["step_seconds"].get<double>(), 1);
}

// Updates after the last full round do not count.
TEST(Train, AnAsynchronousServerCountsTheRoundsThatWereAskedFor) {
  const auto run = run_of(trained("--strategy ps-async --ranks 3 --steps 12 --slow-rank 1:1.5 "));
  ASSERT_TRUE(run.contains("staleness"));
  EXPECT_EQ(run["staleness"]["each_update"].size(), 3u * 12);
  EXPECT_EQ(run["each_step_seconds"].size(), 3u * 12 - 3);
  ASSERT_EQ(run["rank_compute_seconds"].size(), 3u);
  for (const double seconds : run["rank_compute_seconds"]) EXPECT_GT(seconds, 0);
}

// Exp(3) has mean 3, so the mean step takes four times as long as the fastest. Each run is compared
// with its own fastest step, so that other programs do not matter.
TEST(Train, JitterTakesTime) {
  const std::string options = "--batch 64 --steps 30 --ranks 1 ";
  const auto steady = run_of(trained(options));
  const auto shaken = run_of(trained(options + "--jitter 300%"));
  const auto mean_over_fastest = [](const nlohmann::json& run) {
    const auto seconds = run.value("each_step_seconds", std::vector<double>{});
    EXPECT_EQ(seconds.size(), 30u);
    return seconds.empty() ? 0
                           : std::accumulate(seconds.begin(), seconds.end(), 0.0) / 30 /
                                 *std::min_element(seconds.begin(), seconds.end());
  };
  EXPECT_EQ(steady["each_loss"], shaken["each_loss"]);
  EXPECT_GT(mean_over_fastest(shaken), 1.5 * mean_over_fastest(steady));
}

}  // namespace
}  // namespace lockstep::real_runs_test
