// Does a strategy work that consists of a folder and a line of the table? docs/add-a-strategy.md
// shows this strategy.
#include "naive_strategy.hpp"

#include <gtest/gtest.h>

#include <variant>

#include "core/describe.hpp"
#include "costs/collective.hpp"
#include "strategies/table.hpp"
#include "toy_job.hpp"

namespace lockstep {

// The line of the table.
using WithNaive = std::variant<DdpOptions, NaiveOptions>;
template <>
struct AlternativeNames<WithNaive> : StrategyTable<WithNaive> {};

namespace naive_strategy_test {
namespace {

using namespace lockstep::testing;  // NOLINT: the fixture of this file

WithNaive read(const std::string& text) {
  return read_text<std::vector<WithNaive>>(text, "s.yaml").front();
}

TEST(NaiveStrategy, IsReadFromAScenarioAndRefusesWhatItDoesNotKnow) {
  EXPECT_EQ(std::get<NaiveOptions>(read("[naive]")).times, 1);
  EXPECT_EQ(std::get<NaiveOptions>(read("[naive: {times: 3}]")).times, 3);
  EXPECT_THROW(read("[naive: {time: 3}]"), ConfigError);
  EXPECT_NE(markdown_fields<NaiveOptions>().find("How often each tensor is reduced."),
            std::string::npos);
}

TEST(NaiveStrategy, ReducesTensorAfterTensorOnceBackwardIsOver) {
  // four layers of 1 ms forward, 2 ms backward, one weight of 40 MB each
  const Job job = toy_job();
  const double reduction = collective_cost(job.machine, group_of(job.machine, job.mesh.gpus()),
                                           Collective::all_reduce, 40e6)
                               .seconds();
  for (const int times : {1, 3}) {
    const std::vector<double> seconds = in_child(
        [&] { return make_strategy(WithNaive{NaiveOptions{times}})->simulate(job).step_seconds; });
    // The host is ahead of the device, so issuing costs nothing.
    EXPECT_NEAR(seconds.front(), 4 * 1e-3 + 4 * 2e-3 + 1e-3 + 4 * times * reduction, 1e-12);
  }
}

TEST(NaiveStrategy, OneGpuReducesNothing) {
  const Job job = toy_job(4, 10e6, 1);
  const std::vector<double> seconds = in_child(
      [&] { return make_strategy(WithNaive{NaiveOptions{}})->simulate(job).step_seconds; });
  EXPECT_NEAR(seconds.front(), 4 * 1e-3 + 4 * 2e-3 + 1e-3, 1e-12);
  EXPECT_EQ(make_strategy(WithNaive{NaiveOptions{2}})->idle_options(job).size(), 1U);
}

}  // namespace
}  // namespace naive_strategy_test
}  // namespace lockstep
