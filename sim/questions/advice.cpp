// Finds changes that make a job faster, by trial: applies each change to the scenario or the
// machine and simulates a few steps with the loop executor (engine/executor.hpp). The bottleneck
// only determines the order of the trials.
#include "questions/advice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "core/statistics.hpp"
#include "points/bottleneck.hpp"
#include "points/fork_map.hpp"
#include "points/measured.hpp"
#include "questions/resources.hpp"

namespace lockstep {

namespace {

constexpr std::size_t most_advised = 64;  // points of a run that can get advice
constexpr std::size_t most_told = 3;      // changes in one sentence
constexpr int most_trial_steps = 20;      // simulated steps of a trial

// Whether a trial takes about a second at most. The estimate counts the micro-batches that all
// ranks simulate and the collectives inside layers. The limit is lower with a parameter server,
// whose workers send messages one by one, which costs far more.
bool is_soon_tried(const Point& point, const Prediction& p) {
  const double most = point.strategy->servers() > 0 ? 200 : 50'000;
  const double steps = std::min(p.simulated_steps, most_trial_steps);
  const double micro_batches = steps * p.simulated_micro_batches;
  // Every exchange inside a layer is a collective of its own.
  double exchanges = 0;
  for (const Layer& layer : point.job.step->layers) {
    exchanges +=
        static_cast<double>(layer.forward_exchanges.size() + layer.backward_exchanges.size());
  }
  return micro_batches * p.gpus <= most && micro_batches * exchanges <= most;
}

// A change that may help: its name in the sentence, the bottlenecks that suggest it, and functions
// that apply it to the scenario or the machine.
struct Remedy {
  std::string words;
  std::vector<Limit> suggested_by;
  std::function<void(Scenario&)> scenario{};
  MachineEdit machine{};
};

// Adds better hardware: each resource that users can buy or set and whose link, if any, carries
// traffic.
void add_resources(const Prediction& p, const Device& device, std::vector<Remedy>& list) {
  const bool cpu = device.architecture == Architecture::cpu;
  for (const Resource& resource : resources) {
    const std::string_view words = resource.words, link = resource.link;
    const bool used =
        link.empty() || std::any_of(p.traffic.begin(), p.traffic.end(),
                                    [&](const auto& t) { return t.link_class == link; });
    if (words.empty() || !used) continue;
    const double factor = resource.rate ? more_of_a_resource : 1 / more_of_a_resource;
    list.push_back(
        {cpu && words == "a faster GPU" ? "a faster CPU" : std::string(words),
         {resource.limit},
         {},
         [scale = resource.scale, factor](Machine& m, Framework& f) { scale(m, f, factor); }});
  }
}

// A precision in which the device computes faster than in the present one. Nothing if there is a
// profile, because it has only times of the present precision.
std::optional<Precision> lower_precision(const Point& point) {
  const Device& device = point.job.machine.device;
  if (point.profile) return std::nullopt;
  const double now = peak_flops(device, math_mode(point.precision));
  const double fp16 = peak_flops(device, MathMode::fp16);
  const double bf16 = peak_flops(device, MathMode::bf16);
  if (std::max(fp16, bf16) > now) return bf16 < fp16 ? Precision::amp_fp16 : Precision::amp_bf16;
  if (peak_flops(device, MathMode::tf32) > now) return Precision::tf32;
  return std::nullopt;
}

// Whether channels_last may help: the model has convolutions in TF32 or half precision, and there
// is no profile.
bool can_take_channels_last(const Scenario& scenario, const Point& point) {
  if (scenario.memory_format == MemoryFormat::channels_last || point.profile ||
      math_mode(point.precision) == MathMode::fp32) {
    return false;
  }
  const auto convolves = [](const Kernel& kernel) {
    return kernel.kind == KernelKind::convolution;
  };
  return std::any_of(point.job.step->layers.begin(), point.job.step->layers.end(),
                     [&](const Layer& layer) {
                       return std::any_of(layer.forward.begin(), layer.forward.end(), convolves);
                     });
}

// Whether PyTorch has a fused implementation of this optimizer that the scenario does not use yet.
bool can_fuse(const OptimizerSpec& optimizer) {
  return optimizer.implementation != OptimizerImplementation::fused && !is_one_pass(optimizer) &&
         optimizer.name != OptimizerKind::muon;
}

// Adds torch.compile, CUDA graphs and fp8. Adds nothing on CPUs, or if there is a profile, because
// it has no times with these changes.
void add_fast_path(const Point& point, std::vector<Remedy>& list) {
  const Device& device = point.job.machine.device;
  if (point.profile || device.architecture == Architecture::cpu) return;
  const StepOptions& now = point.step_options;
  if (now.compile == Compile::none) {
    list.push_back({"torch.compile", {Limit::compute, Limit::host}, [](Scenario& s) {
                      s.strategies.front().compile = Compile::whole;
                    }});
  }
  if (!now.cuda_graphs) {
    list.push_back({"CUDA graphs", {Limit::host}, [](Scenario& s) {
                      s.strategies.front().cuda_graphs = true;
                    }});
  }
  if (!now.low_precision.is_used() && device.fp8_flops > 0) {
    list.push_back({"products in fp8 (other numerics)", {Limit::compute}, [](Scenario& s) {
                      s.strategies.front().low_precision =
                          LowPrecision{LowPrecisionRecipe::fp8_current, false};
                    }});
  }
}

// Doubles whichever of the batch's fields the scenario gives; fields that are 0 stay 0.
void double_batch(Scenario& s) {
  for (std::int64_t* samples : {&s.batch.global, &s.batch.per_gpu, &s.batch.micro}) *samples *= 2;
}

// All changes that are possible for the point.
// REQUIRES: `scenario` has only the strategy entry of the point.
std::vector<Remedy> remedies_of(const Scenario& scenario, const Point& point, const Prediction& p) {
  std::vector<Remedy> list;
  const Job& job = point.job;
  add_resources(p, job.machine.device, list);
  if (const auto lower = lower_precision(point)) {
    list.push_back({fmt::format("a lower precision ({})", enum_name(*lower)),
                    {Limit::compute},
                    [lower](Scenario& s) { s.strategies.front().precision = *lower; }});
  }
  if (can_take_channels_last(scenario, point)) {
    list.push_back({"channels_last", {Limit::compute}, [](Scenario& s) {
                      s.memory_format = MemoryFormat::channels_last;
                    }});
  }
  add_fast_path(point, list);
  list.push_back({"a larger batch per GPU",
                  {Limit::communication, Limit::host, Limit::update, Limit::host_update},
                  double_batch});
  // This change doubles the number of micro-batches of the same size, so memory stays the same.
  list.push_back({"gradient accumulation",
                  {Limit::communication, Limit::update, Limit::host_update},
                  [&point](Scenario& s) {
                    s.batch = {};
                    s.batch.micro = point.micro_batch;
                    s.batch.accumulation = 2 * point.job.accumulation;
                  }});
  if (can_fuse(scenario.optimizer)) {
    list.push_back({"a fused optimizer", {Limit::update, Limit::host_update}, [](Scenario& s) {
                      s.optimizer.implementation = OptimizerImplementation::fused;
                    }});
  }
  if (point.strategy->updater(job) == Updater::own_host) {
    list.push_back({"keeping the optimizer's state on the GPUs",
                    {Limit::host_update, Limit::communication},
                    [](Scenario& s) {
                      StrategyOptions& options = s.strategies.front().options;
                      if (auto* fsdp = std::get_if<FsdpOptions>(&options))
                        fsdp->cpu_offload = false;
                      if (auto* zero = std::get_if<ZeroOptions>(&options)) zero->offload = {};
                    }});
  }
  if (job.data_loading_seconds > 0) {
    list.push_back({"more loader workers or cheaper preprocessing",
                    {Limit::loader},
                    [](Scenario& s) { s.data_loading.samples_per_second *= more_of_a_resource; }});
  }
  if (!job.input_on_device) {
    list.push_back({"preparing the batches on the device", {Limit::input_copy}, [](Scenario& s) {
                      s.data_loading.on_device = true;
                    }});
  }
  list.push_back({"ranks of equal speed", {Limit::waiting}, [](Scenario& s) {
                    s.stragglers.per_rank_sigma = 0;
                    s.stragglers.per_step.reset();
                    s.stragglers.slow_periods.reset();
                    s.stragglers.slow_ranks.clear();
                    s.stragglers.other_devices.clear();
                  }});
  return list;
}

// Simulates changes of one point and compares GPU time per sample. Caches files and computed costs
// between the trials.
class Trials {
 public:
  Trials(const Scenario& scenario, const Point& point, const StrategyResult& result,
         const std::vector<CostScale>& scales)
      : base_(only(scenario, point.entry, point.job.mesh.gpus())), inputs_(files_.of(base_)) {
    if (!scales.empty()) scales_ = {scales[point.entry]};
    // The point's own result can serve as the base only if a trial would use the same seed,
    // executor and number of steps.
    const bool same = result.engine == Engine::loop && result.step_of_seed.empty() &&
                      (result.extrapolated || result.simulated_steps <= most_trial_steps);
    now_ = same ? mean(result.step_seconds) / result.samples_per_step
                : seconds_per_sample(expand(base_, inputs_, workloads_, scales_).front());
  }

