// Makes a profile from a PyTorch profiler trace: finds the steps, matches each with the model's
// layers, and takes the median of each time over the steps. Device times are the kernels'
// durations. Host times are upper bounds, because the profiler slows the host.
#include "imports/import_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <numeric>
#include <optional>

#include "core/statistics.hpp"
#include "imports/profile_folder.hpp"

namespace lockstep {
namespace {

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// Sum of the operators' seconds.
double sum(const std::vector<TracedOp>& ops) {
  return std::accumulate(ops.begin(), ops.end(), 0.0,
                         [](double all, const TracedOp& op) { return all + op.seconds; });
}

// Number of operators that the host issues for these kernels.
int operators(const std::vector<Kernel>& kernels) {
  int count = 0;
  for (const Kernel& kernel : kernels) count += kernel.operators;
  return count;
}

// Appends host seconds per operator, one value for each visit of a layer. On a GPU the host runs
// ahead, so the value is the time from this layer's first operator to the next layer's first
// operator, divided by the operators that the model counts in the layer. On a CPU the operators'
// durations are the layers' times, so the value is the gap between the two layers.
void host_times(const std::vector<LayerTimes::Visit>& visits, const TrainingStep& step,
                std::vector<Kernel> Layer::*kernels, bool on_gpu, std::vector<double>& times) {
  for (std::size_t i = 0; i + 1 < visits.size(); ++i) {
    const int count = on_gpu ? operators(step.layers[visits[i].layer].*kernels) : 1;
    const double from = on_gpu ? visits[i].start : visits[i].end;
    if (count > 0) times.push_back(std::max(0.0, visits[i + 1].start - from) * 1e-6 / count);
  }
}

// Recognises the optimizer by the profiler's name of the step function ("Optimizer.step#SGD.step")
// and by the operators in it: `_fused_` and `_foreach_` in their names show the implementation,
// `mul_` shows momentum of SGD. Returns nothing, and adds a note, for optimizers that a profile
// cannot represent.
std::optional<ProfileOptimizer> optimizer_of(const TracedStep& traced, const TrainingStep& step,
                                             std::vector<std::string>& notes) {
  if (traced.optimizer_event == nullptr) {
    notes.push_back("no Optimizer.step in the steps: the profile has no optimizer time");
    return std::nullopt;
  }
  const std::string& event = traced.optimizer_event->name;
  // 15 is the length of "Optimizer.step#"; the class name ends at the dot.
  const std::string name = event.substr(15, event.find('.', 15) - 15);
  ProfileOptimizer optimizer;
  optimizer.precision = step.precision;
  if (name == "SGD")
    optimizer.name = OptimizerKind::sgd;
  else if (name == "Adam")
    optimizer.name = OptimizerKind::adam;
  else if (name == "AdamW")
    optimizer.name = OptimizerKind::adamw;
  else if (name == "Muon") {
    notes.push_back("Muon updates the matrices, another optimizer the rest: left out");
    return std::nullopt;
  } else {
    notes.push_back(fmt::format("{} is no optimizer the simulator knows: left out", name));
    return std::nullopt;
  }
  const auto runs = [&](const char* part) {
    return std::any_of(traced.optimizer.begin(), traced.optimizer.end(), [&](const TracedOp& op) {
      return op.event->name.find(part) != std::string::npos;
    });
  };
  optimizer.implementation = runs("_fused_")     ? OptimizerImplementation::fused
                             : runs("_foreach_") ? OptimizerImplementation::foreach
                                                 : OptimizerImplementation::for_loop;
  if (name == "SGD" && optimizer.implementation == OptimizerImplementation::fused) {
    notes.push_back("fused SGD does not show whether it keeps momentum: left out");
    return std::nullopt;
  }
  optimizer.momentum = name == "SGD" && runs("mul_");
  optimizer.elements = static_cast<double>(step.parameter_count);
  optimizer.tensors = 0;
  for (const Layer& layer : step.layers)
    for (const Parameter& parameter : layer.parameters) optimizer.tensors += parameter.trainable;
  return optimizer;
}

// The date of the first event; "" if it is not plausible. In traces before PyTorch 2.2, which have
// no baseTimeNanoseconds, `ts` counts from 1970.
std::string date_of(const Trace& trace) {
  const double seconds = trace.base_nanoseconds * 1e-9 +
                         (trace.events.empty() ? 0 : trace.events.front().start * 1e-6);
  const auto time = static_cast<std::time_t>(seconds);
  std::tm day{};
  char text[16] = "";
  if (seconds > 1e9 && gmtime_r(&time, &day) != nullptr)
    std::strftime(text, sizeof text, "%Y-%m-%d", &day);
  return text;
}

// Seconds of each layer and sums over layers, with one value for each step.
struct Samples {
  std::vector<std::vector<double>> forward, backward;
  // `share`: the part of the time that belongs to layers and optimizer, 0 to 1.
  std::vector<double> step, forward_sum, backward_sum, optimizer, share;
  std::vector<double> host_forward, host_backward;

  explicit Samples(std::size_t layers) : forward(layers), backward(layers) {}

