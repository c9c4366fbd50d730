// See chapter.hpp.
#include "questions/chapter.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "core/output.hpp"
#include "points/measured.hpp"

namespace lockstep {

namespace {

std::string text_of(const std::string& path) {
  std::ostringstream text;
  if (!(text << std::ifstream(path, std::ios::binary).rdbuf())) {
    throw OutputError("cannot read " + path);
  }
  return text.str();
}

double step_of(const MeasuredRow& row, const Prediction& p) {
  const auto samples = static_cast<double>(p.global_batch);
  const double tokens = p.tokens_per_second / p.samples_per_second * samples;
  return measured_step_seconds(row, samples, tokens, p.steps);
}

}  // namespace

ReportChapter report_chapter(const Scenario& scenario, ResultRecord record) {
  ReportChapter chapter;
  chapter.description = scenario.description;
  chapter.inputs = text_of(scenario.file);
  for (const MeasuredRow& row : scenario.measured) {
    const std::size_t entry = entry_of(scenario, row);
    const std::string& strategy = scenario.strategies[entry].label;
    for (const Prediction& p : record.predictions) {
      if (p.strategy != strategy || p.gpus != row.gpus) continue;
      const bool anchors = std::any_of(
          scenario.anchor.begin(), scenario.anchor.end(), [&](const MeasuredRow& anchor) {
            return entry_of(scenario, anchor) == entry && anchor.gpus == row.gpus;
          });
      if (const double step = step_of(row, p); step > 0) {
        chapter.measured.push_back(
            {strategy, row.gpus, step, row.source, row.calibration || anchors});
      }
    }
  }
  chapter.record = std::move(record);
  return chapter;
}

}  // namespace lockstep
