// Computes the costs of everything that FSDP does around a unit: collectives (sim/costs), kernels
// as bytes through device memory, and host time of Python from public traces. Numbers in brackets
// are facts of docs/facts.md.
#include "strategies/fsdp/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "strategies/common/offload.hpp"

namespace lockstep {

namespace {

// Host time of FSDP's Python code around a unit, as a multiple of the dispatch of one backward
// operator. The numbers were derived for a host whose dispatch takes host_dispatch seconds; as
// multiples, they scale with the simulated host. Modelled defaults:
//   a hook    200 us, before and after forward and backward. With a profiler attached, which about
//             doubles the time of Python, one trace shows 454 us for the post-forward hook and
//             1.04 ms for the whole post-backward hook (pytorch issue 102434), and another
//             trace 1.04 ms for the pre-backward hook (pytorch PR 98250).
//   a view    of one parameter: with use_orig_params, 6.8 us more for the sharded view and 2.7 us
//             more to look for writes (400 parameters, pytorch PR 96958).
//   FSDP2     registers, swaps and views one DTensor for each parameter: 20 us. One report has
//             1 ms for a pre-forward hook (pytorch issue 173680).
constexpr double dispatches_per_second = 1 / host_dispatch;
constexpr double hook_dispatches = 200e-6 * dispatches_per_second;
constexpr double sharded_view_dispatches = 6.8e-6 * dispatches_per_second;
constexpr double writeback_dispatches = 2.7e-6 * dispatches_per_second;
constexpr double fsdp2_parameter_dispatches = 20e-6 * dispatches_per_second;

// FSDP1 divides before and after the reduction, each time by about the square root of the number of
// ranks [39]. The first divisor begins at 1 and is doubled while it divides the number of ranks and
// is smaller than the quotient.
int pre_division(int ranks) {
  int factor = 1;
  while (ranks % factor == 0 && ranks / factor > factor) factor *= 2;
  return factor;
}

// The costs of one job's units. In its functions, `all` is the number of elements of a unit on all
// ranks, and `shard` the number on one rank; `gather`, `reduce` and `kept` are bytes per element of
// an all-gather, a reduction and a shard.
class Pricing {
 public:
  Pricing(const Job& job, const FsdpLayout& layout, JobNetwork& network)
      : job_(job), layout_(layout), network_(network) {}

  FsdpUnitPlan unit(std::size_t index) const {
    const FsdpUnit& owner = layout_.units[index];
    const double all = layout_.layouts[index].elements, shard = layout_.layouts[index].shard;
    const int tensors = static_cast<int>(owner.parameters.size());
    const double gather = owner.mean_gathered_bytes(layout_.gather_bytes_of(owner));
    const double reduce = layout_.reduce_bytes_of(owner) * layout_.layouts[index].trained;
    const double kept = owner.mean_bytes(layout_.shard_bytes);
    const ShardGroups& groups = layout_.groups_of(owner);
    FsdpUnitPlan unit;
    unit.expert = owner.expert;
    if (groups.sharded()) {
      unit.gather = collective(groups.shard, Collective::all_gather, all * gather);
      unit.reduce = collective(groups.shard, Collective::reduce_scatter, all * reduce);
    }
    if (groups.replicas > 1) {
      unit.replicate = collective(groups.replica, Collective::all_reduce, shard * reduce);
    }
    const FsdpOptions& options = layout_.options;
    if (options.offloads_parameters() && on_accelerator()) {
      unit.to_device = network_.host_device_copy(shard * kept);
    }
    if (options.cpu_offload && on_accelerator()) {
      unit.to_host = network_.host_device_copy(shard * kept);
    } else if (options.offloaded_share() > 0 && on_accelerator()) {
      unit.to_host = gradients_to_host(offloaded_gradients(shard), network_);
    }
    if (options.offload.optimizer == OffloadTier::nvme) {
      unit.write = nvme_seconds(job_, offloaded_gradients(shard), NvmeAccess::write);
    }
    if (options.offload.parameters == OffloadTier::nvme) {
      unit.read = nvme_seconds(job_, shard * kept, NvmeAccess::read);
    }
    for (PricedTransfer* transfer :
         {&unit.gather, &unit.reduce, &unit.replicate, &unit.to_device, &unit.to_host}) {
      transfer->spec.what = owner.root ? "root" : std::string_view(owner.module);
    }
    unit.to_device.spec.name = "Memcpy HtoD (shard)";
    unit.to_host.spec.name = "Memcpy DtoH (gradients)";
    if (layout_.options.version == 2) {
      version_two(unit, index, tensors);
      if (options.zeropp.is_used() && !unit.expert) zero_plus_plus(unit, all);
    } else {
      version_one(unit, owner, all, shard);
    }
    unit.accumulate = job_.costs->stream(3 * reduce * all, tensors);
    return unit;
  }

  // Host seconds of one dispatch on the simulated host.
  double dispatch() const { return job_.costs->stream(1, 1).host; }

 private:
  // Bytes of the gradients of a shard that are copied to the host.
  double offloaded_gradients(double shard) const {
    const FsdpOptions& options = layout_.options;
    return shard * options.offloaded_share() *
           gradient_bytes_on_host(options.offload, job_.step->precision);
  }

