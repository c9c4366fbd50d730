// FSDP as hooks on the training step: they carry out what FsdpOrder says on the streams of a version.
// The price of each action is in plan.hpp.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "strategies/fsdp/offloaded_shards.hpp"
#include "strategies/fsdp/plan.hpp"

namespace lockstep {

// Base of both versions. NCCL runs the collectives of one communicator one after the other, whatever stream
// they come from (facts 11, 30): a late reduce-scatter blocks the next all-gather.
class FsdpHooks : public TrainingHooks {
 public:
  // Names of transfers are of the plan's units: it is moved, never copied.
  FsdpHooks(TrainingContext& context, FsdpPlan&& plan);

  const UpdateWork& update() const override { return plan_.update; }
  const Passes& passes(const MicroBatch&) const override { return plan_.passes; }
  bool is_quiet(const MicroBatch& batch) const override {
    return plan_.layout.once_a_step && !plan_.layout.options.reshard_in_pipeline && !batch.first;
  }
  void begin_forward(const MicroBatch& batch) override;
  // Waits for all reductions; with CPU offload the host does, too [42, 59].
  Program end_backward() override;
  void begin_backward(const MicroBatch& batch) override;
  Program end_micro_batches() override;
  // Every rank has the norm of its shards only, and found_inf of them.
  void reduce_scalar() override;

 protected:
  // The compute stream waits for all reductions; the event is when the gradients are complete.
  virtual Event await_reductions() = 0;
  // Carries out what the order says after a unit's backward, or at the end of the micro-batches.
  virtual Program finish(const FsdpAction& action) = 0;

  Event& ready(int u) { return ready_[static_cast<std::size_t>(u)]; }
  // A stream of casts and copies on the device; with CPU offload its transfers are what takes long.
  StreamId add_stream(const std::string& name);
  // Over the shards, or over the replicas of each.
  Event over_shards(const FsdpUnitPlan& unit, const PricedTransfer& transfer, const Event& after);
  Event over_replicas(const PricedTransfer& transfer, const Event& after);
  // The kernels after a reduction: division, cast, and addition to what earlier micro-batches left.
  const QueuedWork& after_reduce(const FsdpUnitPlan& unit) const;

  TrainingContext& context_;
  RankGroup& ranks_;
  const FsdpPlan plan_;
  FsdpOrder order_;
  OffloadedShards offloaded_;
  bool reduces_ = true;  // in this micro-batch

 private:
  Communicator& shards_;
  Communicator& expert_shards_;
  Communicator& replicas_;
  const bool host_reads_;     // the gradients, before the next step begins
  std::vector<Event> ready_;  // of each unit: its parameters, or the collective's output, are there
  bool first_micro_batch_ = true;
};

// FullyShardedDataParallel: facts 29-45.
class Fsdp1Hooks final : public FsdpHooks {
 public:
  Fsdp1Hooks(TrainingContext& context, FsdpPlan&& plan);

  void begin_forward(const MicroBatch& batch) override;
  Program pre_forward(int unit) override;
  void post_forward(int unit) override;
  Program pre_backward(int unit) override;
  Program post_backward(int unit) override;

 private:
  Event await_reductions() override;
  Program finish(const FsdpAction& action) override;
  Program prepare(FsdpOrder::Actions actions);
  Program unshard(const FsdpAction& action);
  void reshard(const FsdpAction& action, const Event& freed);
  Program reduce(int unit, Event gradient);

  StreamId pre_unshard_, post_backward_, all_reduce_;
  std::deque<Event> freed_;  // the rate limiter's queue [34]
  Event start_;              // of this forward, in the compute stream [42]
  // The latest unit's reduction: its input is ready, its last collective, its end; and the last
  // collective of the unit before.
  Event last_input_, last_collective_, last_reduction_, collective_before_;
};

// fully_shard: facts 46-59.
class Fsdp2Hooks final : public FsdpHooks {
 public:
  Fsdp2Hooks(TrainingContext& context, FsdpPlan&& plan);

  void begin_forward(const MicroBatch& batch) override;
  Program pre_forward(int unit) override;
  void post_forward(int unit) override;
  Program pre_backward(int unit) override;
  Program post_backward(int unit) override;

 private:
  Event await_reductions() override;
  Program finish(const FsdpAction& action) override;
  void prepare(FsdpOrder::Actions actions);
  void unshard(int unit, bool backward);
  void use(int unit, bool backward);
  void reshard(int unit);
  void reduce(int unit);

  StreamId copy_in_, reduce_, all_reduce_;
  // ZeRO++ on several nodes: the ranks of a node, and those at the same place in all nodes.
  Communicator* in_node_ = nullptr;
  Communicator* between_nodes_ = nullptr;
  Event gate_;             // before it no all-gather may begin
  Event last_copied_out_;  // of the forward unit before
  Event last_reduce_scatter_, last_collective_, last_reduction_;
};

}  // namespace lockstep
