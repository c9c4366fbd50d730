// Does --openmetrics follow the OpenMetrics 1.0 text format, and does it have the figures of the
// summary?
#include <gmock/gmock.h>

#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "questions/validate.hpp"

namespace lockstep::openmetrics_test {
namespace {

// Parses samples by name and labels, and checks the format: metadata come first, each family is one
// block, names end with their unit, no sample is repeated, and `# EOF` ends the text.
std::map<std::string, double> parsed(const std::string& text) {
  static const std::regex meta("# (TYPE|UNIT|HELP) ([a-z_]+) (.+)");
  static const std::regex sample(
      "([a-z_]+)(\\{[a-z_]+=\"(?:[^\"\\\\]|\\\\[\\\\\"n])*\""
      "(?:,[a-z_]+=\"(?:[^\"\\\\]|\\\\[\\\\\"n])*\")*\\}) ([-+0-9.e]+)");
  std::map<std::string, double> samples;
  std::set<std::string> families;
  std::string family, line;
  bool info = false, in_samples = true;
  std::istringstream lines(text);
  while (std::getline(lines, line) && line != "# EOF") {
    std::smatch m;
    if (std::regex_match(line, m, meta)) {
      if (m[1] == "TYPE") {
        EXPECT_TRUE(in_samples) << line;
        family = m[2];
        info = m[3] == "info";
        in_samples = false;
        EXPECT_TRUE(info || m[3] == "gauge") << line;
        EXPECT_TRUE(families.insert(family).second) << line;
      }
      EXPECT_FALSE(in_samples) << line;
      EXPECT_EQ(m[2], family);
      if (m[1] == "UNIT") {
        EXPECT_TRUE(family.ends_with("_" + m[3].str())) << line;
      }
    } else if (std::regex_match(line, m, sample)) {
      in_samples = true;
      EXPECT_EQ(m[1], info ? family + "_info" : family);
      EXPECT_TRUE(samples.emplace(m[1].str() + m[2].str(), std::stod(m[3])).second) << line;
    } else {
      ADD_FAILURE() << "neither metadata nor a sample: " << line;
    }
  }
  EXPECT_EQ(line, "# EOF");
  EXPECT_TRUE(text.ends_with("# EOF\n"));
  return samples;
}

ErrorSummary summary(const std::string& group, double median, std::size_t with_interval) {
  ErrorSummary s;
  s.group = group;
  s.rows = 3;
  s.median = median;
  s.p90 = 0.2;
  s.worst = 1e-7;
  s.inside = 0.75;
  s.with_interval = with_interval;
  return s;
}

TEST(OpenMetrics, HasTheFiguresOfEveryGroup) {
  const auto samples = parsed(validation_openmetrics(
      {summary("a \"b\"\\c\nd", 0.125, 4), summary("x (calibration)", 0.5, 0),
       summary("  of these, on one node", 0.25, 1)}));
  const std::string a = "group=\"a \\\"b\\\"\\\\c\\nd\",used_for=\"test\"";
  const std::string part = "group=\"all tests of prediction, on one node\",used_for=\"test\"";
  const auto error = [&](const std::string& labels, const std::string& statistic) {
    return samples.at("lockstep_validation_error_ratio{" + labels + ",statistic=\"" + statistic +
                      "\"}");
  };
  EXPECT_EQ(error(a, "median"), 0.125);
  EXPECT_EQ(error(a, "p90"), 0.2);
  EXPECT_EQ(error(a, "worst"), 1e-7);
  EXPECT_EQ(error("group=\"x\",used_for=\"calibration\"", "median"), 0.5);
  EXPECT_EQ(error(part, "median"), 0.25);
  EXPECT_EQ(samples.at("lockstep_validation_rows{" + a + "}"), 3);
  EXPECT_EQ(samples.at("lockstep_validation_interval_coverage_ratio{" + a + "}"), 0.75);
  // No prediction of the second group has an interval, so its family is shorter.
  EXPECT_EQ(samples.size(), 1U + 3 + 3 * 4 + 2);
}

TEST(OpenMetrics, OfNothingIsStillADocument) {
  EXPECT_EQ(parsed(validation_openmetrics({})).size(), 1U);
}

}  // namespace
}  // namespace lockstep::openmetrics_test
