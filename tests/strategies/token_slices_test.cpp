// Do token slices (TeraPipe, Li et al. 2021) in a simulated pipeline follow closed forms, and equal
// GPipe if there is one slice?
#include <gtest/gtest.h>

#include <numeric>

#include "pipeline_job.hpp"

namespace lockstep::token_slices_test {
namespace {

using testing::Numbers;
using testing::pipeline_job;
using testing::simulate;
using testing::StageCosts;

constexpr double forward_seconds = 1e5, backward_seconds = 2e5;

// GPipe with micro-batches of slices that have these shares of the work and of the messages.
Job sliced_job(int stages, int micro, const std::vector<double>& shares, int data = 1) {
  Job job = pipeline_job(PipelineSchedule::gpipe, {stages, 1, micro, 0}, data);
  for (const double share : shares) {
    auto costs = std::make_shared<StageCosts>();
    costs->speed = 1 / share;
    Job slice = job;
    for (Layer& layer : edit_step(slice).layers) layer.output_bytes *= share;
    std::vector<int> first_layers(static_cast<std::size_t>(stages));
    std::iota(first_layers.begin(), first_layers.end(), 0);
    auto parts =
        std::make_shared<const std::vector<ModelPart>>(cut(*slice.step, first_layers, true));
    job.slices.push_back({slice.step, parts, costs});
  }
  return job;
}

double difference_of_steps(const Job& a, const Job& b, const StrategyOptions& options) {
  return testing::difference(simulate(a, options), simulate(b, options));
}

TEST(TokenSlices, OfEqualWorkAreLikeMicroBatches) {
  for (const auto& [stages, micro, slices] : {std::array{2, 1, 2}, {4, 2, 8}, {8, 1, 16}}) {
    const Job job = sliced_job(stages, micro, std::vector<double>(slices, 1.0 / slices));
    const double each = (forward_seconds + backward_seconds) / slices;
    const double expected = (micro * slices + stages - 1) * each;
    EXPECT_NEAR(simulate(job, DdpOptions{}).step, expected, 1e-8 * expected) << stages;
  }
}

// Section 3.3: a pipeline takes the sum of all slices, and the longest slice once for each further
// stage.
TEST(TokenSlices, OfUnequalWorkTakeTheLongestOnEachFurtherStage) {
  for (const std::vector<double>& shares :
       {std::vector{0.5, 0.3, 0.2}, {0.1, 0.6, 0.3}, {0.2, 0.2, 0.2, 0.4}}) {
    for (const int micro : {1, 3}) {
      const double longest = *std::max_element(shares.begin(), shares.end());
      const double expected = (micro + 5 * longest) * (forward_seconds + backward_seconds);
      const Numbers result = simulate(sliced_job(6, micro, shares), DdpOptions{});
      EXPECT_NEAR(result.step, expected, 1e-8 * expected) << longest;
    }
  }
}

TEST(TokenSlices, OneIsTheWholeMicroBatch) {
  Job plain = sliced_job(4, 3, {}), one = sliced_job(4, 3, {1});
  plain.communication_scale = one.communication_scale = 1e6;
  for (const StrategyOptions& options :
       {StrategyOptions{DdpOptions{}}, StrategyOptions{FsdpOptions{}},
        StrategyOptions{ZeroOptions{}}}) {
    EXPECT_EQ(difference_of_steps(plain, one, options), 0);
  }
}

TEST(TokenSlices, SendAndKeepWhatTheMicroBatchDoes) {
  Job plain = sliced_job(4, 3, {}, 2), sliced = sliced_job(4, 3, {0.5, 0.25, 0.25}, 2);
  plain.communication_scale = sliced.communication_scale = 1e6;
  const double traffic = simulate(plain, DdpOptions{}).traffic;
  EXPECT_NEAR(simulate(sliced, DdpOptions{}).traffic, traffic, 1e-9 * traffic);
  const auto strategy = make_strategy(DdpOptions{});
  EXPECT_EQ(strategy->memory(plain).allocated, strategy->memory(sliced).allocated);
}

TEST(TokenSlices, BothExecutorsAgree) {
  for (const StrategyOptions& options :
       {StrategyOptions{DdpOptions{}}, StrategyOptions{FsdpOptions{}},
        StrategyOptions{ZeroOptions{}}}) {
    Job loop = sliced_job(4, 2, {0.5, 0.3, 0.2}, 2);
    loop.communication_scale = 1e6;
    Job simgrid = loop;
    loop.simulation.engine = Engine::loop;
    simgrid.simulation.engine = Engine::simgrid;
    EXPECT_LT(difference_of_steps(loop, simgrid, options), 1e-9);
    const Numbers result = simulate(loop, options);
    EXPECT_NEAR(testing::sum(result.split), result.step, 1e-9 * result.step);
  }
}

}  // namespace
}  // namespace lockstep::token_slices_test
