// The cost of a single controller for all hosts, if its dispatch is not hidden behind
// computations.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "pipeline_job.hpp"

namespace lockstep::testing::controller_test {
namespace {

constexpr double exact = 1e-9;

// Two nodes of four GPUs.
Job job_with(Dispatch dispatch, double fixed, double per_host) {
  Job job = toy_job(4, 10e6, 8);
  job.machine.gpus_per_node = 4;
  job.controller = {dispatch, fixed, per_host};
  return job;
}

double step_of(const Job& job) {
  return simulate(job, DdpOptions{}).step;
}

// Barham et al. 2022, section 5.1: the devices stay busy if a computation takes at least as long as
// its dispatch. The step is the longer of the two.
TEST(Controller, AheadOfTheDevicesIsABoundOfTheStep) {
  const double alone = step_of(job_with(Dispatch::hosts, 1, 1));
  for (const double share : {0.1, 0.5, 0.999, 1.5, 20.0}) {
    const double dispatch = share * alone;
    Job job = job_with(Dispatch::ahead, dispatch / 2, dispatch / 4);
    EXPECT_NEAR(step_of(job) / std::max(alone, dispatch), 1, exact) << share;
  }
}

TEST(Controller, InTurnAddsItsDispatch) {
  const double alone = step_of(job_with(Dispatch::hosts, 1, 1));
  for (const double seconds : {1e-4, 1e-3, 0.1}) {
    const double found = step_of(job_with(Dispatch::in_turn, seconds, seconds));
    EXPECT_NEAR(found / (alone + 3 * seconds), 1, 1e-6) << seconds;
  }
}

// In a pipeline each action of each stage is dispatched. The critical path of 1F1B has m + p - 1
// forwards and as many backwards.
TEST(Controller, DispatchesEachActionOfAPipeline) {
  constexpr double forward = 1e5, backward = 2e5, dispatch = 1e4;
  const double stages = 4, micro = 8;
  Job job = pipeline_job(PipelineSchedule::one_f_one_b, {4, 1, 8, 0});
  job.controller = {Dispatch::in_turn, dispatch, 0};
  const double in_turn = (micro + stages - 1) * (forward + backward + 2 * dispatch);
  EXPECT_NEAR(step_of(job) / in_turn, 1, 1e-6);
  job.controller = {Dispatch::ahead, dispatch, 0};
  EXPECT_NEAR(step_of(job) / ((micro + stages - 1) * (forward + backward)), 1, 1e-6);
  job.controller.fixed_seconds = 1e5;
  EXPECT_NEAR(step_of(job) / (2 * micro * stages * 1e5), 1, 0.05);
}

}  // namespace
}  // namespace lockstep::testing::controller_test