  void add(const TracedStep& traced, const LayerTimes& times, const TrainingStep& model,
           bool on_gpu) {
    for (std::size_t i = 0; i < forward.size(); ++i) {
      forward[i].push_back(times.forward[i]);
      backward[i].push_back(times.backward[i]);
    }
    step.push_back(traced.seconds());
    forward_sum.push_back(sum(times.forward));
    backward_sum.push_back(sum(times.backward));
    // In a trace without kernels, the whole Optimizer.step counts, including its Python code.
    const double update = on_gpu ? sum(traced.optimizer)
                          : traced.optimizer_event != nullptr
                              ? traced.optimizer_event->duration * 1e-6
                              : 0;
    optimizer.push_back(update);
    const double known = forward_sum.back() + backward_sum.back() + update;
    // The denominator of `share`: the busy time of the GPU, or the whole step on a CPU.
    const double all = on_gpu ? known + times.outside + traced.other : traced.seconds();
    share.push_back(all > 0 ? known / all : 0);
    host_times(times.forward_visits, model, &Layer::forward, on_gpu, host_forward);
    host_times(times.backward_visits, model, &Layer::backward, on_gpu, host_backward);
  }

  // The number of steps, and the median over layers of (90th percentile - median) / median.
  ProfileNoise noise() const {
    std::vector<double> spreads;
    for (const auto* side : {&forward, &backward})
      for (const auto& times : *side)
        if (const double middle = median(times); middle > 0)
          spreads.push_back((quantile(times, 0.9) - middle) / middle);
    return {static_cast<int>(step.size()), median(spreads)};
  }
};

// The first five names, and the number of further ones.
std::string joined(const std::vector<std::string>& names) {
  const std::size_t shown = std::min<std::size_t>(names.size(), 5);
  return fmt::format(
      "{}{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
      names.size() > shown ? fmt::format(" and {} more", names.size() - shown) : "");
}

// Throws ConfigError if too little of the time belongs to layers and optimizer.
void check_attributed(const TraceImport& result, const std::string& path) {
  if (result.attributed >= least_attributed) return;
  throw file_error(
      path, "",
      fmt::format(
          "only {:.1f} % of {} belongs to layers and optimizer, at least {:.0f} % are needed",
          100 * result.attributed, result.on_gpu ? "the GPU's busy time" : "the step",
          100 * least_attributed),
      result.on_gpu ? "the steps do something the model does not describe"
                    : "the steps are mostly Python and the profiler: a larger batch");
}

// Adds notes for the user. `times` is that of the last step, because every step matches the same
// layers.
void add_notes(TraceImport& result, const TracedSteps& traced, const LayerTimes& times) {
  if (!times.silent.empty())
    result.notes.push_back("no operator of their own, 0 s: " + joined(times.silent));
  if (!times.checks_batch)
    result.notes.push_back(times.has_shapes ? "batch not checked: no shape in the trace tells it"
                                            : "batch not checked: the trace has no shapes");
  if (std::any_of(traced.steps.begin(), traced.steps.end(),
                  [](const TracedStep& step) { return step.communication > 0; }))
    result.notes.push_back(
        "NCCL's kernels were left out; overlap with them may have slowed others");
  if (traced.recorded > result.steps) result.notes.push_back("the first step was left out");
}

// The median times of the layers, as the profile's entry for this model, precision and batch.
ProfileModel model_of(const Samples& samples, const TrainingStep& step, bool forward_only) {
  ProfileBatch batch;
  batch.samples = step.samples;
  for (std::size_t i = 0; i < step.layers.size(); ++i) {
    ProfileLayer& layer = batch.layers.emplace_back();
    layer.name = step.layers[i].name;
    layer.forward_seconds = median(samples.forward[i]);
    if (!forward_only) layer.backward_seconds = median(samples.backward[i]);
  }
  return {
      step.model, step.precision, step.input_bytes / static_cast<double>(step.samples), {batch}};
}

}  // namespace

TraceImport import_trace(const std::string& path, const TrainingStep& step,
                         const TraceParts& parts) {
  const Trace trace = read_trace(path);
  const TracedSteps traced = find_steps(trace, parts);
  Samples samples(step.layers.size());
  LayerTimes times;
  for (const TracedStep& traced_step : traced.steps) {
    times = match_layers(traced_step, step, path);
    samples.add(traced_step, times, step, traced.on_gpu);
  }
  TraceImport result;
  result.on_gpu = traced.on_gpu;
  result.steps = static_cast<int>(traced.steps.size());
  result.step_seconds = median(samples.step);
  result.forward_seconds = median(samples.forward_sum);
  result.backward_seconds = median(samples.backward_sum);
  result.optimizer_seconds = median(samples.optimizer);
  result.attributed = median(samples.share);
  check_attributed(result, path);
  add_notes(result, traced, times);

  Profile& profile = result.profile;
  profile.device = trace.device;
  profile.date = date_of(trace);
  profile.noise = samples.noise();
  profile.host = {median(samples.host_forward), median(samples.host_backward),
                  traced.launch_seconds};
  set_setting(profile, "source", "PyTorch profiler trace, which slows the host");
  profile.models.push_back(model_of(samples, step, parts.forward_only));
  if (parts.forward_only) {
    result.notes.push_back("a forward pass alone: backward and optimizer stay modelled");
  } else if (auto optimizer = optimizer_of(traced.steps.back(), step, result.notes)) {
    optimizer->seconds = result.optimizer_seconds;
    profile.optimizers.push_back(*optimizer);
  }
  return result;
}

}  // namespace lockstep
