// Are the widths of intervals derived from whole runs, and do intervals hold for a source that had
// no part in its width? The expected figures are worked out by hand.
#include "questions/coverage.hpp"

#include <gmock/gmock.h>

#include <cmath>

namespace lockstep {
namespace {

// A row whose measurement is exp(log_error) times the prediction.
ValidationRow row(const std::string& group, const std::string& source, double log_error,
                  const StepError& error) {
  ValidationRow r;
  r.group = group;
  r.source = source;
  r.quantity = "step_s";
  r.predicted = 2;
  r.measured = 2 * std::exp(log_error);
  r.step_error = error;
  return r;
}

constexpr ErrorLaw shipped;

StepError served(double work = 0) {
  return {.work = work, .network = 0, .scaling = 0, .servers = shipped.servers, .draws = 0};
}
// An error of the scaling over `doublings` doublings, as in step_error().
StepError scaled(double doublings) {
  return {.work = 0,
          .network = 0,
          .scaling = shipped.doubling * std::sqrt(doublings),
          .servers = 0,
          .draws = 0};
}

TEST(Coverage, EachSourceOfParameterServersCountsOnce) {
  std::vector<ValidationRow> rows{
      row("ps", "a/b issue 1", 0.5, served(0.3)), row("ps", "c/d, table 1", 0.2, served()),
      row("ps", "c/d, table 2", -0.2, served()), row("ps", "c/d, table 3", 0.2, served())};
  EXPECT_NEAR(error_law(rows).servers, std::sqrt((0.25 - 0.09 + 0.04) / 2), 1e-12);
  EXPECT_EQ(error_law(rows).doubling, shipped.doubling);
  // A source whose errors the other parts explain counts as a source without error.
  rows[0].step_error.work = 0.6;
  EXPECT_NEAR(error_law(rows).servers, std::sqrt(0.04 / 2), 1e-12);
  // Half of the costs are measured, so an error of the other half counts twice.
  rows.erase(rows.begin());
  for (ValidationRow& r : rows) r.step_error.servers /= 2;
  EXPECT_NEAR(error_law(rows).servers, 0.4, 1e-12);
}

TEST(Coverage, ADoublingIsAStepOfARandomWalk) {
  std::vector<ValidationRow> rows{row("scaling", "a", 0.06, scaled(4)),
                                  row("scaling", "b", -0.04, scaled(1))};
  EXPECT_NEAR(error_law(rows).doubling, std::sqrt((0.0009 + 0.0016) / 2), 1e-12);
  // Rows of other folders are not anchored, and calibration rows are no test.
  rows.push_back(row("ovi2026", "c", 1, scaled(1)));
  rows.push_back(row("scaling", "c", 1, scaled(1)));
  rows.back().calibration = true;
  EXPECT_NEAR(error_law(rows).doubling, std::sqrt((0.0009 + 0.0016) / 2), 1e-12);
}

TEST(Coverage, ASourceHasNoSayInItsOwnWidth) {
  // The width is 1.645 sigma: without source a it is b's, 0.33; without b it is a's, 0.82.
  const std::vector<ValidationRow> rows{row("ps", "a", 0.5, served()),
                                        row("ps", "b", 0.2, served())};
  const auto sources = coverage_by_source(rows);
  ASSERT_EQ(sources.size(), 3u);
  EXPECT_EQ(sources[0].source, "a");
  EXPECT_NEAR(sources[0].without.servers, 0.2, 1e-12);
  EXPECT_EQ(sources[0].left_out, 0u);
  EXPECT_NEAR(sources[1].without.servers, 0.5, 1e-12);
  EXPECT_EQ(sources[1].left_out, 1u);
  EXPECT_EQ(sources[2].source, "all");
  EXPECT_EQ(sources[2].rows, 2u);
  EXPECT_EQ(sources[2].left_out, 1u);
  EXPECT_NEAR(sources[2].without.servers, std::sqrt(0.29 / 2), 1e-12);
  EXPECT_THAT(coverage_table(sources).csv(), testing::HasSubstr("a,1,"));
  EXPECT_TRUE(coverage_by_source({}).empty());
}

}  // namespace
}  // namespace lockstep
