// Lays out ZeRO's shards and buckets, computes their costs, and places reductions and gathers in
// the passes. Buckets are cut as DDP cuts them; DeepSpeed closes a bucket before it would overflow
// (fact 66), which differs by at most one tensor.
#include "strategies/zero/plan.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "strategies/common/offload.hpp"

namespace lockstep {

namespace {

// The costs of buckets and of the update.
class Pricing {
 public:
  Pricing(TrainingContext& context, const ZeroLayout& layout)
      : job_(context.job), network_(context.network), layout_(layout) {}

  // The costs of one bucket: reduction, all-reduce between replicas, copy to the host, and gather.
  ZeroBucket bucket(const Bucket& bucket) const {
    const ShardGroups& groups = layout_.groups_of(bucket);
    ZeroBucket priced;
    priced.expert = bucket.expert;
    if (layout_.scatters()) {
      priced.reduce = network_.collective(groups.shard, Collective::reduce_scatter, bucket.bytes);
      if (groups.replicas > 1) {
        priced.replicate = network_.collective(groups.replica, Collective::all_reduce,
                                               bucket.bytes * layout_.share(bucket.expert));
      }
    } else {
      const CommGroup all = bucket.expert ? groups.shard : gradient_group(job_);
      priced.reduce = network_.collective(all, Collective::all_reduce, bucket.bytes);
    }
    if (layout_.offloaded_share() > 0) {
      const double elements =
          bucket.elements * layout_.share(bucket.expert) * layout_.offloaded_share();
      priced.to_host = gradients_to_host(
          elements * gradient_bytes_on_host(layout_.options.offload, job_.step->precision),
          network_);
    }
    const double element = parameter_bytes(job_.step->precision);
    if (!layout_.keeps_tensors_whole()) {
      priced.gather.push_back(
          network_.collective(groups.shard, Collective::all_gather, bucket.elements * element));
      return priced;
    }
    // Owners broadcast the tensors that they have updated, one after the other.
    for (const int tensor : bucket.tensors) {
      const double bytes = layout_.tensors[static_cast<std::size_t>(tensor)].elements * element;
      priced.gather.push_back(network_.collective(groups.shard, Collective::broadcast, bytes));
    }
    return priced;
  }

  // The update of the rank with the most elements. After an all-reduce every rank has all
  // gradients, so clipping reads every gradient.
  UpdateWork update() const {
    const TensorShare shard = layout_.updated();
    TensorShare all{0, static_cast<int>(layout_.tensors.size())};
    for (const GradientTensor& tensor : layout_.tensors) all.elements += tensor.elements;
    if (layout_.offloaded_share() > 0) {
      return update_with_host(job_, layout_.options.offload, shard, network_);
    }
    return update_work(job_, shard, layout_.scatters() ? shard : all);
  }

 private:
  const Job& job_;
  JobNetwork& network_;
  const ZeroLayout& layout_;
};

// The cuts of backward. Each cut follows a layer that completes one or more buckets. Appends a unit
// for each cut to `units`.
std::vector<ZeroCut> cuts_of(const Job& job, const ZeroLayout& layout,
                             std::vector<HookedUnit>& units) {
  std::vector<ZeroCut> cuts;
  for (std::size_t b = 0; b < layout.buckets.size();) {
    const int layer = layout.buckets[b].ready_after;
    ZeroCut cut;
    double bytes = 0;
    int tensors = 0;
    for (; b < layout.buckets.size() && layout.buckets[b].ready_after == layer; ++b) {
      cut.buckets.push_back(static_cast<int>(b));
      bytes += layout.buckets[b].bytes;
      tensors += static_cast<int>(layout.buckets[b].tensors.size());
    }
    // fp32 main gradients already lie in their buckets, and backward includes adding to them.
    if (!has_main_gradients(job.step->precision))
      cut.copies = job.costs->stream(2 * bytes, tensors);
    cuts.push_back(std::move(cut));
    units.push_back({.completed_by = layer});
  }
  return cuts;
}

// The first layer of forward that reads a parameter of the bucket.
int first_use(const Bucket& bucket, const std::vector<GradientTensor>& tensors) {
  int first = tensors[static_cast<std::size_t>(bucket.tensors.front())].layer;
  for (const int tensor : bucket.tensors) {
    first = std::min(first, tensors[static_cast<std::size_t>(tensor)].layer);
  }
  return first;
}

// Marks the tensors of the rank with the most elements. Tensors are assigned from the largest to
// the smallest, each to the rank that has the fewest elements so far (ZeroRedundancyOptimizer's
// _partition_parameters).
void mark_fullest_rank(const std::vector<GradientTensor>& tensors, bool experts, int ranks,
                       std::vector<bool>& marked) {
  const auto elements = [&](std::size_t tensor) { return tensors[tensor].elements; };
  std::vector<std::size_t> members;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].expert == experts) members.push_back(i);
  }
  std::stable_sort(members.begin(), members.end(),
                   [&](std::size_t a, std::size_t b) { return elements(a) > elements(b); });
  std::vector<double> held(static_cast<std::size_t>(ranks), 0);
  std::vector<std::vector<std::size_t>> owned(held.size());
  for (const std::size_t tensor : members) {
    const auto rank = std::min_element(held.begin(), held.end()) - held.begin();
    held[static_cast<std::size_t>(rank)] += elements(tensor);
    owned[static_cast<std::size_t>(rank)].push_back(tensor);
  }
  const auto fullest = std::max_element(held.begin(), held.end()) - held.begin();
  for (const std::size_t tensor : owned[static_cast<std::size_t>(fullest)]) marked[tensor] = true;
}

}  // namespace

