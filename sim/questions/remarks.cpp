// See remarks.hpp. Which option does something is known to what reads it: every condition here has
// its counterpart there. tests/scenario/options_test.cpp tries all of them.
#include "questions/remarks.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "strategies/ddp/buckets.hpp"
#include "strategies/ddp/ddp.hpp"
#include "strategies/fsdp/units.hpp"

namespace lockstep {

namespace {

struct Idle {
  std::string option;
  std::string verdict;  // "has no effect: ..."
  bool of_entry;        // an option of the strategy's entry, not of the scenario
};

// Whether the layout of images matters, by the precision of compute.
using LayoutAnswers = std::map<Precision, bool>;

// The options of one point that are not at their defaults and do nothing there.
class IdleOptions {
 public:
  IdleOptions(const Scenario& scenario, const Point& point, LayoutAnswers& layouts)
      : scenario_(scenario),
        point_(point),
        job_(point.job),
        step_(*point.step),
        layouts_(layouts) {}

  std::vector<Idle> list() {
    model();
    optimizer();
    surroundings();
    of_entry_ = true;
    std::visit([this](const auto& options) { strategy(options); }, point_.options);
    return std::move(list_);
  }

 private:
  // `given`: it is not at its default.
  void idle_if(const char* option, bool given, bool idle, const std::string& reason) {
    if (given && idle) list_.push_back({option, "has no effect: " + reason, of_entry_});
  }
  // It moves some host time at most.
  void hardly_if(const char* option, bool given, const std::string& reason) {
    if (given) list_.push_back({option, "has next to no effect: " + reason, of_entry_});
  }

  bool on_cpu() const { return job_.machine.device.architecture == Architecture::cpu; }
  bool alone() const { return job_.gpus == 1; }
  template <class Condition>
  bool any_layer(Condition condition) const {
    return std::any_of(step_.layers.begin(), step_.layers.end(), condition);
  }

  void model();
  bool layout_matters() const;
  void optimizer();
  void surroundings();
  void strategy(const DdpOptions& options);
  void strategy(const FsdpOptions& options);
  void strategy(const ParameterServerOptions& options);

