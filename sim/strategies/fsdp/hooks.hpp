// FSDP as hooks on the training step. FsdpOrder determines the actions that the host issues at a
// hook. The classes below issue them on the streams of FSDP1 or FSDP2, with the costs of FsdpPlan.
// fsdp.cpp makes the hooks.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "strategies/fsdp/offloaded_shards.hpp"
#include "strategies/fsdp/plan.hpp"

namespace lockstep {

// Base of both versions. NCCL runs the collectives of one communicator one after the other, no
// matter on which stream they were issued (facts 11, 30): a late reduce-scatter blocks the next
// all-gather.
class FsdpHooks : public TrainingHooks {
 public:
  // Takes the plan by move, because names of transfers refer to texts inside the plan.
  FsdpHooks(TrainingContext& context, FsdpPlan&& plan);

  const UpdateWork& update() const override { return plan_.update; }
  const Passes& passes(const MicroBatch&) const override { return plan_.passes; }
  bool is_quiet(const MicroBatch& batch) const override {
    return plan_.layout.once_a_step && !plan_.layout.options.reshard_in_pipeline && !batch.first;
  }
  void begin_forward(const MicroBatch& batch) override;
  // If the micro-batch reduces gradients: makes the compute stream wait for all reductions. If the
  // host updates parameters without delay, the host waits, too (facts 42, 59).
  Program end_backward() override;
  void begin_backward(const MicroBatch& batch) override;
  Program end_micro_batches() override;
  // A rank knows the norm and found_inf only of its own shards, so all ranks reduce both.
  void reduce_scalar() override;

 protected:
  // Makes the compute stream wait for all reductions. Returns the event that the gradients are
  // complete.
  virtual Event await_reductions() = 0;
  // Issues an action at the end of a pipeline's micro-batches.
  virtual Program finish(const FsdpAction& action) = 0;

  // The event that a unit's parameters, or the output of its all-gather, are available.
  Event& ready(int u) { return ready_[static_cast<std::size_t>(u)]; }
  // Adds a stream of casts and copies. If the host updates parameters, a wait for the stream counts
  // as communication, because its transfers to and from the host take longest; otherwise the wait
  // counts as copies.
  StreamId add_stream(const std::string& name);
  // Issue a collective: over the ranks that share the unit's shards, or over the replicas of a
  // shard.
  Event over_shards(const FsdpUnitPlan& unit, const PricedTransfer& transfer, const Event& after);
  Event over_replicas(const PricedTransfer& transfer, const Event& after);
  // The kernels after a reduction: division and cast; if every micro-batch reduces, in later ones
  // also the addition to the shard's gradient.
  const QueuedWork& after_reduce(const FsdpUnitPlan& unit) const;

  TrainingContext& context_;
  RankGroup& ranks_;
  const FsdpPlan plan_;
  FsdpOrder order_;
  OffloadedShards offloaded_;
  bool reduces_ = true;  // whether this micro-batch reduces its gradients

 private:
  Communicator& shards_;
  Communicator& expert_shards_;
  Communicator& replicas_;
  // Whether the host updates and needs the gradients before the next step begins.
  const bool host_reads_;
  std::vector<Event> ready_;  // by unit
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
  // Queue of the rate limiter: events that the use of freed units has ended (fact 34).
  std::deque<Event> freed_;
  Event start_;  // begin of this forward on the compute stream (fact 42)
  // Events of the latest unit's reduction: its input is ready; its last collective ends; the whole
  // reduction ends. `collective_before_` is the end of the last collective of the previous
  // reduction.
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
  // ZeRO++ on several nodes: communicators of the ranks of a node, and of the ranks at the same
  // place of all nodes. Null without ZeRO++.
  Communicator* in_node_ = nullptr;
  Communicator* between_nodes_ = nullptr;
  Event gate_;             // no all-gather may begin before this event (fact 49)
  Event last_copied_out_;  // end of the latest copy-out of forward
  // Ends of the latest unit's reduce-scatter, last collective and whole reduction.
  Event last_reduce_scatter_, last_collective_, last_reduction_;
};

}  // namespace lockstep