// Experts are divided among the ranks that hold the same experts; all other tensors are divided
// within the shard group.
std::vector<bool> ZeroLayout::whole_tensors() const {
  if (!keeps_tensors_whole()) return {};
  std::vector<bool> marked(tensors.size());
  mark_fullest_rank(tensors, false, groups.ranks, marked);
  mark_fullest_rank(tensors, true, expert_groups.ranks, marked);
  return marked;
}

TensorShare ZeroLayout::updated() const {
  if (const std::vector<bool> whole = whole_tensors(); !whole.empty()) {
    TensorShare share;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (!whole[i]) continue;
      share.elements += tensors[i].elements;
      ++share.tensors;
    }
    return share;
  }
  double elements = 0, of_experts = 0;
  int count = 0, count_of_experts = 0;
  for (const GradientTensor& tensor : tensors) {
    (tensor.expert ? of_experts : elements) += tensor.elements;
    ++(tensor.expert ? count_of_experts : count);
  }
  return {elements * share() + of_experts * share(true),
          static_cast<int>(std::ceil(count * share()) + std::ceil(count_of_experts * share(true)))};
}

ZeroLayout zero_layout(const Job& job, const ZeroOptions& options) {
  ZeroLayout layout;
  layout.options = options;
  // Ranks on CPUs compute in host memory, so there is nothing to offload.
  if (is_host(job.machine.device)) layout.options.offload = {};
  layout.groups =
      shard_groups(job,
                   options.shard_group > 0 ? std::min(options.shard_group, job.mesh.copies())
                                           : job.mesh.copies(),
                   "zero.shard_group");
  layout.expert_groups = expert_shard_groups(job);
  layout.gradient_bytes = options.gradient_bytes > 0
                              ? static_cast<int>(std::lround(options.gradient_bytes))
                              : gradient_bytes(job.step->precision);
  layout.tensors = gradient_tensors(*job.step, layout.gradient_bytes);
  if (layout.moves_gradients()) {
    layout.buckets =
        cut_buckets(layout.tensors, arrival_order(layout.tensors), {options.bucket_bytes});
  }
  return layout;
}

ZeroPlan zero_plan(TrainingContext& context, const Replica& replica, const ZeroLayout& layout) {
  const Job& job = context.job;
  ZeroPlan plan;
  plan.layout = layout;
  const Pricing pricing(context, plan.layout);
  plan.update = pricing.update();
  // By bucket: a unit that begins at the first layer that reads one of the bucket's parameters.
  std::vector<HookedUnit> collected;
  double bytes = 0;
  for (std::size_t b = 0; b < layout.buckets.size(); ++b) {
    const Bucket& bucket = layout.buckets[b];
    ZeroBucket& priced = plan.buckets.emplace_back(pricing.bucket(bucket));
    for (PricedTransfer* transfer : {&priced.reduce, &priced.replicate}) {
      transfer->spec.what = "bucket";
      transfer->spec.which = static_cast<int>(b);
    }
    for (PricedTransfer& transfer : priced.gather) {
      transfer.spec.what = "parameters";
      transfer.spec.which = static_cast<int>(b);
    }
    collected.push_back({.first = first_use(bucket, layout.tensors)});
    bytes += bucket.bytes;
  }
  // With after-update, all parameters have arrived before the step begins, so these units have no
  // hooks.
  if (layout.options.gather == ParameterGather::after_update) {
    for (HookedUnit& unit : collected) unit = {};
  }
  std::vector<HookedUnit> reduced = collected;
  plan.cuts = cuts_of(job, layout, reduced);
  plan.shards_return = layout.options.stage == 2 && layout.offloaded_share() > 0;
  if (layout.options.stage == 2 && job.passes() > 1) {
    plan.add_shard = job.costs->stream(3 * bytes * layout.share(), 1);
  }
  if (layout.groups.sharded() && layout.scatters()) {
    plan.scalar = context.network.collective(layout.groups.shard, Collective::all_reduce, 4);
  }
  for (const bool first : {false, true}) {
    // Stage 2 reduces every micro-batch's gradients, so backward never adds to existing ones.
    const auto& layers = first || layout.options.stage == 2 ? context.costs.layers : replica.adding;
    for (const bool reduces : {false, true}) {
      plan.passes[first][reduces] =
          lay_out(layers, hook_places(reduces ? reduced : collected, layers.size()),
                  context.splits_backward());
    }
  }
  return plan;
}

}  // namespace lockstep
