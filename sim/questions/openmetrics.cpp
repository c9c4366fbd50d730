// Writes the summaries of a validation as OpenMetrics 1.0 text (declared in validate.hpp). A
// nightly run publishes the text, so that a dashboard shows how errors develop.
#include <fmt/format.h>

#include "questions/validate.hpp"

namespace lockstep {

namespace {

// A label value with backslash, quote and newline escaped, as OpenMetrics demands.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

// The labels of a group. Prefixes and suffixes of its name that only help in a table are removed or
// become the label used_for.
std::string labels(const std::string& group) {
  const std::string calibration = " (calibration)", part = "  of these";
  std::string name = group;
  const bool calibrates = name.ends_with(calibration);
  if (calibrates) name.resize(name.size() - calibration.size());
  if (name.starts_with(part)) name = "all tests of prediction" + name.substr(part.size());
  return fmt::format("group=\"{}\",used_for=\"{}\"", escaped(name),
                     calibrates ? "calibration" : "test");
}

// A metric family with its head lines; "" without samples.
std::string family(const std::string& name, const char* unit, const char* help,
                   const std::string& samples) {
  if (samples.empty()) return "";
  std::string text = fmt::format("# TYPE {} gauge\n", name);
  if (*unit != '\0') text += fmt::format("# UNIT {} {}\n", name, unit);
  return text + fmt::format("# HELP {} {}\n", name, help) + samples;
}

}  // namespace

std::string validation_openmetrics(const std::vector<ErrorSummary>& summaries) {
  const std::string rows = "lockstep_validation_rows", error = "lockstep_validation_error_ratio",
                    coverage = "lockstep_validation_interval_coverage_ratio";
  std::string row_samples, error_samples, coverage_samples;
  for (const ErrorSummary& s : summaries) {
    const std::string group = labels(s.group);
    row_samples += fmt::format("{}{{{}}} {}\n", rows, group, s.rows);
    for (const auto& [statistic, value] :
         {std::pair{"median", s.median}, {"mean", s.mean}, {"p90", s.p90}, {"worst", s.worst}}) {
      error_samples +=
          fmt::format("{}{{{},statistic=\"{}\"}} {}\n", error, group, statistic, value);
    }
    if (s.with_interval > 0) {
      coverage_samples += fmt::format("{}{{{}}} {}\n", coverage, group, s.inside);
    }
  }
  return fmt::format(
             "# TYPE lockstep info\n# HELP lockstep The program that predicted.\n"
             "lockstep_info{{version=\"{}\"}} 1\n",
             LOCKSTEP_VERSION) +
         family(rows, "", "Measured figures that predictions met.", row_samples) +
         family(error, "ratio", "Absolute error of predictions over the measured figure.",
                error_samples) +
         family(coverage, "ratio",
                "Share of measured times inside the 90 % interval of their prediction.",
                coverage_samples) +
         "# EOF\n";
}

}  // namespace lockstep
