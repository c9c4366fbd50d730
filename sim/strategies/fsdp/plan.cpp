// Numbers in brackets: facts of docs/strategies.md.
#include "strategies/fsdp/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lockstep {

namespace {

// Host time of FSDP's Python around a unit, in dispatches of one backward operator on the host they
// were derived for, so that it follows the speed of the machine. Modelled defaults:
// - a hook (pre/post forward, pre/post backward): 200 us. With a profiler attached, which about
//   doubles Python's cost, one trace shows 454 us for the post-forward hook and 1.04 ms for all of
//   the post-backward one (pytorch issue 102434), another 1.04 ms for pre-backward (pytorch PR
//   98250).
// - views of one parameter: with use_orig_params also 6.8 us for the sharded one and 2.7 us to look
//   for writes (400 parameters, pytorch PR 96958).
// - FSDP2 registers, swaps and views one DTensor per parameter: 20 us. One report has 1 ms for a
//   pre-forward hook (pytorch issue 173680).
constexpr double dispatches_per_second = 1 / host_dispatch;
constexpr double hook_dispatches = 200e-6 * dispatches_per_second;
constexpr double sharded_view_dispatches = 6.8e-6 * dispatches_per_second;
constexpr double writeback_dispatches = 2.7e-6 * dispatches_per_second;
constexpr double fsdp2_parameter_dispatches = 20e-6 * dispatches_per_second;

// Bytes to which use_orig_params aligns every parameter inside the flat one [27].
constexpr int alignment = 16;

bool is_hybrid(Sharding sharding) {
  return sharding == Sharding::hybrid_shard || sharding == Sharding::hybrid_shard_zero2;
}

// FSDP1 divides before and after the reduction, each by about the square root of the ranks [39]:
// the first power of two that divides the ranks and reaches their root.
int pre_division(int ranks) {
  int factor = 1;
  while (ranks % factor == 0 && ranks / factor > factor) factor *= 2;
  return factor;
}

[[noreturn]] void refuse(const std::string& message) {
  Diagnostic diagnostic;
  diagnostic.field = "fsdp.shard_group";
  diagnostic.message = message;
  throw ConfigError(diagnostic);
}

void choose_groups(const Job& job, FsdpLayout& layout) {
  FsdpOptions& options = layout.options;
  const int node = job.machine.gpus_per_node;
  layout.shard_ranks = options.sharding == Sharding::no_shard ? 1 : job.gpus;
  if (is_hybrid(options.sharding)) {
    const int wanted = options.shard_group > 0 ? options.shard_group : node;
    layout.shard_ranks = std::min(wanted, job.gpus);
    if (job.gpus % layout.shard_ranks != 0) {
      refuse(
          fmt::format("{} GPUs cannot be split into groups of {}", job.gpus, layout.shard_ranks));
    }
    if (job.gpus > node && layout.shard_ranks % node != 0 && node % layout.shard_ranks != 0) {
      refuse(fmt::format("groups of {} do not fit nodes of {} GPUs", layout.shard_ranks, node));
    }
  }
  layout.replicas = job.gpus / layout.shard_ranks;
  const int group = layout.shard_ranks;
  if (layout.replicas == 1) {
    if (options.sharding == Sharding::hybrid_shard) options.sharding = Sharding::full_shard;
    if (options.sharding == Sharding::hybrid_shard_zero2)
      options.sharding = Sharding::shard_grad_op;
  }
  if (group == 1) options.sharding = Sharding::no_shard;
  layout.shard_group = group_of(job.machine, group);
  layout.replica_group = group_of(job.machine, job.gpus);
  if (is_hybrid(options.sharding)) {
    const int local = std::min(group, layout.replica_group.ranks_per_node);
    layout.shard_group.concurrent = layout.replica_group.ranks_per_node / local;
    layout.replica_group.ranks_per_node /= local;
    layout.replica_group.nodes /= std::max(1, group / node);
    layout.replica_group.concurrent = local;
  }
}

class Pricing {
 public:
  Pricing(const Job& job, const FsdpLayout& layout, JobNetwork& network)
      : job_(job), layout_(layout), network_(network) {}