  // Share of the time per sample that the change saves. 0 if the changed job is refused, or saves
  // enough but does not fit into memory.
  double gain(const Remedy& change) {
    try {
      Scenario changed = base_;
      if (change.scenario) change.scenario(changed);
      const Point point = expand(changed, inputs_, workloads_, scales_, change.machine).front();
      const double gain = 1 - seconds_per_sample(point) / now_;
      return gain < least_gain || fits(point.strategy->memory(point.job)) ? gain : 0;
    } catch (const ConfigError&) {
      return 0;
    }
  }

 private:
  // Simulates a few steps of the point.
  static double seconds_per_sample(const Point& point) {
    Job job = point.job;
    job.simulation.engine = Engine::loop;  // SimGrid allows one simulation per process
    job.simulation.steps = std::min(job.simulation.steps, most_trial_steps);
    job.simulation.schedule_file.clear();
    const StrategyResult result = point.strategy->simulate(job);
    return mean(result.step_seconds) / result.samples_per_step;
  }

  Scenario base_;
  InputFiles files_;
  Inputs inputs_;
  Workloads workloads_;
  std::vector<CostScale> scales_;
  double now_;
};

// Returns the end of the sentence, with the best changes in order of their gain. Tries the changes
// that the bottleneck suggests, and all other changes only if none of the former helps.
std::string advice_for(Trials& trials, const std::vector<Remedy>& changes, Limit limit) {
  for (const bool suggested : {true, false}) {
    std::vector<std::pair<double, std::string>> helping;
    for (const Remedy& change : changes) {
      const auto& by = change.suggested_by;
      if ((std::find(by.begin(), by.end(), limit) != by.end()) != suggested) continue;
      const double gain = trials.gain(change);
      if (gain >= least_gain) helping.emplace_back(gain, change.words);
    }
    if (helping.empty()) continue;
    std::stable_sort(helping.begin(), helping.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    helping.resize(std::min(helping.size(), most_told));
    std::string text;
    for (std::size_t i = 0; i < helping.size(); ++i) {
      if (i > 0) text += i + 1 < helping.size() ? ", " : " or ";
      text += helping[i].second;
    }
    return text + " would help";
  }
  return fmt::format("no change that was tried saves {:.0f} %", 100 * least_gain);
}

}  // namespace

void advise(const Scenario& scenario, const std::vector<CostScale>& scales, Predicted& predicted,
            const RunOptions& options) {
  // Select the points that get advice; each is tried in a child process.
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < std::min(predicted.points.size(), most_advised); ++i) {
    const Prediction& p = predicted.predictions[i];
    if (!p.out_of_memory && is_soon_tried(predicted.points[i], p)) places.push_back(i);
  }
  const auto work = [&](std::size_t i, const Report&) -> PoolAnswer {
    const Point& point = predicted.points[places[i]];
    const Prediction& p = predicted.predictions[places[i]];
    Trials trials(scenario, point, predicted.results[places[i]], scales);
    return advice_for(trials,
                      remedies_of(only(scenario, point.entry, point.job.mesh.gpus()), point, p),
                      bottleneck_of(p, point).limit);
  };
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const ForkOptions fork{.workers = options.workers > 0 ? options.workers : cores};
  const auto found = fork_map(places.size(), fork, work);
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (found[i].ok) predicted.predictions[places[i]].bottleneck += "; " + found[i].output;
  }
}

}  // namespace lockstep