  const Scenario& scenario_;
  const Point& point_;
  const Job& job_;
  const TrainingStep& step_;
  LayoutAnswers& layouts_;
  bool of_entry_ = false;
  std::vector<Idle> list_;
};

// Whether the same step with its images the other way round costs something else.
bool IdleOptions::layout_matters() const {
  const auto convolves = [](const Layer& layer) { return layer.kind == "conv"; };
  if (on_cpu() && any_layer(convolves)) return true;  // oneDNN's workspaces
  StepOptions contiguous = point_.asked;
  contiguous.channels_last = false;
  TrainingStep other = build_step(*point_.model, contiguous);
  other.precision = step_.precision;
  for (std::size_t i = 0; i < step_.layers.size(); ++i) {
    const Layer &a = step_.layers[i], &b = other.layers[i];
    const LayerCost x = job_.costs->layer(step_, i), y = job_.costs->layer(other, i);
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

void IdleOptions::model() {
  const StrategyEntry& entry = scenario_.strategies[point_.entry];
  of_entry_ = entry.activation_checkpointing.has_value();
  idle_if("activation_checkpointing", point_.asked.activation_checkpointing,
          !any_layer([](const Layer& layer) { return layer.checkpointed; }),
          step_.model + " has no repeated blocks");
  of_entry_ = false;
  const bool attends = any_layer([](const Layer& layer) { return layer.kind == "attention"; });
  const bool plain = scenario_.attention == AttentionKind::plain;
  const std::string no_attention = step_.model + " has no attention";
  idle_if("attention", plain, !attends, no_attention);
  idle_if("framework.flash_attention", scenario_.framework.flash_attention != 2, !attends || plain,
          attends ? "attention is plain" : no_attention);
  if (scenario_.memory_format == MemoryFormat::contiguous) return;
  const auto [layout, fresh] = layouts_.try_emplace(point_.asked.precision, true);
  if (fresh) layout->second = layout_matters();
  idle_if("memory_format", true, !layout->second,
          step_.tokens > 0 ? step_.model + " reads no images"
                           : fmt::format("in {} nothing of {} depends on it",
                                         enum_name(point_.precision), step_.model));
}

void IdleOptions::optimizer() {
  const OptimizerSpec& o = scenario_.optimizer;
  const bool fused = o.implementation == OptimizerImplementation::fused;
  idle_if("optimizer.momentum", o.momentum != 0, o.name != OptimizerKind::sgd,
          enum_name(o.name) + " has none");
  idle_if("optimizer.weight_decay", o.weight_decay != 0, fused,
          "the fused update applies it in the same pass");
  const bool plain = o.name == OptimizerKind::sgd && o.momentum == 0 && o.weight_decay == 0;
  idle_if("optimizer.implementation", fused && !point_.profile, plain,
          "plain SGD is one pass either way");
  const auto* fsdp = std::get_if<FsdpOptions>(&point_.options);
  const auto* server = std::get_if<ParameterServerOptions>(&point_.options);
  const bool on_host = !on_cpu() && ((fsdp && fsdp->cpu_offload) ||
                                     (server && server->placement != ServerPlacement::gpu));
  idle_if("optimizer.implementation", o.implementation == OptimizerImplementation::for_loop,
          on_host, "the host's cores update the parameters, where it costs what foreach does");
}

void IdleOptions::surroundings() {
  const DatasetSpec& data = scenario_.dataset;
  idle_if("price_per_gpu_hour", scenario_.price_per_gpu_hour.has_value(),
          data.samples == 0 && data.tokens == 0, "`dataset` does not say how long the run is");
  idle_if("data_loading.on_device", scenario_.data_loading.on_device, on_cpu(),
          "ranks that compute on CPUs copy nothing");
  idle_if("stragglers.per_rank", scenario_.stragglers.per_rank_sigma.has_value(), alone(),
          "one GPU waits for nobody");
  idle_if("simulation.interference", !scenario_.simulation.interference, alone(),
          "one GPU sends nothing");
}

// The tensors of each bucket, of the first step and of the later ones.
std::vector<std::vector<int>> bucket_tensors(const TrainingStep& step, const DdpOptions& options) {
  const BucketPlan plan =
      plan_buckets(gradient_tensors(step, ddp_gradient_bytes(options, step.precision)), options);
  std::vector<std::vector<int>> tensors;
  for (const auto* buckets : {&plan.first, &plan.later}) {
    for (const Bucket& bucket : *buckets) tensors.push_back(bucket.tensors);
  }
  return tensors;
}

void IdleOptions::strategy(const DdpOptions& o) {
  const DdpOptions usual;
  const std::string nothing = "one GPU reduces nothing";
  const bool one_buffer = scenario_.framework.name == FrameworkKind::megatron && !o.overlap;
  const std::string megatron = "without overlap Megatron keeps all gradients in one buffer";
  const auto idle_size = [&](const char* option, double DdpOptions::*size) {
    if (o.*size == usual.*size) return;
    DdpOptions other = o;
    other.*size = usual.*size;
    const bool same = bucket_tensors(step_, o) == bucket_tensors(step_, other);
    idle_if(option, true, alone() || one_buffer || same,
            alone()      ? nothing
            : one_buffer ? megatron
                         : "the gradients fall into the same buckets");
  };
  idle_size("bucket_size", &DdpOptions::bucket_bytes);
  idle_size("first_bucket_size", &DdpOptions::first_bucket_bytes);
  idle_if("gradient_as_bucket_view", o.gradient_as_bucket_view, alone() || one_buffer,
          alone() ? nothing : megatron);
  idle_if("comm_hook", o.comm_hook != CommHook::none, alone(), nothing);
  idle_if("overlap", !o.overlap, alone(), nothing);
  idle_if("gradient_element_size", o.gradient_bytes != 0, alone() && job_.accumulation == 1,
          nothing);
  const bool buffers = any_layer([](const Layer& layer) { return layer.buffers > 0; });
  idle_if("broadcast_buffers", !o.broadcast_buffers, alone() || !buffers,
          buffers ? "one GPU broadcasts nothing" : step_.model + " has no buffers");
  idle_if("find_unused_parameters", o.find_unused_parameters, alone() || o.static_graph,
          alone() ? nothing : "with static_graph nothing is searched");
  idle_if("static_graph", o.static_graph, alone() || !o.find_unused_parameters,
          alone() ? nothing : "it only spares the search of find_unused_parameters");
  idle_if("power_sgd_rank", o.power_sgd_rank != usual.power_sgd_rank,
          alone() || o.comm_hook != CommHook::power_sgd,
          o.comm_hook == CommHook::power_sgd ? nothing : "comm_hook is not powersgd");
}

void IdleOptions::strategy(const FsdpOptions& o) {
  const FsdpOptions usual;
  const bool hybrid =
      o.sharding == Sharding::hybrid_shard || o.sharding == Sharding::hybrid_shard_zero2;
  const int group = o.shard_group > 0 ? o.shard_group : job_.machine.gpus_per_node;
  idle_if("sharding", o.sharding != usual.sharding, alone(), "one GPU shards nothing");
  idle_if("sharding", o.sharding == Sharding::hybrid_shard, !alone() && group >= job_.gpus,
          "one group holds all GPUs");
  idle_if("shard_group", o.shard_group != 0, !hybrid,
          "only hybrid_shard and hybrid_shard_zero2 have groups");
  const bool blocks = any_layer([](const Layer& layer) { return !layer.block.empty(); });
  idle_if("wrap.min_parameters", o.wrap.min_parameters != 0,
          o.wrap.policy == WrapPolicy::none || (o.wrap.policy == WrapPolicy::block && blocks),
          o.wrap.policy == WrapPolicy::none ? "the whole model is one unit"
                                            : "the units are the model's repeated blocks");
  idle_if("sync_every_micro_batch", !o.sync_every_micro_batch, job_.accumulation == 1,
          "the step has one micro-batch");
  const bool two = o.version == 2;
  idle_if("use_orig_params", o.use_orig_params, two, "version 2 has no flat parameters");
  const bool backward = o.backward_prefetch != usual.backward_prefetch;
  if (two) {
    const std::string reason = "version 2 always works its own way";
    idle_if("backward_prefetch", backward, true, reason);
    idle_if("forward_prefetch", o.forward_prefetch, true, reason);
    idle_if("limit_all_gathers", !o.limit_all_gathers, true, reason);
    return;
  }
  const bool keeps =
      o.sharding == Sharding::shard_grad_op || o.sharding == Sharding::hybrid_shard_zero2;
  if (!backward && !o.forward_prefetch && o.limit_all_gathers && !keeps) return;
  const std::vector<FsdpUnit> units = make_units(step_, o.wrap);
  const bool one = units.size() == 1;
  const bool one_group = !hybrid || group >= job_.gpus;
  idle_if("sharding", keeps, !alone() && one_group && one && units.front().root,
          "the whole model is one unit, which stays gathered anyway");
  const std::string nothing = alone()                            ? "one GPU gathers nothing"
                              : o.sharding == Sharding::no_shard ? "no_shard gathers nothing"
                              : one                              ? "the model is one unit"
                                                                 : "";
  const std::string in_backward =
      nothing.empty() && keeps ? enum_name(o.sharding) + " gathers nothing in backward" : nothing;
  hardly_if("backward_prefetch", backward && !in_backward.empty(), in_backward);
  hardly_if("forward_prefetch", o.forward_prefetch && !nothing.empty(), nothing);
  hardly_if("limit_all_gathers", !o.limit_all_gathers && !in_backward.empty(), in_backward);
}

void IdleOptions::strategy(const ParameterServerOptions& o) {
  const ParameterServerOptions usual;
  const bool on_gpu = o.placement == ServerPlacement::gpu;
  idle_if("staleness_bound", o.staleness_bound != usual.staleness_bound,
          o.consistency != Consistency::ssp, "consistency is not ssp");
  idle_if("keys", o.keys != usual.keys, o.servers == 1, "there is one server");
  // Servers on GPUs need memory for what is under way, which both decide.
  idle_if("consistency", o.consistency != usual.consistency, alone() && !(on_gpu && o.serial),
          "one worker waits for nobody");
  idle_if("serial", o.serial, alone() && !on_gpu, "one worker meets nobody at the server");
  idle_if("placement", o.placement == ServerPlacement::worker_host,
          o.servers == 1 || job_.gpus <= job_.machine.gpus_per_node,
          "all servers are on the first node's host, as with cpu");
}

// Prices are of nodes, divided by their GPUs.
void note_parts_of_nodes(const Scenario& scenario, const std::vector<Point>& points,
                         std::vector<std::string>& sentences) {
  const DatasetSpec& data = scenario.dataset;
  if (scenario.price_per_gpu_hour || (data.samples == 0 && data.tokens == 0)) return;
  std::vector<int> counts;
  int node = 1;
  for (const Point& point : points) {
    const Machine& machine = point.job.machine;
    node = machine.gpus_per_node;
    const bool whole = point.job.gpus % node == 0;
    if (machine.price_per_gpu_hour == 0 || whole || point.entry != points.front().entry) continue;
    counts.push_back(point.job.gpus);
  }
  if (counts.empty()) return;
  sentences.push_back(fmt::format(
      "the cost on {} GPU{} is of the GPUs in use: nodes have {}, and are mostly rented "
      "whole",
      fmt::join(counts, ", "), counts == std::vector{1} ? "" : "s", node));
}

}  // namespace

std::vector<std::string> remarks(const Scenario& scenario, const std::vector<Point>& points) {
  std::vector<std::string> sentences;
  std::set<const TrainingStep*> asked;  // of the profile
  std::vector<std::size_t> of_entry(scenario.strategies.size(), 0);
  for (const Point& point : points) {
    ++of_entry[point.entry];
    if (!point.profile || !asked.insert(point.step.get()).second) continue;
    for (std::string& gap : profile_gaps(*point.profile, *point.step)) {
      const bool known = std::find(sentences.begin(), sentences.end(), gap) != sentences.end();
      if (!known) sentences.push_back(std::move(gap));
    }
  }
  note_parts_of_nodes(scenario, points, sentences);
  struct Seen {
    std::string name, verdict;
    std::size_t points, needed;
  };
  std::vector<Seen> seen;
  LayoutAnswers layouts;
  for (const Point& point : points) {
    for (Idle& idle : IdleOptions(scenario, point, layouts).list()) {
      const std::string name = idle.of_entry ? point.label + ": " + idle.option : idle.option;
      const auto found =
          std::find_if(seen.begin(), seen.end(), [&](const Seen& one) { return one.name == name; });
      if (found != seen.end()) {
        ++found->points;
      } else {
        seen.push_back({name, std::move(idle.verdict), 1,
                        idle.of_entry ? of_entry[point.entry] : points.size()});
      }
    }
  }
  for (const Seen& one : seen) {
    if (one.points >= one.needed) sentences.push_back(one.name + " " + one.verdict);
  }
  return sentences;
}

}  // namespace lockstep
