// Are measured points stored and printed as they were measured?
#include "probes/collective_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/errors.hpp"

namespace lockstep::collective_report_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

CollectivePoint point(Collective collective, double bytes, double seconds) {
  CollectivePoint all;
  all.collective = collective;
  all.bytes = bytes;
  all.count = static_cast<std::int64_t>(bytes / 4);
  all.seconds = seconds;
  all.cpu_seconds = seconds / 2;
  all.relative_iqr = 0.031;
  all.repetitions = 12;
  return all;
}

CollectiveReport report() {
  CollectiveReport all;
  all.network = "loopback";
  all.ranks = 4;
  all.complete = true;
  all.points = {point(Collective::all_reduce, 4096, 200e-6),
                point(Collective::all_reduce, 8192, 400e-6),
                point(Collective::broadcast, 4096, 100e-6)};
  return all;
}

TEST(Sizes, AreAListOrDoubled) {
  EXPECT_THAT(parse_sizes("4KiB..32KiB"), ElementsAre(4096, 8192, 16384, 32768));
  EXPECT_THAT(parse_sizes("4KiB..10KiB"), ElementsAre(4096, 8192, 10240));
  EXPECT_THAT(parse_sizes("1MiB,4KiB,1MiB"), ElementsAre(4096, 1048576));
  for (const char* wrong : {"", "4", "8KiB..4KiB", "4KiB,big", "1 B", "4KiB..1TiB"}) {
    EXPECT_THROW(parse_sizes(wrong), ConfigError) << wrong;
  }
}

TEST(Collectives, AreNamedAsInProfiles) {
  EXPECT_EQ(parse_collectives("").size(), 5u);
  EXPECT_THAT(parse_collectives("broadcast,all_reduce,broadcast"),
              ElementsAre(Collective::broadcast, Collective::all_reduce));
  try {
    parse_collectives("all_reduze");
    ADD_FAILURE();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'all_reduce'?"));
  }
}

TEST(Point, SurvivesTheResultFile) {
  CollectivePoint before = point(Collective::reduce_scatter, 4096, 123.456e-6);
  before.wrong = 3;
  before.disturbed = true;
  before.relative_spread = 0.25;
  before.disturbance.foreign = 0.4;
  const CollectivePoint after = point_from_json(nlohmann::json::parse(point_json(before).dump()));
  EXPECT_EQ(point_json(after), point_json(before));
  EXPECT_EQ(after.collective, Collective::reduce_scatter);
  EXPECT_EQ(after.seconds, before.seconds);
}

TEST(Table, HasTheColumnsOfNcclTests) {
  const std::string table = collective_table(report());
  EXPECT_THAT(table, HasSubstr("# all_reduce: 4 ranks, gloo, loopback\n"));
  // algbw = 4096 B / 200 us; busbw of all-reduce = algbw * 2 * 3/4
  EXPECT_THAT(table, HasSubstr("        4096        1024   float     sum    -1      200.0   0.020 "
                               "  0.031      0      100.0    3.1    12\n"));
  EXPECT_THAT(table, HasSubstr("# Out of bounds values : 0 OK\n"));
  EXPECT_THAT(table, testing::Not(HasSubstr("interrupted")));
}

TEST(Table, SaysWhatWentWrong) {
  CollectiveReport bad = report();
  bad.points[1].wrong = 7;
  bad.points[2].disturbed = true;
  bad.complete = false;
  const std::string table = collective_table(bad);
  EXPECT_THAT(table, HasSubstr("# Out of bounds values : 7 FAILED\n"));
  EXPECT_THAT(table, HasSubstr("other processes used the machine"));
  EXPECT_THAT(table, HasSubstr("interrupted"));
}

TEST(Curves, AreTheProfilesPart) {
  const auto curves = collective_curves(report());
  ASSERT_EQ(curves.size(), 2u);
  EXPECT_EQ(curves[0].collective, "all_reduce");
  EXPECT_EQ(curves[0].ranks, 4);
  ASSERT_EQ(curves[0].points.size(), 2u);
  EXPECT_EQ(curves[0].points[1].bytes, 8192);
  EXPECT_EQ(curves[0].points[1].seconds, 400e-6);
  EXPECT_EQ(curves[0].points[1].host_seconds, 200e-6);
}

}  // namespace
}  // namespace lockstep::collective_report_test
