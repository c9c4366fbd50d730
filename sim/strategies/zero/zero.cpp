// ZeRO stages 1 and 2 as hooks on the training step, and their memory. The order is that of
// DeepSpeed's stage_1_and_2.py (fact 66). Options select Megatron's distributed optimizer and
// PyTorch's ZeroRedundancyOptimizer (docs/zero.md).
#include "strategies/zero/zero.hpp"

#include <nlohmann/json.hpp>

#include "results/schedule.hpp"
#include "strategies/common/offload.hpp"
#include "strategies/common/run_steps.hpp"
#include "strategies/common/stage_memory.hpp"
#include "strategies/common/whole_matrices.hpp"
#include "strategies/zero/plan.hpp"

namespace lockstep {

namespace {

// Hooks that issue the plan of one part of the model.
class ZeroHooks final : public TrainingHooks {
 public:
  ZeroHooks(TrainingContext& context, const ZeroOptions& options)
      : context_(context),
        ranks_(context.ranks),
        layout_(zero_layout(context.job, options)),
        replica_(context, layout_.tensors),
        plan_(zero_plan(context, replica_, layout_)),
        shards_(shards_of(context, layout_.groups)),
        replicas_(replicas_of(context, layout_.groups)),
        // An all-reduce is over all ranks, even if there are several shard groups.
        reducers_(layout_.scatters() || !layout_.groups.hybrid()
                      ? shards_
                      : context.stage.communicator("gradients", gradient_ranks(context.job.mesh))),
        experts_(context.job.mesh.expert == 1 ? shards_ : expert_shards_of(context)),
        to_host_(ranks_.add_stream("gradients to the host", WaitCause::copies)),
        collected_(plan_.buckets.size()) {}

  const UpdateWork& update() const override { return plan_.update; }
  const Passes& passes(const MicroBatch& batch) const override {
    return plan_.passes[batch.first][reduces(batch)];
  }
  bool is_quiet(const MicroBatch& batch) const override { return !batch.first && !reduces(batch); }
  void begin_forward(const MicroBatch& batch) override { batch_ = batch; }
  void begin_backward(const MicroBatch& batch) override { batch_ = batch; }

  // A bucket's parameters must have arrived before the first layer that reads them.
  Program pre_forward(int bucket) override {
    ranks_.wait(collected_[static_cast<std::size_t>(bucket)]);
    co_return;
  }

  // A cut: copies gradients into their buckets and reduces the full buckets.
  Program post_backward(int unit) override {
    const ZeroCut& cut = plan_.cuts[static_cast<std::size_t>(unit) - plan_.buckets.size()];
    context_.copies(cut.copies, "gradients to buckets");
    for (const int bucket : cut.buckets) {
      reduced_.push_back(reduce(plan_.buckets[static_cast<std::size_t>(bucket)]));
      if (!plan_.layout.options.overlap) ranks_.wait(reduced_.back());
    }
    co_return;
  }

  // The compute stream waits for all reductions. In the last micro-batch the host waits, too, if it
  // updates with the gradients of this step.
  Program end_backward() override {
    for (const Event& bucket : reduced_) ranks_.wait(bucket);
    const bool reads = batch_.last && plan_.update.host.seconds > 0 && !plan_.update.host.delayed;
    if (reads && !reduced_.empty()) co_await ranks_.host_wait(reduced_.back());
    reduced_.clear();
    if (!batch_.first) context_.copies(plan_.add_shard, "add to shards");
  }

  // A rank knows the norm and found_inf only of its own shard.
  void reduce_scalar() override {
    if (plan_.scalar.seconds <= 0) return;
    ranks_.wait(context_.collective(shards_, plan_.scalar, ranks_.record()));
  }

  // Gathers the updated parameters. Buckets are numbered in the order of backward, so forward needs
  // the last bucket first.
  Program after_update(int) override {
    for (std::size_t b = plan_.buckets.size(); b-- > 0;) {
      for (const PricedTransfer& part : plan_.buckets[b].gather) {
        if (part.seconds <= 0) continue;  // a single rank holds these experts
        Communicator& shards = plan_.buckets[b].expert ? experts_ : shards_;
        collected_[b] = context_.collective(shards, part, ranks_.record());
      }
    }
    if (plan_.layout.options.gather == ParameterGather::after_update) {
      for (std::size_t b = plan_.buckets.size(); b-- > 0;) ranks_.wait(collected_[b]);
    }
    co_return;
  }

