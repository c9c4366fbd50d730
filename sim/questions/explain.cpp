// Divides a step into its parts, and varies one input after the other by simulation. attribute()
// and difference() only rearrange numbers of predictions; sensitivities() and axis_changes() expand
// and simulate changed scenarios.
#include "questions/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "core/statistics.hpp"
#include "parallel/schedule.hpp"
#include "points/measured.hpp"
#include "points/predict.hpp"
#include "questions/anchor.hpp"
#include "questions/resources.hpp"
#include "results/step_parts.hpp"

namespace lockstep {

namespace {

// A varied input: its name, and the function that changes the machine or the scenario.
struct Change {
  std::string input;
  MachineEdit machine;
  std::function<void(Scenario&)> scenario;
};

// All inputs that are varied: every hardware resource by 10 %, the data loader's rate by 10 %, the
// batch by a factor of two.
std::vector<Change> changes(const Scenario& scenario) {
  constexpr double more = more_of_a_resource;
  std::vector<Change> list;
  for (const Resource& resource : resources) {
    list.push_back({std::string(resource.name) + " +10 %",
                    [scale = resource.scale](Machine& m, Framework& f) { scale(m, f, more); },
                    {}});
  }
  if (scenario.data_loading.samples_per_second > 0) {
    list.push_back({"data loading rate +10 %", {}, [](Scenario& s) {
                      s.data_loading.samples_per_second *= more;
                    }});
  }
  list.push_back({"batch doubled", {}, [](Scenario& s) {
                    s.batch.global *= 2;
                    s.batch.per_gpu *= 2;
                    s.batch.micro *= 2;
                  }});
  return list;
}

// A function that sets one axis to its value in the other mesh, and the name of this change in the
// answer.
struct AxisStep {
  // The text of the change, such as "tensor 4 -> 8".
  std::string text;
  std::function<void(Scenario&)> set;
};

// The pipeline as "4 1f1b x2": stages, schedule, chunks per stage.
std::string pipeline_text(const PipelineOptions& pipeline) {
  if (pipeline.stages == 1) return "1";
  const int chunks = chunks_of(pipeline);
  return fmt::format("{} {}{}", pipeline.stages, enum_name(pipeline.schedule),
                     chunks > 1 ? fmt::format(" x{}", chunks) : "");
}

// The axes in which two meshes differ, in the order in which they are changed. The micro-batch is
// last; it takes `batch`, the batch of the second scenario.
std::vector<AxisStep> steps_between(const Point& from, const Point& to, const BatchSpec& batch) {
  const ParallelOptions &a = from.job.parallel, &b = to.job.parallel;
  std::vector<AxisStep> steps;
  const auto add = [&](const char* axis, const std::string& before, const std::string& after,
                       std::function<void(Scenario&)> set) {
    if (before == after) return;
    steps.push_back({fmt::format("{} {} -> {}", axis, before, after), std::move(set)});
  };
  const auto number = [](std::int64_t size) { return std::to_string(size); };
  const auto parallel = [](Scenario& s) -> ParallelOptions& {
    return s.strategies.front().parallel.value();
  };
  add("tensor", number(a.tensor.size), number(b.tensor.size),
      [=](Scenario& s) { parallel(s).tensor = b.tensor; });
  add("context", number(a.context.size), number(b.context.size),
      [=](Scenario& s) { parallel(s).context = b.context; });
  add("expert", number(a.expert.size), number(b.expert.size),
      [=](Scenario& s) { parallel(s).expert = b.expert; });
  add("pipeline", pipeline_text(a.pipeline), pipeline_text(b.pipeline),
      [=](Scenario& s) { parallel(s).pipeline = b.pipeline; });
  if (steps.empty()) return steps;
  add("micro-batch", number(from.micro_batch), number(to.micro_batch),
      [=](Scenario& s) { s.batch = batch; });
  return steps;
}

// Name of the part that changes most; "" if there are no parts.
std::string largest(const std::vector<DifferencePart>& parts) {
  if (parts.empty()) return "";
  const auto change = [](const DifferencePart& part) { return part.after - part.before; };
  const DifferencePart& most = *std::max_element(
      parts.begin(), parts.end(),
      [&](const auto& a, const auto& b) { return std::abs(change(a)) < std::abs(change(b)); });
  return most.what;
}

}  // namespace

std::vector<AxisChange> axis_changes(const Scenario& from, const Point& from_point,
                                     const Scenario& to, const Point& to_point,
                                     const std::vector<CostScale>& scales,
                                     const RunOptions& options) {
  // The job below has a single strategy entry and therefore takes only that entry's factors.
  const auto scale_here =
      scales.empty() ? std::vector<CostScale>{} : std::vector<CostScale>{scales[from_point.entry]};
  Scenario job = only(from, from_point.entry, from_point.job.mesh.gpus());
  job.strategies.front().parallel = from_point.job.parallel;
  // One point for each mesh on the path. A mesh that cannot be built is skipped, and its text is
  // added to that of the next mesh.
  std::vector<std::string> texts{""};
  std::vector<Point> points = expand(job, scale_here);
  std::string text;
  for (const AxisStep& step : steps_between(from_point, to_point, to.batch)) {
    step.set(job);
    text += (text.empty() ? "" : ", ") + step.text;
    try {
      points.push_back(expand(job, scale_here).front());
      texts.push_back(std::exchange(text, ""));
    } catch (const ConfigError&) {  // this axis cannot be changed separately
    }
  }
  // Predict all meshes, and compare each with the one before it.
  const Predicted predicted = predict_each(job, points, options);
  std::vector<AxisChange> list;
  for (std::size_t i = 1; i < predicted.predictions.size(); ++i) {
    const auto parts = difference(predicted.predictions[i - 1], predicted.points[i - 1],
                                  predicted.predictions[i], predicted.points[i]);
    double more = 0;
    for (const DifferencePart& part : parts) more += part.after - part.before;
    list.push_back({texts[i], more, largest(parts)});
  }
  return list;
}

namespace {

// Adds exposed communication: by axis of the mesh, or as one part if there is no mesh. Both cases
// add the same number of parts, so that difference() can pair them.
void add_exposed(const Prediction& p, const std::string& phrase, Attribution& parts) {
  for (const AxisPart& axis : named_axes) {
    const bool data = axis.seconds == &AxisSeconds::data;
    if (p.mesh) {
      parts.emplace_back(fmt::format("{}, {}", phrase, axis.name), p.split.exposed.*axis.seconds);
    } else {
      parts.emplace_back(phrase, data ? p.split.exposed_communication : 0);
    }
  }
}

}  // namespace

Attribution attribute(const Prediction& p, const Point& point) {
  const StepSplit& s = p.split;
  const double compute = s.forward + s.backward;
  // Device seconds of one optimizer step without interference. They give the share bound by memory.
  double device = 0;
  for (std::size_t i = 0; i < point.job.step->layers.size(); ++i) {
    const LayerCost cost = point.job.costs->layer(*point.job.step, i);
    device += cost.forward.busy + cost.backward.busy;
  }
  device *= point.job.accumulation;
  const double share = device > 0 ? std::min(1.0, point.memory_bound_seconds / device) : 0;
  Attribution parts{{"compute, bound by arithmetic", compute * (1 - share)},
                    {"compute, bound by memory", compute * share}};
  for (const PartKind kind : {PartKind::idle, PartKind::upkeep, PartKind::input}) {
    for (const StepPart& part : named_parts) {
      if (part.kind != kind) continue;
      const bool on_host = part.seconds == &StepSplit::optimizer &&
                           point.strategy->updater(point.job) == Updater::own_host;
      if (part.seconds == &StepSplit::exposed_communication) {
        add_exposed(p, part.phrase, parts);
        continue;
      }
      parts.emplace_back(on_host ? "optimizer on the CPU" : part.phrase, s.*part.seconds);
    }
  }
  return parts;
}

std::vector<Sensitivity> sensitivities(const Scenario& scenario, const Point& point,
                                       const std::vector<CostScale>& scales,
                                       const RunOptions& options) {
  const auto scale_here =
      scales.empty() ? std::vector<CostScale>{} : std::vector<CostScale>{scales[point.entry]};
  const Scenario base = only(scenario, point.entry, point.job.mesh.gpus());
  // The first point is unchanged; each change adds one more point. All are simulated in parallel.
  std::vector<Point> points = expand(base, scale_here);
  std::vector<std::string> names{"base"};
  for (const auto& change : changes(base)) {
    Scenario changed = base;
    if (change.scenario) change.scenario(changed);
    points.push_back(expand(changed, scale_here, change.machine).front());
    names.push_back(change.input);
  }
  const auto results = simulate(points, options);
  const auto per_sample = [&](std::size_t i) {
    return mean(results[i].step_seconds) / results[i].samples_per_step;
  };
  std::vector<Sensitivity> list;
  for (std::size_t i = 1; i < points.size(); ++i) {
    const double change = per_sample(i) / per_sample(0) - 1;
    if (std::abs(change) > 1e-6) list.push_back({names[i], change, fits(results[i].memory)});
  }
  std::stable_sort(list.begin(), list.end(), [](const Sensitivity& a, const Sensitivity& b) {
    return std::abs(a.step_change) > std::abs(b.step_change);
  });
  return list;
}

std::vector<DifferencePart> difference(const Prediction& from, const Point& from_point,
                                       const Prediction& to, const Point& to_point) {
  const Attribution a = attribute(from, from_point), b = attribute(to, to_point);
  // Factor that converts seconds of the step to GPU seconds per sample.
  const auto gpu_seconds_per_sample = [](const Prediction& p, const Attribution& parts) {
    double step = 0;
    for (const auto& [what, seconds] : parts) step += seconds;
    return p.gpus / (p.samples_per_second * step);
  };
  const double per_a = gpu_seconds_per_sample(from, a), per_b = gpu_seconds_per_sample(to, b);
  std::vector<DifferencePart> parts;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].second == 0 && b[i].second == 0) continue;
    parts.push_back({a[i].first, a[i].second * per_a, b[i].second * per_b});
  }
  return parts;
}

Attribution device_time_by_kind(const Point& point) {
  std::map<std::string, double> by_kind;
  for (std::size_t i = 0; i < point.job.step->layers.size(); ++i) {
    const LayerCost cost = point.job.costs->layer(*point.job.step, i);
    by_kind[point.job.step->layers[i].kind] += cost.forward.busy + cost.backward.busy;
  }
  Attribution list(by_kind.begin(), by_kind.end());
  std::stable_sort(list.begin(), list.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return list;
}

}  // namespace lockstep
