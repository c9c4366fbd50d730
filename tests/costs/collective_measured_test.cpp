// Do predicted collectives agree with the published measurements of the repository, on one node and
// on up to 128? The bar is a median error below 10 % at 1 MiB and more.
#include <gtest/gtest.h>

#include <cmath>

#include "core/statistics.hpp"
#include "fit/collective_rows.hpp"

namespace lockstep::collective_measured_test {
namespace {

TEST(MeasuredCollectives, MedianErrorIsUnderTenPercentFromOneMebibyteOn) {
  std::vector<double> fitted, checked, all, table;
  for (const CollectiveRow& row : collective_rows()) {
    if (row.bytes < 1 << 20 || row.use == RowUse::platform) continue;
    const CollectivePrediction p = predict_row(row);
    (row.use == RowUse::fit ? fitted : checked).push_back(std::abs(p.seconds / row.measured - 1));
    all.push_back(std::abs(p.seconds / row.measured - 1));
    table.push_back(std::abs(p.tuning_only / row.measured - 1));
  }
  ASSERT_GE(fitted.size(), 121u);
  ASSERT_GE(checked.size(), 20u);
  EXPECT_LT(median(fitted), 0.10);
  EXPECT_LT(median(checked), 0.08);
  // NCCL's table alone is much worse: the corrections are needed
  EXPECT_GT(quantile(table, 0.9), 2 * quantile(all, 0.9));
}

TEST(MeasuredCollectives, OnManyNodesTheMedianIsUnderTenPercentToo) {
  std::vector<double> far;
  for (const CollectiveRow& row : collective_rows())
    if (row.nodes >= 8) far.push_back(std::abs(predict_row(row).seconds / row.measured - 1));
  ASSERT_GE(far.size(), 67u);
  EXPECT_LT(median(far), 0.10);
}

TEST(MeasuredCollectives, LargeMessagesReachTheMeasuredBandwidth) {
  for (const CollectiveRow& row : collective_rows()) {
    if (row.use != RowUse::fit || row.nodes > 1 || row.bytes < 512.0 * (1 << 20)) continue;
    EXPECT_NEAR(predict_row(row).seconds / row.measured, 1, 0.04) << row.name << " " << row.bytes;
  }
}

}  // namespace
}  // namespace lockstep::collective_measured_test
