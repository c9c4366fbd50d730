// Does simulated local SGD follow its closed forms (fact 88)?
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "costs/collective.hpp"
#include "strategies/common/stragglers.hpp"
#include "toy_job.hpp"

namespace lockstep::local_sgd_test {
namespace {

using namespace lockstep::testing;  // NOLINT: the fixture of this file

constexpr double near = 1e-9;
constexpr double mib = 1024.0 * 1024.0;
constexpr double parameters = 4 * 40e6;               // bytes of the toy job's four layers
constexpr double local = 4 * 1e-3 + 4 * 2e-3 + 1e-3;  // forward, backward, update
// into the flat tensor, and the division there
constexpr double copies = 2 * 2 * parameters / 1e12;

double relative(double a, double b) {
  return std::abs(a - b) / std::abs(b);
}

LocalSgdOptions every(int steps) {
  LocalSgdOptions options;
  options.every = steps;
  return options;
}

// Seconds of the all-reduce. The host has waited for the device and needs 70 us to issue it (fact
// 24).
double all_reduce_seconds(const Job& job, double bytes = parameters) {
  const auto cost = collective_cost(job.machine, group_of(job.machine, job.mesh.gpus()),
                                    Collective::all_reduce, bytes);
  return 70e-6 + cost.seconds();
}

// Reports cover whole rounds, even if the rounds do not repeat within the run.
TEST(LocalSgd, TakesItsShareOfAnAllReduceInEachStep) {
  const Job job = toy_job();
  const double average = copies + all_reduce_seconds(job);
  for (const int h : {1, 2, 5, 6, 7, 50}) {
    const Numbers result = simulate(job, every(h));
    EXPECT_LT(relative(result.step, local + average / h), near) << h;
    EXPECT_LT(relative(result.first, local + average), near) << h;  // step 0 averages, too
    EXPECT_LT(relative(result.split.exposed_communication + result.split.host_bound,
                       all_reduce_seconds(job) / h),
              near);
    EXPECT_LT(relative(sum(result.split), result.step), near);
    EXPECT_EQ(result.extrapolated, 3 * h < job.simulation.steps) << h;
    // counted in rounds
    EXPECT_EQ(result.steps, result.extrapolated ? 3 : std::ceil(20.0 / h)) << h;
    EXPECT_EQ(result.samples, 8 * 32);
  }
}

TEST(LocalSgd, SendsTheParametersOnceInEachRound) {
  const Job job = toy_job();
  double bytes = 0;
  for (const LinkLoad& load :
       collective_cost(job.machine, group_of(job.machine, 8), Collective::all_reduce, parameters)
           .links) {
    bytes += load.total_bytes;
  }
  for (const int h : {1, 4, 50}) {
    EXPECT_LT(relative(simulate(job, every(h)).traffic, bytes / h), near) << h;
  }
}

LocalSgdOptions diloco(int steps, int fragments = 1, int overlap = 0) {
  LocalSgdOptions options = every(steps);
  options.outer = NesterovOuter{};
  options.fragments = fragments;
  options.overlap = overlap;
  return options;
}
// Bytes of the distance from the last average, its division, and the outer step.
constexpr double outer_copies = (3 + 2 + 6) * parameters / 1e12;

// DiLoCo exchanges all parameters once in `every` steps; Streaming DiLoCo exchanges as much in
// fragments.
TEST(LocalSgd, AnOuterStepCostsItsShareOfTheSteps) {
  const Job job = toy_job();
  for (const int h : {1, 4, 50}) {
    EXPECT_LT(relative(simulate(job, diloco(h)).step,
                       local + (outer_copies + all_reduce_seconds(job)) / h),
              near);
  }
  const double part = outer_copies / 4 + all_reduce_seconds(job, parameters / 4);
  EXPECT_LT(relative(simulate(job, diloco(8, 4)).step, local + part / 2), near);
}

// A fragment's exchange hides behind the steps that run meanwhile.
TEST(LocalSgd, AnExchangeHidesBehindTheStepsItOverlaps) {
  Job job = toy_job();
  job.simulation.interference = false;
  const double reduced = all_reduce_seconds(job, parameters / 2) - 70e-6;
  ASSERT_LT(reduced, local);
  EXPECT_LT(relative(simulate(job, diloco(8, 2, 1)).step, local + outer_copies / 2 / 4), 1e-3);
  EXPECT_EQ(simulate(job, diloco(8, 2, 1)).traffic, simulate(job, diloco(8, 2)).traffic);
}

// The parameters of the last average and the outer momentum are kept. A fragment's flat tensor
// exists only during its exchange.
TEST(LocalSgd, AnOuterOptimizerKeepsTwoCopies) {
  const Job job = toy_job();
  const double mean = make_strategy(every(8))->memory(job).allocated;
  const double outer = make_strategy(diloco(8))->memory(job).allocated;
  EXPECT_NEAR(outer - mean, 2 * parameters, mib);
  EXPECT_LT(make_strategy(diloco(8, 8))->memory(job).allocated, outer);
}

TEST(LocalSgd, OnOneGpuAveragesNothing) {
  const Numbers result = simulate(toy_job(4, 10e6, 1), every(4));
  EXPECT_LT(relative(result.step, local), near);
  EXPECT_EQ(result.traffic, 0);
  EXPECT_EQ(result.steps, 3);
}

TEST(LocalSgd, MicroBatchesAddTheirGradients) {
  Job job = toy_job();
  const double once = simulate(job, every(4)).step;
  job.accumulation = 3;
  EXPECT_LT(relative(simulate(job, every(4)).step, once + 2 * (12e-3 + 3 * parameters / 1e12)),
            near);
}

TEST(LocalSgd, GoesAtThePaceOfAFixedSlowRank) {
  Job job = toy_job();
  job.stragglers.slow_ranks = {{3, 1.5}};
  const Numbers result = simulate(job, every(5));
  EXPECT_LT(relative(result.step, 1.5 * (local + copies / 5) + all_reduce_seconds(job) / 5), near);
  EXPECT_GT(result.split.waiting, 0.4 * local);
}

// Between averages ranks drift apart. A round takes as long as the rank with the largest sum of
// steps, not the sum of each step's slowest rank.
TEST(LocalSgd, ARoundIsTheLargestSumOfItsSteps) {
  Job job = toy_job();
  job.simulation.steps = 40;
  job.stragglers.per_step = Lognormal{0.2};
  const RankSpeeds speeds(job);
  std::map<int, double> mean;
  for (const int h : {1, 8}) {
    double end = 0;
    for (int round = 0; round < job.simulation.steps / h; ++round) {
      std::vector<double> busy(8, 0.0);
      for (int step = round * h + 1; step <= (round + 1) * h; ++step) {
        const std::vector<double> factors = speeds.factors(step);
        const double work = step % h == 0 ? local + copies : local;
        for (std::size_t rank = 0; rank < 8; ++rank) busy[rank] += factors[rank] * work;
      }
      end += *std::max_element(busy.begin(), busy.end()) + all_reduce_seconds(job);
    }
    mean[h] = simulate(job, every(h)).step;
    EXPECT_LT(relative(mean[h], end / job.simulation.steps), near) << h;
  }
  const double averages = all_reduce_seconds(job) * (1 - 1.0 / 8) + copies * (1 - 1.0 / 8);
  EXPECT_LT(mean[8], mean[1] - averages - 0.1 * local);
}

TEST(LocalSgd, IsAsSlowAsItsDataLoader) {
  Job job = toy_job();
  job.simulation.steps = 400;
  const double free = simulate(job, every(4)).step;
  job.data_loading_seconds = 1.01 * free;  // faster than the steps that average
  const Numbers loading = simulate(job, every(4));
  EXPECT_NEAR(loading.step / job.data_loading_seconds, 1, 1e-6);
}

TEST(LocalSgd, NeedsAFlatCopyOfWhatIsAveraged) {
  Job job = toy_job();
  job.optimizer.momentum = 0.9;
  const auto allocated = [&](const StrategyOptions& options) {
    return make_strategy(options)->memory(job).allocated;
  };
  LocalSgdOptions options;
  const double with = allocated(options);
  options.average_state = true;
  // The caching allocator may leave up to 1 MiB of a segment unsplit.
  EXPECT_NEAR(allocated(options) - with, parameters, mib);
  EXPECT_LT(relative(simulate(job, options).traffic, 2 * simulate(job, every(4)).traffic), near);
  job.mesh.data = 1;
  const double alone = allocated(options);
  // At the peak there are also gradients and momenta, but not the 1 MB of activations that one
  // GPU's peak has.
  EXPECT_NEAR(with - alone, parameters, 2e6);
}

}  // namespace
}  // namespace lockstep::local_sgd_test
