// Plans a DDP step: cuts backward after each layer whose gradients fill a bucket, and computes the
// costs of copies, broadcasts and reductions. Numbers in brackets are facts of docs/facts.md.
#include "strategies/ddp/plan.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "strategies/ddp/horovod.hpp"

namespace lockstep {

namespace {

// The costs and passes of one part of the model.
class Planner {
 public:
  Planner(TrainingContext& context, const Replica& replica, const DdpOptions& options)
      : network_(context.network),
        job_(context.job),
        layers_(job_.passes() > 1 ? replica.adding : context.costs.layers),
        tensors_(replica.tensors),
        options_(options),
        group_(gradient_group(job_)),
        splits_backward_(context.splits_backward()),
        statistics_(shared_statistics(job_, options)) {}

  PricedTransfer collective(Collective kind, double bytes) const {
    return network_.collective(group_, kind, bytes);
  }

  // The passes, cuts and costs for these buckets. Visits the layers from the last to the first. A
  // cut collects the copies of all layers since the previous cut, and launches the buckets that are
  // full.
  DdpSchedule schedule(const std::vector<Bucket>& buckets) const {
    DdpSchedule result;
    // A transfer contains the bucket's number for an observer.
    for (const Bucket& bucket : buckets) {
      result.buckets.push_back(planned(bucket));
      for (HookStep& part : result.buckets.back().hook.steps) {
        part.transfer.spec.what = "bucket";
        part.transfer.spec.which = static_cast<int>(result.buckets.size()) - 1;
      }
    }
    const int layers = static_cast<int>(layers_.size());
    std::vector<double> bytes(layers_.size(), 0.0);  // by layer: bytes of its gradients
    std::vector<int> counts(layers_.size(), 0);      // by layer: number of its gradients
    for (const GradientTensor& tensor : tensors_) {
      const auto layer = static_cast<std::size_t>(tensor.layer);
      bytes[layer] += tensor.elements * tensor.element_bytes;
      ++counts[layer];
    }
    std::vector<HookedUnit> units;
    DdpCut cut;
    double copied = 0;
    int copies = 0;
    int next = 0;  // index of the next bucket to launch
    for (int layer = layers - 1; layer >= 0; --layer) {
      copied += 2 * bytes[static_cast<std::size_t>(layer)];
      copies += counts[static_cast<std::size_t>(layer)];
      // Without overlap, all buckets are launched after the backward of the first layer.
      const auto full = [&](const Bucket& bucket) {
        return layer == 0 || (options_.overlap && layer <= bucket.ready_after);
      };
      while (next < static_cast<int>(buckets.size()) &&
             full(buckets[static_cast<std::size_t>(next)])) {
        cut.launches.push_back(next++);
      }
      if (cut.launches.empty() && layer > 0) continue;
      // Each gradient is copied into its bucket by one kernel [7]. fp32 main gradients already lie
      // in their buckets, and backward includes adding to them. Horovod copies later, bucket by
      // bucket.
      if (copies > 0 && !options_.horovod() && !has_main_gradients(job_.step->precision)) {
        cut.copies = job_.costs->stream(copied, keeps_one_buffer(job_, options_) ? 1 : copies);
      }
      result.cuts.push_back(std::exchange(cut, {}));
      units.push_back({.completed_by = layer});
      copied = 0;
      copies = 0;
    }
    result.passes = laid_out(layers_, std::move(units));
    return result;
  }

  // Lays out passes with `units`, followed by the SyncBatchNorm layers as the last units.
  Passes laid_out(const std::vector<LayerCost>& layers, std::vector<HookedUnit> units) const {
    for (const int layer : statistics_) units.push_back({.first = layer, .last = layer});
    return lay_out(layers, hook_places(units, layers.size()), splits_backward_);
  }

  // The costs of the SyncBatchNorm layers, from the bytes of their saved statistics.
  std::vector<SharedStatistics> statistics() const {
    std::vector<SharedStatistics> shared;
    for (const int index : statistics_) {
      const Layer& layer = job_.step->layers[static_cast<std::size_t>(index)];
      // Mean and inverse deviation of each channel, in fp32. Backward sums equally many values.
      const double sums =
          std::find_if(layer.saved.begin(), layer.saved.end(), [](const SavedTensor& saved) {
            return saved.name == "statistics";
          })->bytes;
      const double counted = sums + 4, all = job_.mesh.copies() * counted;
      SharedStatistics statistics_of_layer;
      statistics_of_layer.joined = job_.costs->stream(2 * counted, 1);
      statistics_of_layer.gather = collective(Collective::all_gather, all);
      statistics_of_layer.combined = job_.costs->stream(all + sums, 1);
      statistics_of_layer.joined_sums = job_.costs->stream(2 * sums, 1);
      statistics_of_layer.reduce = collective(Collective::all_reduce, sums);
      statistics_of_layer.gather.spec.what = statistics_of_layer.reduce.spec.what = "statistics";
      statistics_of_layer.again = layer.checkpointed;
      shared.push_back(statistics_of_layer);
    }
    return shared;
  }

