// Does the diagnosis find anomalies in made-up step times?
#include "training_logs/diagnosis.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::diagnosis_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A log of `steps` steps with the times that `seconds` gives.
TrainingLog log_of(int steps, const std::function<double(int)>& seconds) {
  TrainingLog log;
  log.file = "test.log";
  for (int step = 1; step <= steps; ++step) {
    LogEntry entry;
    entry.step = step;
    entry.seconds = seconds(step);
    log.entries.push_back(entry);
  }
  return log;
}

std::vector<std::string> told(const TrainingLog& log) {
  return what_stands_out(steady_steps(log, 0, 0, 0));
}

TEST(Diagnosis, EvenStepsSayNothingButWarmUp) {
  const TrainingLog log = log_of(50, [](int) { return 1.0; });
  EXPECT_EQ(steady_steps(log, 0, 0, 0).warm_up, 1);
  EXPECT_THAT(told(log), ElementsAre(HasSubstr("the first 1 step is left out")));
}

TEST(Diagnosis, LeavesWarmUpOut) {
  const SteadySteps steps =
      steady_steps(log_of(20, [](int step) { return step < 4 ? 10.0 / step : 1.0; }), 0, 0, 0);
  EXPECT_EQ(steps.warm_up, 3);
  EXPECT_EQ(steps.median, 1);
  EXPECT_EQ(steps.high, 1);
}

TEST(Diagnosis, FindsPeriods) {
  const TrainingLog log = log_of(100, [](int step) { return step % 20 == 0 ? 3.0 : 1.0; });
  EXPECT_THAT(
      told(log),
      testing::Contains(HasSubstr("every 20 steps one takes 2.00 s longer (9.2 % of the time)")));
}

TEST(Diagnosis, FindsSlowSteps) {
  const TrainingLog log =
      log_of(100, [](int step) { return step == 37 || step == 52 ? 4.0 : 1.0; });
  EXPECT_THAT(told(log), testing::Contains(HasSubstr("steps 37 (4.00 s), 52 (4.00 s)")));
}

TEST(Diagnosis, FindsDrift) {
  const TrainingLog log = log_of(100, [](int step) { return 1 + 0.001 * step; });
  EXPECT_THAT(told(log), testing::Contains(HasSubstr("steps drift by +8 %")));
}

TEST(Diagnosis, TellsWhatDiffersLargestFirst) {
  SteadySteps steps = steady_steps(log_of(20, [](int) { return 1.18; }), 0, 0, 0);
  steps.allocated = 1.5e9;
  const PredictedStep predicted{1.0, 0.9, 1.1, 1e9, 0};
  EXPECT_THAT(what_differs(steps, predicted),
              ElementsAre("allocated memory +50 %", HasSubstr("step +18 %: the input pipeline")));
  const PredictedStep wide{1.0, 0.8, 1.3, 0, 0};
  EXPECT_THAT(what_differs(steps, wide),
              ElementsAre("step +18 %, inside the prediction's interval"));
}

TEST(Diagnosis, MeansOfSeveralStepsCountAsSuch) {
  TrainingLog log;
  for (int step = 10; step <= 100; step += 10) {
    LogEntry entry;
    entry.step = step;
    entry.clock = step * 2.0;
    log.entries.push_back(entry);
  }
  const SteadySteps steps = steady_steps(log, 0, 0, 0);
  EXPECT_EQ(steps.median, 2);
  EXPECT_EQ(steps.all.front().first, 11);
  EXPECT_EQ(steps.all.back().last, 100);
  EXPECT_THAT(what_stands_out(steps), IsEmpty());
}

}  // namespace
}  // namespace lockstep::diagnosis_test