 private:
  // Stage 2 reduces in every micro-batch, because it has no memory for unsharded gradients.
  bool reduces(const MicroBatch& batch) const {
    return batch.last || plan_.layout.options.stage == 2;
  }
  // Reduces a bucket over its shard group and then between the copies. If the host updates, copies
  // the shard to the host. Returns the end of the last transfer.
  Event reduce(const ZeroBucket& bucket) {
    Communicator& reducers = bucket.expert ? experts_ : reducers_;
    Event done = ranks_.record();
    if (bucket.reduce.seconds > 0) done = context_.collective(reducers, bucket.reduce, done);
    if (bucket.replicate.seconds > 0) {
      done = context_.collective(replicas_, bucket.replicate, done);
    }
    if (bucket.to_host.seconds <= 0) return done;
    // In later micro-batches, the sum so far is first copied to the device (fact H109).
    if (plan_.shards_return && !batch_.first) context_.copy(to_host_, bucket.to_host, done);
    return context_.copy(to_host_, bucket.to_host, done);
  }

  TrainingContext& context_;
  RankGroup& ranks_;
  const ZeroLayout layout_;
  const Replica replica_;
  const ZeroPlan plan_;
  Communicator& shards_;
  Communicator& replicas_;
  Communicator& reducers_;
  Communicator& experts_;
  const StreamId to_host_;
  MicroBatch batch_;
  std::vector<Event> reduced_;    // ends of the reductions of this backward
  std::vector<Event> collected_;  // by bucket: the arrival of its updated parameters
};

// With hybrid groups, transfers of shard groups and of replica groups may meet on links. A bucket
// has one gather, and two collectives for each of its reductions.
Engine engine_for(const Job& job, const ZeroLayout& layout) {
  const bool meet = layout.groups.hybrid() && job.simulation.network == NetworkKind::flow;
  const double reductions = layout.options.stage == 2 ? job.passes() : 1;
  return choose_engine(job, meet, (1 + 2 * reductions) * static_cast<double>(layout.buckets.size()),
                       alike_steps(job.stragglers));
}

}  // namespace

// Hybrid groups are axes of the world: ranks share a lane only if they are in equal groups of both
// kinds.
StrategyResult Zero::simulate(const Job& job) const {
  const ZeroLayout layout = zero_layout(job, options_);
  TrainingWorld world(job, "zero", engine_for(job, layout), axes_of(job.mesh, layout.groups));
  double on_device = 0;  // seconds of the optimizer on a device, mean over stages
  StrategyResult result = train(world, [&](TrainingContext& context) {
    auto hooks = std::make_unique<ZeroHooks>(context, options_);
    on_device += hooks->update().optimizer.busy / static_cast<double>(world.stages.size());
    return hooks;
  });
  // The device is idle while the host updates.
  if (updater(job) == Updater::own_host) {
    result.device_busy -= std::max(0.0, result.split.optimizer - on_device);
  }
  return result;
}

Updater Zero::updater(const Job& job) const {
  return options_.offload.is_used() && !is_host(job.machine.device) ? Updater::own_host
                                                                    : Updater::device;
}

int Zero::state_ranks(const Job& job) const {
  return zero_layout(job, options_).groups.ranks * (job.mesh.gpus() / job.mesh.copies());
}

namespace {

// Device memory of a rank: a replica that holds the optimizer's state of its share. Stage 1 holds
// all gradients in buckets; stage 2 holds a shard of the gradients and one or two buckets.
MemoryPlan memory_plan(const Job& job, const ZeroOptions& options) {
  const ZeroLayout layout = zero_layout(job, options);
  MemoryPlan plan = replica_memory_plan(job);
  plan.replicated.updated_share = plan.replicated.updated_share_of_experts =
      1 - layout.offloaded_share();
  plan.replicated.kept_state_bytes = kept_master_bytes(
      job, layout.options.offload, layout.updated().elements * layout.offloaded_share());
  if (layout.moves_gradients()) {
    ReplicatedPlan& rank = plan.replicated;
    if (layout.keeps_tensors_whole()) {
      rank.updated_tensors = layout.whole_tensors();
    } else {
      rank.updated_share *= layout.share();
      rank.updated_share_of_experts *= layout.share(true);
    }
    double gradients = 0, largest = 0;
    for (const Bucket& bucket : layout.buckets) {
      if (options.stage == 1 && !rank.gradients_join_late)
        rank.bucket_bytes.push_back(bucket.bytes);
      gradients += bucket.bytes;
      largest = std::max(largest, bucket.bytes);
    }
    // With a reduce-scatter, the gradients lie in the buckets. With an all-reduce, the buckets are
    // DDP's.
    if (layout.scatters() && !rank.gradients_join_late) {
      rank.rebuilds_buckets = false;
      rank.gradient_as_bucket_view = rank.gradients_live_in_buckets = true;
    }
    if (rank.gradients_join_late) {
      // nanotron flattens this rank's parameters, and has flat ones of all ranks (distributed.py,
      // all_gather_coalesced).
      const double element_share =
          1.0 * parameter_bytes(job.step->precision) / gradient_bytes(job.step->precision);
      rank.flat_copy_bytes = gradients * element_share * (1 + layout.share());
    }
    if (options.stage == 2) {
      // With overlap, one bucket is filled while the previous bucket is reduced.
      rank.bucket_bytes.assign(options.overlap && layout.buckets.size() > 1 ? 2 : 1, largest);
      rank.gradient_shard_bytes = gradients * layout.share() * (1 - layout.offloaded_share());
    }
    plan.communication_bytes += communicator_bytes(job.machine, layout.groups.shard);
    if (job.mesh.expert > 1) {
      plan.communication_bytes += communicator_bytes(job.machine, layout.expert_groups.shard);
    }
    if (layout.groups.hybrid()) {
      plan.communication_bytes += communicator_bytes(job.machine, layout.groups.replica);
    }
  }
  return plan;
}

}  // namespace

// If the optimizer is offloaded, the host's memory is added for each stage.
std::vector<MemoryUse> Zero::stage_memory(const Job& job, const MemoryQuery& query) const {
  return memory_of_stages(job, [&](const StageMemory& stage) {
    const MemoryPlan plan = memory_plan(stage.job, options_);
    MemoryUse use = memory_use(replica_memory(stage, plan, query), job.machine.device);
    if (updater(job) == Updater::own_host) {
      const ZeroLayout layout = zero_layout(stage.job, options_);
      const double elements = layout.updated().elements * layout.offloaded_share();
      add_offloaded(use, offloaded_memory(stage.job, options_.offload, elements), job.machine);
    }
    return use;
  });
}

nlohmann::ordered_json Zero::communication(const Job& job) const {
  nlohmann::ordered_json j;
  j["stage"] = options_.stage;
  j["bucket_bytes"] = nlohmann::ordered_json::array();
  for (const Bucket& bucket : zero_layout(job, options_).buckets) {
    j["bucket_bytes"].push_back(static_cast<std::int64_t>(bucket.bytes));
  }
  return j;
}

// `still` means that no gradient moves, because there is one rank and no offload.
std::vector<IdleOption> Zero::idle_options(const Job& job) const {
  IdleOptions idle;
  const ZeroOptions usual, &o = options_;
  const bool alone = job.mesh.copies() == 1;
  const std::string nothing = "one GPU shards nothing";
  const ZeroLayout layout = zero_layout(job, o);
  const bool still = !layout.moves_gradients();
  idle.idle_if("stage", o.stage != usual.stage, still, nothing);
  idle.idle_if("shard_group", o.shard_group != 0, o.shard_group >= job.mesh.copies(),
               alone ? nothing : "all ranks are one group");
  ZeroOptions other = o;
  other.bucket_bytes = usual.bucket_bytes;
  const bool same = layout.buckets.size() == zero_layout(job, other).buckets.size();
  idle.idle_if("bucket_size", o.bucket_bytes != usual.bucket_bytes, still || same,
               still ? nothing : "the gradients fall into the same buckets");
  idle.idle_if("overlap", !o.overlap, still, nothing);
  idle.idle_if("reduction", o.reduction != usual.reduction, alone, nothing);
  idle.idle_if("partition", o.partition != usual.partition,
               alone || (o.partition == StatePartition::tensors) != layout.scatters(),
               alone ? nothing : "the reduction says so");
  idle.idle_if("gather", o.gather != usual.gather, alone, nothing);
  idle.idle_if("gradient_element_size", o.gradient_bytes != 0, still && job.passes() == 1, nothing);
  add_idle_options(idle, o.offload, layout.updated(), job);
  return idle.take();
}

// The replay can only delay whole updates. If the fraction is below 1, the device's part is not
// delayed.
void Zero::describe_updates(const Job& job, UpdateSchedule& schedule) const {
  if (options_.offload.fraction >= 1 && delays_update(options_.offload, job)) {
    delay_updates(schedule);
  }
}

std::vector<std::string> Zero::not_replayed(const Job& job) const {
  std::vector<std::string> options;
  if (options_.gradient_bytes == 2) options.push_back("gradient_element_size");
  const OffloadOptions& offload = options_.offload;
  if (offload.fraction < 1 && delays_update(offload, job)) {
    options.push_back("offload.delayed_update");
  }
  return options;
}

std::optional<Diagnostic> Zero::optimizer_misfit(const OptimizerSpec& optimizer,
                                                 const Device&) const {
  return without_whole_matrices(optimizer, "zero", "ZeRO's ranks update shares of them");
}

std::unique_ptr<Strategy> make_strategy(const ZeroOptions& options) {
  return std::make_unique<Zero>(options);
}

}  // namespace lockstep
