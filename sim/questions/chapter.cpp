// See chapter.hpp.
#include "questions/chapter.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "core/output.hpp"
#include "points/measured.hpp"
#include "points/points.hpp"

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

// More moments than a screen has columns: of each run of them the highest is kept.
constexpr std::size_t most_moments = 400;

MemoryCurve curve_of(const Point& point) {
  Job job = complete_job(point);
  MemoryLog log;
  job.memory_log = &log;
  point.strategy->memory(job);
  MemoryCurve curve{point.label, point.job.gpus, {}};
  const std::size_t width = (log.moments.size() + most_moments - 1) / most_moments;
  for (std::size_t i = 0; i < log.moments.size(); i += width) {
    const auto end =
        log.moments.begin() + static_cast<std::ptrdiff_t>(std::min(i + width, log.moments.size()));
    const auto highest = std::max_element(log.moments.begin() + static_cast<std::ptrdiff_t>(i), end,
                                          [](const auto& a, const auto& b) {
                                            return total_bytes(a.highest) < total_bytes(b.highest);
                                          });
    curve.moments.push_back({moment_text(highest->phase, highest->layer, &job.step),
                             static_cast<double>(total_bytes(highest->highest))});
  }
  return curve;
}

// Of each strategy that was predicted, on its most GPUs.
std::vector<MemoryCurve> memory_curves(const Scenario& scenario, const ResultRecord& record) {
  std::map<std::string, int> most;
  for (const Prediction& p : record.predictions)
    most[p.strategy] = std::max(most[p.strategy], p.gpus);
  std::vector<MemoryCurve> curves;
  for (const Point& point : expand(scenario)) {
    const auto found = most.find(point.label);
    if (found != most.end() && found->second == point.job.gpus) curves.push_back(curve_of(point));
  }
  return curves;
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
  chapter.memory = memory_curves(scenario, record);
  chapter.record = std::move(record);
  return chapter;
}

}  // namespace lockstep
