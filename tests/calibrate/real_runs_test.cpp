// Are asynchronous runs as stale as theory says, and do slow ranks and links take their time? These
// measure times: nothing may run beside them.
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

// Every update of one worker makes every other worker's next one staler by one.
TEST(AsynchronousRuns, AreAsStaleAsThereAreOtherWorkers) {
  const auto reports = run(lenet + Words{"--strategy", "ps-async", "--steps", "40"}, 4);
  const auto& updates = reports.back().updates;
  // Workers that are under way when the server has enough push once more, which does not count.
  ASSERT_EQ(updates.size(), 3u * 40u);
  double sum = 0;
  for (const ServerUpdate& update : updates) sum += static_cast<double>(update.staleness);
  EXPECT_NEAR(sum / static_cast<double>(updates.size()), 2, 0.2);
  for (std::size_t i = 1; i < updates.size(); ++i) EXPECT_GE(updates[i].time, updates[i - 1].time);
}

// Ho et al., "More effective distributed ML via a stale synchronous parallel parameter server",
// 2013: each of the others is at most s ahead and s behind, and has one push on its way.
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

// Against the CPU time of the same step, because the cores of a shared machine differ by half now
// and then, and so do the steps of one core; in the step that other processes disturbed least.
TEST(SlowRank, OfAServerSleepsAsLongAsItComputes) {
  const auto reports = run(short_steps + Words{"--slow-rank", "1:2", "--strategy", "ps-sync"}, 3);
  const auto of_compute = [&](int rank) {
    return least_of_steps(reports[rank], [](const RankStep& step) {
      return (step.forward + step.backward) / step.compute;
    });
  };
  EXPECT_NEAR(of_compute(0), 1, 0.1);
  EXPECT_NEAR(of_compute(1), 2, 0.2);
  // In both passes.
  const auto forward_of_backward = [&](int rank) {
    return least_of_steps(reports[rank], [](const RankStep& step) { return step.forward; }) /
           least_of_steps(reports[rank], [](const RankStep& step) { return step.backward; });
  };
  EXPECT_NEAR(forward_of_backward(1) / forward_of_backward(0), 1, 0.3);
}

// A rank of DDP reports no CPU time, and its backward pass waits, so only forward is compared. On
// cores that differ, four times as long must be distinguishable from equally long and from sixteen
// times as long.
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
  // LeNet-5's gradients of 247 kB are at least 4 ms of 500 Mbit/s in every step of two ranks;
  // ten steps are more than the token bucket holds.
  const auto record = trained("--batch 2 --steps 10 --network 500Mbit");
  EXPECT_THAT(record.value("platform", ""), HasSubstr("500Mbit"));
  const auto run = run_of(record);
  ASSERT_TRUE(run.contains("step_seconds")) << record;
  EXPECT_GT(run["step_seconds"].get<double>(), 0.8 * 61706 * 4 / 62.5e6);
  EXPECT_LT(run["step_seconds"].get<double>(), 1);
}

// Updates of workers that come after the end are of no round of all.
TEST(Train, AnAsynchronousServerCountsTheRoundsThatWereAskedFor) {
  const auto run = run_of(trained("--strategy ps-async --ranks 3 --steps 12 --slow-rank 1:1.5 "));
  ASSERT_TRUE(run.contains("staleness"));
  EXPECT_EQ(run["staleness"]["each_update"].size(), 3u * 12);
  EXPECT_EQ(run["each_step_seconds"].size(), 3u * 12 - 3);
  ASSERT_EQ(run["rank_compute_seconds"].size(), 3u);
  for (const double seconds : run["rank_compute_seconds"]) EXPECT_GT(seconds, 0);
}

// The mean of Exp(3) is 3: steps take four times as long, by sleeping, and some hardly longer. Each
// run is compared with its own fastest step, so that another program beside one of them does not
// count.
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