  // The costs of the broadcasts of buffers [15].
  void buffers(DdpPlan& plan) const {
    double bytes = 0;
    int buffers = 0;
    int counters = 0;
    for (const Layer& layer : job_.step->layers) {
      bytes += layer.buffer_bytes;
      buffers += layer.buffers;
      counters += layer.counters;
    }
    if (buffers == 0) return;
    // One broadcast for each element type: first the statistics, then the int64 counters (seen in
    // PyTorch 2.15, calibrate/oracle).
    const double counter_bytes = 8.0 * counters;
    plan.buffers.push_back(collective(Collective::broadcast, bytes - counter_bytes));
    if (counters > 0) plan.buffers.push_back(collective(Collective::broadcast, counter_bytes));
    for (PricedTransfer& type : plan.buffers) type.spec.what = "buffers";
    plan.buffer_copies = job_.costs->stream(2 * bytes, buffers);
  }

 private:
  // The costs of one bucket's reduction and copies.
  PlannedBucket planned(const Bucket& bucket) const {
    const CommGroup group = bucket.expert ? expert_gradient_group(job_) : group_;
    const HookPrices prices{
        *job_.costs, group.ranks(), job_.machine.device.multiprocessors, one_thread(job_),
        [&](Collective kind, double bytes) { return network_.collective(group, kind, bytes); }};
    PlannedBucket result;
    result.expert = bucket.expert;
    result.hook = plan_hook(options_, bucket, tensors_, prices);
    result.delay = bucket.delay;
    if (options_.horovod()) {
      // One kernel copies all tensors of a bucket in, and another copies them out. If a bucket has
      // a single tensor, it is reduced in place.
      if (bucket.tensors.size() == 1) return result;
      result.joined = job_.costs->stream(2 * bucket.bytes, 1);
      result.hook.after = append(result.hook.after, result.joined);
      return result;
    }
    if (!options_.gradient_as_bucket_view && !has_main_gradients(job_.step->precision)) {
      result.copy_out =
          job_.costs->stream(2 * bucket.bytes, static_cast<int>(bucket.tensors.size()));
    }
    return result;
  }

  JobNetwork& network_;
  const Job& job_;
  const std::vector<LayerCost>& layers_;  // costs of the micro-batch that reduces
  const std::vector<GradientTensor>& tensors_;
  const DdpOptions& options_;
  const CommGroup group_;
  const bool splits_backward_;
  const std::vector<int> statistics_;  // indices of the SyncBatchNorm layers
};

}  // namespace

DdpPlan ddp_plan(TrainingContext& context, const Replica& replica, const DdpOptions& options) {
  DdpPlan plan;
  if (context.job.mesh.copies() == 1) {
    plan.first.passes = context.job.passes() > 1 ? replica.alone_adding : replica.alone;
    plan.later = plan.first;
    plan.alone = replica.alone;
    plan.alone_adding = replica.alone_adding;
    return plan;
  }
  const Planner planner(context, replica, options);
  plan.statistics = planner.statistics();
  plan.alone = planner.laid_out(context.costs.layers, {});
  plan.alone_adding = planner.laid_out(replica.adding, {});
  if (options.broadcast_buffers && !options.horovod()) planner.buffers(plan);
  const double flags = 4.0 * static_cast<double>(replica.tensors.size());
  if (options.horovod()) {
    // Horovod neither searches for unused parameters nor rebuilds buckets.
  } else if (options.find_unused_parameters && !options.static_graph) {
    plan.bitmap = planner.collective(Collective::all_reduce, flags);
  } else {
    plan.indices = planner.collective(Collective::broadcast, flags);
  }
  const BucketPlan buckets = ddp_buckets(context.job, options);
  plan.first = planner.schedule(buckets.first);
  plan.later = planner.schedule(buckets.later);
  return plan;
}

std::vector<int> shared_statistics(const Job& job, const DdpOptions& options) {
  std::vector<int> layers;
  if (!options.sync_batch_norm || job.mesh.copies() == 1) return layers;
  for (std::size_t i = 0; i < job.step->layers.size(); ++i) {
    if (job.step->layers[i].kind == "batch_norm") layers.push_back(static_cast<int>(i));
  }
  return layers;
}

bool keeps_one_buffer(const Job& job, const DdpOptions& options) {
  return job.framework == FrameworkKind::megatron && !options.overlap;
}

// One bucket that no model can fill; the gradients lie in the bucket.
DdpOptions options_for(const Job& job, DdpOptions options) {
  if (!keeps_one_buffer(job, options)) return options;
  constexpr double all = 1e18;
  options.bucket_bytes = options.first_bucket_bytes = all;
  options.gradient_as_bucket_view = true;
  return options;
}

int ddp_gradient_bytes(const DdpOptions& options, Precision precision) {
  return options.gradient_bytes > 0 ? static_cast<int>(std::lround(options.gradient_bytes))
                                    : gradient_bytes(precision);
}

std::vector<GradientTensor> ddp_tensors(const Job& job, const DdpOptions& options) {
  return gradient_tensors(*job.step, ddp_gradient_bytes(options, job.step->precision));
}

// Horovod fuses by readiness in every step, so that its first step has no other buckets.
BucketPlan ddp_buckets(const Job& job, const DdpOptions& options) {
  const std::vector<GradientTensor> tensors = ddp_tensors(job, options);
  const auto* horovod = std::get_if<HorovodFusion>(&options.fusion);
  if (horovod == nullptr) return plan_buckets(tensors, options);
  const std::vector<Bucket> buckets =
      fuse_when_ready(tensors, gradients_ready(job), *horovod, negotiation_seconds(job));
  return {buckets, buckets};
}

}  // namespace lockstep