  FsdpUnitPlan unit(std::size_t index) const {
    const FsdpUnit& owner = layout_.units[index];
    const double all = layout_.layouts[index].elements, shard = layout_.layouts[index].shard;
    const int tensors = static_cast<int>(owner.parameters.size());
    const double gather = layout_.gather_bytes, reduce = layout_.reduce_bytes;
    const double kept = layout_.shard_bytes;
    FsdpUnitPlan unit;
    unit.frees_after_forward = layout_.sharded() && !owner.root && !layout_.keeps_parameters();
    if (layout_.sharded()) {
      unit.gather = collective(layout_.shard_group, Collective::all_gather, all * gather);
      unit.reduce = collective(layout_.shard_group, Collective::reduce_scatter, all * reduce);
    }
    if (layout_.replicas > 1) {
      unit.replicate = collective(layout_.replica_group, Collective::all_reduce, shard * reduce);
    }
    if (layout_.options.cpu_offload && on_accelerator()) {
      unit.to_device = network_.host_device_copy(shard * kept);
      unit.to_host = network_.host_device_copy(shard * kept);
    }
    for (PricedTransfer* transfer :
         {&unit.gather, &unit.reduce, &unit.replicate, &unit.to_device, &unit.to_host}) {
      transfer->spec.what = owner.root ? "root" : std::string_view(owner.module);
    }
    unit.to_device.spec.name = "Memcpy HtoD (shard)";
    unit.to_host.spec.name = "Memcpy DtoH (gradients)";
    if (layout_.options.version == 2) {
      version_two(unit, all, shard, tensors);
    } else {
      version_one(unit, all, shard, tensors);
    }
    unit.accumulate = job_.costs->stream(3 * reduce * all, tensors);
    return unit;
  }

  double dispatch() const { return job_.costs->stream(1, 1).host; }

 private:
  void version_one(FsdpUnitPlan& unit, double all, double shard, int tensors) const {
    const double gather = layout_.gather_bytes, reduce = layout_.reduce_bytes;
    const double kept = layout_.shard_bytes;
    if (gather != kept) unit.before_gather = kernels((kept + gather) * shard, 1);
    // Autograd concatenates the parameters' gradients into the flat one [40].
    if (tensors > 1) unit.join_gradients = job_.costs->stream(2 * gather * all, 1);
    double before = 0, after = 0;
    int before_launches = 0, after_launches = 0;
    const auto add = [](double& bytes, int& launches, double more) {
      bytes += more;
      ++launches;
    };
    const int ranks = job_.gpus;
    if (ranks > 1 && reduce != gather) add(before, before_launches, (gather + reduce) * all);
    if (pre_division(ranks) > 1) add(before, before_launches, 2 * reduce * all);
    if (ranks / pre_division(ranks) > 1) add(after, after_launches, 2 * reduce * shard);
    if (reduce != kept) add(after, after_launches, (reduce + kept) * shard);
    unit.before_reduce = kernels(before, before_launches);
    unit.after_reduce = kernels(after, after_launches);
    add(after, after_launches, 3 * kept * shard);
    unit.after_later_reduce = kernels(after, after_launches);
    unit.unshard_views = tensors * view_dispatches * dispatch();
    if (layout_.options.use_orig_params) {
      unit.unshard_views += tensors * writeback_dispatches * dispatch();
      unit.reshard_views = tensors * sharded_view_dispatches * dispatch();
    }
  }

  void version_two(FsdpUnitPlan& unit, double all, double shard, int tensors) const {
    const double gather = layout_.gather_bytes, reduce = layout_.reduce_bytes;
    const double kept = layout_.shard_bytes;
    unit.unshard_views = tensors * fsdp2_parameter_dispatches * dispatch();
    unit.reshard_views = unit.unshard_views / 2;
    if (layout_.sharded()) {
      unit.before_gather = kernels((kept + gather) * shard, 1);
      unit.after_gather = job_.costs->stream(2 * gather * all, 1);
      unit.join_gradients = job_.costs->stream((gather + reduce) * all, 1);
    }
    double after = 0;
    int launches = 0;
    if (job_.gpus > 1 &&
        job_.step.precision == Precision::amp_fp16) {  // no NCCL average in fp16 [56]
      unit.before_reduce = kernels(2 * reduce * all, 1);
      after += 2 * reduce * shard;
      ++launches;
    }
    if (reduce != kept) {
      after += (reduce + kept) * shard;
      ++launches;
    }
    unit.after_reduce = kernels(after, launches);
    unit.after_later_reduce = kernels(after + 3 * kept * shard, launches + tensors);
  }