  // The kernels and host time of FSDP1 [39, 40, 43, 45].
  void version_one(FsdpUnitPlan& unit, const FsdpUnit& owner, double all, double shard) const {
    const int tensors = static_cast<int>(owner.parameters.size());
    const double gather = layout_.gather_bytes_of(owner), reduce = layout_.reduce_bytes_of(owner);
    const double kept = layout_.shard_bytes;
    if (gather != kept) unit.before_gather = kernels((kept + gather) * shard, 1);
    // Autograd concatenates the parameters' gradients into the flat one [40].
    if (tensors > 1) unit.join_gradients = job_.costs->stream(2 * gather * all, 1);
    // Around the reduction: a cast if the types differ, and a division if its factor exceeds 1. In
    // later micro-batches, the result is added to the shard's gradient (three streams).
    double before = 0, after = 0;
    int before_launches = 0, after_launches = 0;
    const auto add = [](double& bytes, int& launches, double more) {
      bytes += more;
      ++launches;
    };
    const int ranks = job_.mesh.copies();
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

  // The kernels and host time of FSDP2 [48, 52, 56].
  void version_two(FsdpUnitPlan& unit, std::size_t index, int tensors) const {
    const FsdpUnit& owner = layout_.units[index];
    const double all = layout_.layouts[index].elements, shard = layout_.layouts[index].shard;
    const double trained = layout_.layouts[index].trained;
    const double gather = owner.mean_gathered_bytes(layout_.gather_bytes);
    const double reduce = layout_.reduce_bytes * trained, kept = layout_.shard_bytes * trained;
    unit.unshard_views = tensors * fsdp2_parameter_dispatches * dispatch();
    unit.reshard_views = unit.unshard_views / 2;
    if (layout_.sharded()) {
      unit.before_gather = kernels((owner.mean_bytes(layout_.shard_bytes) + gather) * shard, 1);
      unit.after_gather = job_.costs->stream(2 * gather * all, 1);
      unit.join_gradients = job_.costs->stream((layout_.gather_bytes * trained + reduce) * all, 1);
    }
    double after = 0;
    int launches = 0;
    if (job_.mesh.copies() > 1 &&
        job_.step->precision == Precision::amp_fp16) {  // no NCCL average in fp16 [56]
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

  // Replaces the exchanges of a unit by ZeRO++'s exchanges. The scales of the quantised blocks are
  // left out, because they are less than 0.1 % of the bytes.
  void zero_plus_plus(FsdpUnitPlan& unit, double all) const {
    constexpr double int8 = 1, int4 = 0.5;
    const ZeroPlusPlus& options = layout_.options.zeropp;
    const ShardGroups& nodes = layout_.node_groups;
    const double gather = layout_.gather_bytes, reduce = layout_.reduce_bytes;
    const double kept = layout_.shard_bytes, shard = all / layout_.groups.ranks;
    if (!layout_.sharded()) return;
    if (layout_.secondary_shards()) {
      const double secondary = all / nodes.ranks;
      unit.nodes.gather = collective(nodes.shard, Collective::all_gather, all * gather);
      unit.nodes.before_gather = kernels(2 * gather * secondary, 1);
      unit.nodes.after_gather = unit.after_gather;
      unit.nodes.kept = kernels(2 * gather * secondary, 1);
    }
    if (options.quantized_weights) {
      unit.gather = collective(layout_.groups.shard, Collective::all_gather, all * int8);
      unit.before_gather = kernels((kept + int8) * shard, 1);
      unit.after_gather = job_.costs->stream((int8 + gather) * all, 1);
    }
    if (!options.quantized_gradients) return;
    // Gradients are joined and quantised, exchanged by all-to-all, read and added up. On several
    // nodes, this happens first inside each node; the sums are quantised a second time and
    // exchanged between nodes.
    unit.join_gradients = append(unit.join_gradients, kernels((reduce + int4) * all, 1));
    if (nodes.hybrid()) {
      const double in_node = all / nodes.ranks;
      unit.nodes.reduce_in_node = collective(nodes.shard, Collective::all_to_all, all * int4);
      unit.nodes.summed_in_node = kernels(int4 * all + int4 * in_node, 1);
      unit.nodes.reduce_between = collective(nodes.replica, Collective::all_to_all, in_node * int4);
      unit.after_reduce = append(kernels(int4 * in_node + reduce * shard, 1), unit.after_reduce);
    } else {
      unit.reduce = collective(layout_.groups.shard, Collective::all_to_all, all * int4);
      unit.after_reduce = append(kernels(int4 * all + reduce * shard, 1), unit.after_reduce);
    }
    unit.after_later_reduce = append(unit.after_reduce, kernels(3 * kept * shard, 1));
  }

  PricedTransfer collective(const CommGroup& group, Collective kind, double bytes) const {
    return network_.collective(group, kind, bytes);
  }
  QueuedWork kernels(double bytes, int launches) const {
    return launches == 0 ? QueuedWork{} : job_.costs->stream(bytes, launches);
  }
  bool on_accelerator() const { return job_.machine.device.architecture != Architecture::cpu; }

  const Job& job_;
  const FsdpLayout& layout_;
  JobNetwork& network_;
};

}  // namespace

// Does not set FsdpPlan::update; fsdp.cpp adds it for the simulation.
FsdpPlan fsdp_plan(TrainingContext& context, const FsdpLayout& layout) {
  const Job& job = context.job;
  FsdpPlan plan;
  plan.layout = layout;
  const Pricing pricing(job, plan.layout, context.network);
  plan.hook_seconds = hook_dispatches * pricing.dispatch();
  for (std::size_t i = 0; i < plan.layout.units.size(); ++i) plan.units.push_back(pricing.unit(i));
  if (plan.layout.sharded()) {
    plan.scalar = context.network.collective(plan.layout.groups.shard, Collective::all_reduce, 4);
  }
  plan.hooks = fsdp_hooks(plan.layout, *job.step);
  plan.passes = lay_out(context.costs.layers, plan.hooks, context.splits_backward());
  return plan;
}

}  // namespace lockstep
