// Remarks about a scenario (declared in advice.hpp): options without effect, precisions that the
// device has no arithmetic units for, layers that the profile lacks. Every condition here mirrors
// the code that reads the option. Strategies report their own options.
// tests/questions/options_test.cpp tests all options.
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "points/faults.hpp"
#include "questions/advice.hpp"

namespace lockstep {

namespace {

// An option that has no effect in one point.
struct Idle : IdleOption {
  bool of_entry;  // an option of the strategy's entry, not of the scenario
};

// Whether the memory layout of images changes any cost, by the precision of compute. All points
// with the same precision share the answer.
using LayoutAnswers = std::map<Precision, bool>;

bool in_low_precision(const Layer& layer) {
  return std::any_of(layer.forward.begin(), layer.forward.end(), [](const Kernel& kernel) {
    return kernel.math == MathMode::fp8 || kernel.math == MathMode::fp4;
  });
}

// Finds the options of one point that are not at their defaults and change nothing. `job` is the
// point's job, including its training step.
class PointOptions {
 public:
  PointOptions(const Scenario& scenario, const Point& point, const Job& job, LayoutAnswers& layouts)
      : scenario_(scenario), point_(point), job_(job), step_(*job.step), layouts_(layouts) {}

  std::vector<Idle> idle() {
    const StrategyEntry& entry = scenario_.strategies[point_.entry];
    checkpointing();
    take(options_.take(), entry.activation_checkpointing || entry.recompute);
    model();
    optimizer();
    surroundings();
    take(options_.take(), false);
    take(point_.strategy->idle_options(job_), true);
    return std::move(list_);
  }

 private:
  // Adds options without effect. An option that only changes learning counts as used if the
  // scenario sets `convergence`.
  void take(const std::vector<IdleOption>& options, bool of_entry) {
    for (const IdleOption& option : options) {
      if (!option.learnt || !scenario_.convergence) list_.push_back({option, of_entry});
    }
  }
  bool on_cpu() const { return job_.machine.device.architecture == Architecture::cpu; }
  bool alone() const { return job_.mesh.gpus() == 1; }
  template <class Condition>
  bool any_layer(Condition condition) const {
    return std::any_of(step_.layers.begin(), step_.layers.end(), condition);
  }

  void checkpointing();
  void model();
  bool layout_matters() const;
  void optimizer();
  void surroundings();

