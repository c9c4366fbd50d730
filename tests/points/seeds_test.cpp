// Are several seeds reported as the mean of the runs with each, and its interval?
#include <cmath>

#include "questions/run.hpp"
#include "results/render.hpp"
#include "results/step_parts.hpp"
#include "scenario/helpers.hpp"

namespace lockstep::seeds_test {
namespace {

const std::string asynchronous =
    "gpus: 4\nmodel: resnet18\nstrategies: [parameter_server: {consistency: async}]\n"
    "dataset: {steps: 1000}\n"
    "stragglers: {per_step: {lognormal: {sigma: 20%}}}\n";

ResultRecord told(const std::string& fields) {
  return run_scenario(scenario_of(fields));
}

TEST(Seeds, AreMeanAndIntervalOfRunsWithEach) {
  const auto record = told(asynchronous + "simulation: {steps: 30, seed: 3, seeds: 4}\n");
  const Prediction& p = record.predictions.at(0);
  ASSERT_TRUE(p.over_seeds && p.over_seeds->staleness);
  std::vector<double> steps, staleness, totals, bytes;
  for (int seed = 3; seed < 7; ++seed) {
    const auto one = told(
        asynchronous + "simulation: {steps: 30, seeds: 1, seed: " + std::to_string(seed) + "}\n");
    EXPECT_FALSE(one.predictions.at(0).over_seeds);
    steps.push_back(one.predictions.at(0).step_seconds);
    staleness.push_back(one.predictions.at(0).staleness->mean);
    totals.push_back(one.predictions.at(0).total_seconds);
    bytes.push_back(one.predictions.at(0).traffic.at(0).bytes);
  }
  EXPECT_EQ(p.over_seeds->seeds, 4);
  EXPECT_NE(steps[0], steps[1]);
  // The figures of the point are means over all seeds.
  EXPECT_NEAR(p.step_seconds, mean(steps), 1e-12);
  EXPECT_NEAR(total_seconds(p.split), mean(steps), 1e-12);
  EXPECT_NEAR(p.total_seconds, mean(totals), 1e-9 * mean(totals));
  EXPECT_NEAR(p.staleness->mean, mean(staleness), 0.01);
  EXPECT_NEAR(p.traffic.at(0).bytes, mean(bytes), 1e-9 * mean(bytes));
  const double t = 2.3533634348018264;  // Student's t with three degrees of freedom, 90 %
  EXPECT_NEAR(p.over_seeds->step.mean, mean(steps), 1e-12);
  EXPECT_NEAR(p.over_seeds->step.interval.high - mean(steps), t * standard_deviation(steps) / 2,
              1e-12);
  EXPECT_NEAR(p.over_seeds->staleness->mean, mean(staleness), 1e-12);
  EXPECT_NEAR(mean(staleness) - p.over_seeds->staleness->interval.low,
              t * standard_deviation(staleness) / 2, 1e-12);
  EXPECT_THAT(render_text(record), testing::HasSubstr("Over seeds"));
}

// Fact 145: of n ranks that wait for each other, the slowest of n exponential delays is H_n means
// behind.
TEST(Seeds, TheirMeanIsWhatOrderStatisticsSay) {
  const std::string job = "gpus: 4\nmodel: resnet50\nplatform: dgx-a100-80gb\n";
  const auto alone = told(job + "stragglers: {per_rank: 0}\n").predictions.at(0);
  const auto p = told(job +
                      "simulation: {steps: 200, seeds: 8}\n"
                      "stragglers: {per_rank: 0, per_step: {exponential: {mean: 10%}}}\n")
                     .predictions.at(0);
  ASSERT_TRUE(p.over_seeds);
  const double work = alone.split.forward + alone.split.backward;
  const double slowest = alone.step_seconds + 0.1 * work * (1 + 1.0 / 2 + 1.0 / 3 + 1.0 / 4);
  EXPECT_NEAR(p.over_seeds->step.mean / slowest, 1, 0.02);
  const double width = p.over_seeds->step.interval.high - p.over_seeds->step.interval.low;
  EXPECT_GT(width, 0);
  EXPECT_LT(width, 0.03 * slowest);
}

// A rank's own work, its communication and its waiting add up to the step, also over seeds.
TEST(Seeds, PartsOfRanksAddUpToTheStep) {
  const auto p =
      told(
          "gpus: 4\nmodel: resnet50\nplatform: dgx-a100-80gb\nsimulation: {steps: 10, seeds: 8}\n"
          "stragglers: {per_step: {lognormal: {sigma: 10%}}}\n")
          .predictions.at(0);
  ASSERT_TRUE(p.over_seeds);
  ASSERT_TRUE(p.stragglers);
  ASSERT_EQ(p.stragglers->ranks.size(), 4u);
  for (const RankTimes& rank : p.stragglers->ranks) {
    EXPECT_NEAR(rank.own + rank.communicating + rank.waiting, p.step_seconds,
                2e-3 * p.step_seconds);
  }
}

// By default several seeds run if workers need not keep step, and one if they do or if nothing is
// random.
TEST(Seeds, AreSeveralWhereWorkersGoByThemselves) {
  EXPECT_EQ(told(asynchronous).predictions.at(0).over_seeds->seeds, 4);
  EXPECT_FALSE(told(asynchronous + "simulation: {seeds: 1}\n").predictions.at(0).over_seeds);
  EXPECT_FALSE(told(asynchronous + "simulation: {steps: 1000}\n").predictions.at(0).over_seeds);
  const std::string bursts =
      "gpus: 16\nmodel: lenet5\nsimulation: {steps: 10}\n"
      "stragglers: {neighbours: [{share: 90%, lasts: 1 ms, every: 2 ms}]}\nstrategies: [";
  EXPECT_FALSE(told(bursts + "ddp]\n").predictions.at(0).over_seeds);
  const std::string server = "parameter_server: {placement: worker-host, servers: 2";
  EXPECT_FALSE(told(bursts + server + "}]\n").predictions.at(0).over_seeds);
  EXPECT_TRUE(told(bursts + server + ", consistency: async}]\n").predictions.at(0).over_seeds);
  const auto even = told("gpus: 4\nstrategies: [parameter_server: {consistency: async}]\n");
  EXPECT_FALSE(even.predictions.at(0).over_seeds);
  EXPECT_THAT(even.predictions.at(0).notes,
              testing::Not(testing::Contains(testing::HasSubstr("nothing is drawn"))));
}

TEST(Seeds, OfARunThatDrawsNothingAreNotTold) {
  const auto record = told("gpus: 1\nsimulation: {seeds: 5}\n");
  EXPECT_FALSE(record.predictions.at(0).over_seeds);
  EXPECT_THAT(record.predictions.at(0).notes,
              testing::Contains(testing::HasSubstr("nothing is drawn")));
}

}  // namespace
}  // namespace lockstep::seeds_test
