// Collects a scenario's chapter of the report (declared in run.hpp): record, measured rows, memory
// curves, timelines, and the text of the scenario's file. Curves and timelines are thinned out,
// because a page of fixed width cannot show more.
#include <algorithm>
#include <map>

#include "core/file_text.hpp"
#include "core/output.hpp"
#include "points/measured.hpp"
#include "points/points.hpp"
#include "questions/anchor.hpp"
#include "questions/run.hpp"
#include "questions/trace.hpp"

namespace lockstep {

namespace {

// Step seconds of a measured row, computed from the prediction of its point; 0 if the row gives no
// time.
double step_of(const MeasuredRow& row, const Prediction& p) {
  const auto samples = static_cast<double>(p.global_batch);
  const double tokens = p.tokens_per_second / p.samples_per_second * samples;
  return measured_step_seconds(row, samples, tokens, p.steps);
}

// The largest number of points in a memory curve; a screen has hardly more columns. Several
// neighbouring moments become one point, and its value is their highest, so that the peak stays
// visible.
constexpr std::size_t most_moments = 400;

// Number of tensors at the peak that are listed by name; all others become one entry.
constexpr std::size_t named_tensors = 15;

// Tensors alive at the peak, largest first; the smallest ones become one entry. The memory log
// covers only the training step. Other memory on the device, such as that of a parameter server,
// has one entry for each kind.
std::vector<MemoryCurve::Tensors> tensors_of(const MemoryLog& log, const MemoryUse& use) {
  std::vector<MemoryCurve::Tensors> result;
  for (const LiveTensors& tensors : log.at_peak) {
    result.push_back({tensors.name, memory_kind_names[static_cast<std::size_t>(tensors.kind)],
                      tensors.count, static_cast<double>(tensors.bytes)});
  }
  for (const auto& [kind, bytes] : use.at_peak) {
    const auto& known = memory_kind_names;
    if (std::find(known.begin(), known.end(), kind) == known.end()) {
      result.push_back({kind, kind, 1, bytes});
    }
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  if (result.size() <= named_tensors + 1) return result;
  MemoryCurve::Tensors others{"others", "", 0, 0};
  for (std::size_t i = named_tensors; i < result.size(); ++i) {
    others.count += result[i].count;
    others.bytes += result[i].bytes;
  }
  result.resize(named_tensors);
  result.push_back(std::move(others));
  return result;
}

// The memory of a step over its moments, from the allocator's log.
MemoryCurve curve_of(const Point& point) {
  const Job& job = point.job;
  MemoryLog log;
  const MemoryUse use = point.strategy->memory(job, {.log = &log});
  MemoryCurve curve{point.label, point.job.mesh.gpus(), {}, tensors_of(log, use), use.moment};
  // Number of moments that become one point of the curve.
  const std::size_t width = (log.moments.size() + most_moments - 1) / most_moments;
  for (std::size_t i = 0; i < log.moments.size(); i += width) {
    const auto end =
        log.moments.begin() + static_cast<std::ptrdiff_t>(std::min(i + width, log.moments.size()));
    const auto highest = std::max_element(log.moments.begin() + static_cast<std::ptrdiff_t>(i), end,
                                          [](const auto& a, const auto& b) {
                                            return total_bytes(a.highest) < total_bytes(b.highest);
                                          });
    curve.moments.push_back({moment_text(highest->phase, highest->layer, &*job.step),
                             static_cast<double>(total_bytes(highest->highest))});
  }
  return curve;
}

// The point on the most GPUs of each strategy that has a prediction.
std::vector<Point> largest_points(const Scenario& scenario, const ResultRecord& record,
                                  const RunOptions& options) {
  std::map<std::string, int> most;
  for (const Prediction& p : record.predictions)
    most[p.strategy] = std::max(most[p.strategy], p.gpus);
  std::vector<Point> points;
  for (Point& point : expand(scenario, anchor_scales(scenario, options))) {
    const auto found = most.find(point.label);
    if (found != most.end() && found->second == point.job.mesh.gpus())
      points.push_back(std::move(point));
  }
  return points;
}

}  // namespace

ReportChapter report_chapter(const Scenario& scenario, ResultRecord record,
                             const RunOptions& options) {
  ReportChapter chapter;
  chapter.description = scenario.description;
  chapter.inputs = file_text(scenario.file, most_of_a_description);
  // A measured row belongs to the prediction of the same strategy and GPU count.
  for (const MeasuredRow& row : scenario.measured) {
    const std::size_t entry = entry_of(scenario, row);
    const std::string& strategy = scenario.strategies[entry].label;
    for (const Prediction& p : record.predictions) {
      if (p.strategy != strategy || p.gpus != row.gpus) continue;
      // A row at an anchored point does not test the prediction.
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
  std::vector<Point> points = largest_points(scenario, record, options);
  for (const Point& point : points) chapter.memory.push_back(curve_of(point));
  chapter.timelines = step_timelines(std::move(points), record, options.workers);
  chapter.record = std::move(record);
  return chapter;
}

}  // namespace lockstep