  const Scenario& scenario_;
  const Point& point_;
  const Job& job_;
  const TrainingStep& step_;
  LayoutAnswers& layouts_;
  IdleOptions options_;
  std::vector<Idle> list_;
};

// Whether any cost of the step differs between the two layouts of images: expands the point with
// each layout, without anchors, and compares costs, workspaces and saved tensors layer by layer.
bool PointOptions::layout_matters() const {
  const auto convolves = [](const Layer& layer) { return layer.kind == "conv"; };
  if (on_cpu() && any_layer(convolves)) return true;  // oneDNN's workspaces differ
  Scenario scenario = scenario_;
  scenario.strategies = {scenario_.strategies[point_.entry]};
  scenario.gpus = {job_.mesh.gpus()};
  scenario.anchor.clear();
  const Job last = expand(scenario).front().job;
  scenario.memory_format = MemoryFormat::contiguous;
  const Job first = expand(scenario).front().job;
  for (std::size_t i = 0; i < last.step->layers.size(); ++i) {
    const Layer &a = last.step->layers[i], &b = first.step->layers[i];
    const LayerCost x = last.costs->layer(*last.step, i), y = first.costs->layer(*first.step, i);
    if (x.forward.busy != y.forward.busy || x.forward.host != y.forward.host ||
        x.backward.busy != y.backward.busy || x.backward.host != y.backward.host ||
        a.forward_workspace_bytes != b.forward_workspace_bytes ||
        a.backward_workspace_bytes != b.backward_workspace_bytes ||
        a.saved.size() != b.saved.size()) {
      return true;
    }
  }
  return false;
}

// Options `activation_checkpointing` and `recompute`.
void PointOptions::checkpointing() {
  const bool on = point_.step_options.activation_checkpointing;
  const Recompute what = point_.step_options.recompute;
  const bool some = any_layer([](const Layer& layer) { return layer.checkpointed; });
  options_.idle_if("activation_checkpointing", on, !some,
                   step_.model + (what == Recompute::attention ? " has no attention"
                                                               : " has no repeated blocks"));
  options_.idle_if("recompute", what != Recompute::blocks, !on, "activation_checkpointing is off");
  options_.idle_if("recompute", on && some && what == Recompute::operators,
                   !any_layer([](const Layer& layer) { return layer.keeps_output; }),
                   step_.model + " has neither fused attention nor matrix products in its blocks");
}

// Options about attention, compilation, CUDA graphs, low precision and memory format.
void PointOptions::model() {
  const bool attends = any_layer([](const Layer& layer) { return layer.is_attention; });
  const bool plain = scenario_.attention == AttentionKind::plain;
  const std::string no_attention = step_.model + " has no attention";
  options_.idle_if("attention", plain, !attends, no_attention);
  options_.idle_if("framework.flash_attention", scenario_.framework.flash_attention != 2,
                   !attends || plain, attends ? "attention is plain" : no_attention);
  const bool compiles = point_.step_options.compile != Compile::none;
  options_.idle_if("compile", compiles, !any_layer([](const Layer& l) { return l.compiled; }),
                   step_.model + " has no repeated blocks");
  options_.idle_if("fused_kernels", scenario_.fused_kernels, compiles, "torch.compile fuses them");
  options_.idle_if("cuda_graphs", point_.step_options.cuda_graphs, on_cpu(),
                   "ranks that compute on CPUs launch no kernels");
  const LowPrecision& low = point_.step_options.low_precision;
  options_.idle_if("low_precision", low.is_used(), !any_layer(in_low_precision),
                   step_.model + " has no linear layers of fitting sizes in its blocks");
  if (scenario_.memory_format == MemoryFormat::contiguous) return;
  const auto [layout, fresh] = layouts_.try_emplace(point_.step_options.precision, true);
  if (fresh) layout->second = layout_matters();
  options_.idle_if("memory_format", true, !layout->second,
                   step_.tokens > 0 ? step_.model + " reads no images"
                                    : fmt::format("in {} nothing of {} depends on it",
                                                  enum_name(point_.precision), step_.model));
}

// The optimizer's fields, and `framework.update_share`.
void PointOptions::optimizer() {
  const OptimizerSpec& o = scenario_.optimizer;
  const bool fused = o.implementation == OptimizerImplementation::fused;
  const bool takes_momentum = o.name == OptimizerKind::sgd || o.name == OptimizerKind::rmsprop;
  options_.idle_if(
      "optimizer.momentum", o.momentum != 0, !takes_momentum,
      o.name == OptimizerKind::muon ? "muon's is always 0.95" : enum_name(o.name) + " has none");
  options_.idle_if("optimizer.weight_decay", o.weight_decay != 0 && !scenario_.convergence, fused,
                   "the fused update applies it in the same pass");
  options_.idle_if("framework.update_share",
                   scenario_.framework.update_share != Framework{}.update_share,
                   o.implementation != OptimizerImplementation::for_loop,
                   "the optimizer does not loop over its tensors");
  options_.idle_if("optimizer.implementation", fused && !point_.profile, is_one_pass(o),
                   "plain SGD is one pass either way");
  options_.idle_if("optimizer.implementation",
                   o.implementation == OptimizerImplementation::for_loop,
                   point_.strategy->updater(job_) != Updater::device,
                   "the host's cores update the parameters, and there it costs as much as foreach");
}

// Options about price, network, data loading, stragglers, failures, the framework's controller and
// interference.
void PointOptions::surroundings() {
  const DatasetSpec& data = scenario_.dataset;
  options_.idle_if("price_per_gpu_hour", scenario_.price_per_gpu_hour.has_value(),
                   !data.says_length(), "`dataset` does not say how long the run is");
  options_.idle_if(
      "fabric", scenario_.fabric != FabricChange{},
      job_.mesh.gpus() <= job_.machine.gpus_per_node && point_.strategy->server_hosts() == 0,
      "the GPUs stand in one node");
  options_.idle_if("data_loading.on_device", scenario_.data_loading.on_device, on_cpu(),
                   "ranks that compute on CPUs copy nothing");
  options_.idle_if("stragglers.per_rank", scenario_.stragglers.per_rank_sigma.has_value(), alone(),
                   "one GPU waits for nobody");
  if (scenario_.faults) {
    const Faults& faults = *scenario_.faults;
    options_.idle_if("faults.mean_time_between_failures.server", faults.between.server.has_value(),
                     point_.strategy->server_hosts() == 0,
                     "no parameter server has a host of its own");
    options_.idle_if("faults.min_nodes", faults.min_nodes != 1,
                     !goes_on_with_fewer(faults, *point_.strategy),
                     "a job that restarts needs all of its nodes");
    const bool evicts = faults.degraded && faults.degraded->evict_after_seconds;
    options_.idle_if("faults.degraded.evict_after", evicts,
                     faults.spare_nodes == 0 && !goes_on_with_fewer(faults, *point_.strategy),
                     "no spare node takes the place of a slow one");
  }
  const Controller& controller = scenario_.framework.controller;
  const bool hosts = controller.dispatch == Dispatch::hosts;
  const bool apart = point_.strategy->servers() > 0;
  const std::string nobody = apart ? "workers of a parameter server are programs of their own"
                                   : "each host dispatches by itself";
  options_.idle_if("framework.controller.fixed",
                   controller.fixed_seconds != Controller{}.fixed_seconds, hosts || apart, nobody);
  options_.idle_if("framework.controller.per_host",
                   controller.seconds_per_host != Controller{}.seconds_per_host, hosts || apart,
                   nobody);
  options_.idle_if("framework.controller.dispatch", !hosts, apart, nobody);
  options_.idle_if("simulation.interference", !scenario_.simulation.interference, alone(),
                   "one GPU sends nothing");
}

// Notes GPU counts that use only part of a node, because clouds rent whole nodes and the price per
// GPU is a node's price divided by its GPUs.
void note_parts_of_nodes(const Scenario& scenario, const std::vector<Point>& points,
                         std::vector<std::string>& sentences) {
  const DatasetSpec& data = scenario.dataset;
  if (scenario.price_per_gpu_hour || !data.says_length()) return;
  std::vector<int> counts;
  int node = 1;
  for (const Point& point : points) {
    const Machine& machine = point.job.machine;
    node = machine.gpus_per_node;
    const bool whole = point.job.mesh.gpus() % node == 0;
    if (machine.price_per_gpu_hour == 0 || whole || point.entry != points.front().entry) continue;
    counts.push_back(point.job.mesh.gpus());
  }
  if (counts.empty()) return;
  sentences.push_back(
      fmt::format("the cost on {} GPU{} counts only the GPUs in use: nodes have {}, and clouds "
                  "mostly rent whole nodes",
                  fmt::join(counts, ", "), counts == std::vector{1} ? "" : "s", node));
}

// Notes a precision for which the device has no arithmetic units. PyTorch then ignores the switch
// for TF32 (so the note is not given for PyTorch's default, torch-fp32), and converts half
// precision to fp32 and back.
void note_missing_units(Precision precision, const Device& device,
                        std::vector<std::string>& sentences) {
  if (precision == Precision::tf32 && device.tf32_flops <= 0) {
    sentences.push_back(
        fmt::format("{}: {} has no TF32; PyTorch ignores the switch there, so these are the fp32 "
                    "kernels",
                    enum_name(precision), device.title));
  }
  const bool fp16 = math_mode(precision) == MathMode::fp16 && device.fp16_flops <= 0;
  const bool bf16 = math_mode(precision) == MathMode::bf16 && device.bf16_flops <= 0;
  if (fp16 || bf16) {
    sentences.push_back(
        fmt::format("{}: {} has no units for {}; PyTorch converts to fp32 and back there, which is "
                    "predicted at the rate of fp32 and really takes longer",
                    enum_name(precision), device.title, fp16 ? "fp16" : "bf16"));
  }
}

// Notes this for every precision and every device of the points.
void note_missing_units(const std::vector<Point>& points, std::vector<std::string>& sentences) {
  std::set<Precision> precisions_seen;
  for (const Point& point : points) precisions_seen.insert(point.precision);
  const Job& job = points.front().job;
  std::map<std::string, Device> devices{{job.machine.device.title, job.machine.device}};
  for (const auto& [name, device] : points.front().devices) {
    devices.emplace(device->title, *device);
  }
  for (const Precision precision : precisions_seen) {
    for (const auto& device : devices) note_missing_units(precision, device.second, sentences);
  }
}

}  // namespace

std::vector<std::string> remarks(const Scenario& scenario, const std::vector<Point>& points) {
  std::vector<std::string> sentences;
  if (points.empty()) return sentences;  // no point could be predicted
  if (scenario.profile.empty()) note_missing_units(points, sentences);
  // Steps that were already compared with the profile; of_entry counts the points of each entry.
  std::set<const TrainingStep*> steps_seen;
  // First remarks about the hardware and the profile, then about prices and meshes, then idle
  // options.
  std::vector<std::size_t> of_entry(scenario.strategies.size(), 0);
  for (const Point& point : points) {
    ++of_entry[point.entry];
    if (!point.profile || !steps_seen.insert(point.job.step.get()).second) continue;
    for (std::string& gap : profile_gaps(*point.profile, *point.job.step)) {
      const bool known = std::find(sentences.begin(), sentences.end(), gap) != sentences.end();
      if (!known) sentences.push_back(std::move(gap));
    }
  }
  note_parts_of_nodes(scenario, points, sentences);
  for (std::string& remark : mesh_remarks(points)) sentences.push_back(std::move(remark));
  // An option without effect: the number of points in which it has none, and the number at which it
  // is reported (all points of the entry or of the scenario).
  struct Occurrence {
    std::string name, verdict;
    std::size_t points, needed;
  };
  std::vector<Occurrence> seen;
  LayoutAnswers layouts;
  for (const Point& point : points) {
    for (Idle& idle : PointOptions(scenario, point, point.job, layouts).idle()) {
      const std::string name = idle.of_entry ? point.label + ": " + idle.option : idle.option;
      const auto found = std::find_if(seen.begin(), seen.end(), [&](const Occurrence& occurrence) {
        return occurrence.name == name;
      });
      if (found != seen.end()) {
        ++found->points;
      } else {
        seen.push_back({name, std::move(idle.verdict), 1,
                        idle.of_entry ? of_entry[point.entry] : points.size()});
      }
    }
  }
  // An option that has an effect in any point is not reported.
  for (const Occurrence& occurrence : seen) {
    if (occurrence.points >= occurrence.needed)
      sentences.push_back(occurrence.name + " " + occurrence.verdict);
  }
  return sentences;
}

}  // namespace lockstep