  PricedTransfer collective(const CommGroup& group, Collective kind, double bytes) const {
    return network_.collective(group, kind, bytes);
  }
  SideKernels kernels(double bytes, int launches) const {
    if (launches == 0) return {};
    const QueuedWork work = job_.costs->stream(bytes, launches);
    return {work.busy, work.host, work.provenance};
  }
  bool on_accelerator() const { return job_.machine.device.architecture != Architecture::cpu; }

  const Job& job_;
  const FsdpLayout& layout_;
  JobNetwork& network_;
};

// The layer whose backward completes the unit's gradient; -1 = nothing to train.
int last_gradient(const FsdpUnit& unit, const TrainingStep& step) {
  for (const int layer : unit.layers) {
    for (const Parameter& parameter : step.layers[layer].parameters) {
      if (parameter.trainable) return layer;
    }
  }
  return -1;
}

void lay_out_passes(FsdpPlan& plan, const TrainingStep& step, const StepCosts& costs) {
  std::vector<HookedUnit> units;
  for (const FsdpUnit& unit : plan.layout.units) {
    units.push_back({unit.first, unit.last, last_gradient(unit, step)});
  }
  if (plan.layout.options.version == 1 && plan.layout.options.forward_prefetch) {
    // A unit's views are made before the unit in front of it computes, so that autograd comes to
    // them after all of that one's backward.
    for (std::size_t i = units.size(); i-- > 1;) {
      const int before = units[i - 1].completed_by;
      if (before >= 0 && before < units[i].completed_by) units[i].completed_by = before;
    }
  }
  plan.passes = lay_out(costs.layers, units);
  plan.next.assign(units.size(), -1);
  plan.previous.assign(units.size(), -1);
  int begun = -1, ended = -1;
  for (const PassItem& item : plan.passes.forward) {
    if (item.hook == Hook::pre_forward) {
      if (begun >= 0) plan.next[begun] = item.unit;
      begun = item.unit;
    } else if (item.hook == Hook::post_forward) {
      plan.previous[item.unit] = ended;
      ended = item.unit;
    }
  }
}

int chosen_bytes(double wanted, int otherwise) {
  return wanted > 0 ? static_cast<int>(std::lround(wanted)) : otherwise;
}

}  // namespace

double FsdpLayout::optimizer_elements() const {
  double sum = 0;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const double all = units[i].elements();
    if (all > 0) sum += layouts[i].shard * units[i].trainable_elements() / all;
  }
  return sum;
}

int FsdpLayout::optimizer_tensors() const {
  int sum = 0;
  for (const FsdpUnit& unit : units) {
    const int tensors = unit.trainable_tensors();
    if (options.version == 2) {
      sum += tensors;  // every rank has a part of each
    } else if (options.use_orig_params) {
      sum += std::min(tensors, tensors / shard_ranks + 1);  // those that its range touches
    } else if (tensors > 0) {
      ++sum;
    }
  }
  return sum;
}

FsdpLayout fsdp_layout(const Job& job, const FsdpOptions& options) {
  FsdpLayout layout;
  layout.options = options;
  choose_groups(job, layout);
  layout.shard_bytes = parameter_bytes(job.step.precision);
  layout.gather_bytes = chosen_bytes(options.gather_bytes, activation_bytes(job.step.precision));
  layout.reduce_bytes = chosen_bytes(options.reduce_bytes, layout.gather_bytes);
  layout.units = make_units(job.step, options.wrap);
  const std::int64_t aligned =
      options.use_orig_params ? std::max(1, alignment / layout.gather_bytes) : 0;
  for (const FsdpUnit& unit : layout.units) {
    layout.layouts.push_back(options.version == 2 ? per_parameter_layout(unit, layout.shard_ranks)
                                                  : flat_layout(unit, layout.shard_ranks, aligned));
  }
  return layout;
}

FsdpPlan fsdp_plan(TrainingStage& stage, const FsdpLayout& layout) {
  const Job& job = stage.job;
  FsdpPlan plan;
  plan.layout = layout;
  const Pricing pricing(job, plan.layout, stage.network);
  plan.one_thread = one_thread(job);
  plan.hook_seconds = hook_dispatches * pricing.dispatch();
  for (std::size_t i = 0; i < plan.layout.units.size(); ++i) plan.units.push_back(pricing.unit(i));
  if (plan.layout.sharded()) {
    plan.scalar = stage.network.collective(plan.layout.shard_group, Collective::all_reduce, 4);
  }
  lay_out_passes(plan, job.step, stage.costs);
  return plan;
}

}  // namespace lockstep
