// Carry out what FsdpOrder says, on the streams of FSDP1 and of FSDP2. Both have the same functions;
// the hooks of fsdp.cpp call them.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "strategies/common/step_parts.hpp"
#include "strategies/fsdp/plan.hpp"

namespace lockstep {

// Where the hooks act.
struct FsdpStage {
  const FsdpPlan& plan;
  RankGroup& ranks;
  // NCCL runs the collectives of one communicator one after the other, whatever stream they come
  // from [11, 30]: a late reduce-scatter blocks the next all-gather.
  Communicator& shards;
  Communicator& replicas;
  ProvenanceTally& provenance;  // of the step that is being issued

  const FsdpUnitPlan& unit(int u) const { return plan.units[static_cast<std::size_t>(u)]; }
  // A stream of casts and copies on the device; with CPU offload its transfers are what takes long.
  StreamId add_stream(const std::string& name) const {
    return ranks.add_stream(
        name, plan.layout.options.cpu_offload ? WaitCause::communication : WaitCause::copies);
  }
  void compute_copies(const QueuedWork& work) const {
    if (work.busy <= 0) return;
    provenance.add(work);
    ranks.compute(Phase::copies, work);
  }
  Event collective(Communicator& communicator, const PricedTransfer& transfer,
                   const Event& after) const {
    provenance.add(transfer);
    return issue_collective(ranks, communicator, transfer.spec, after);
  }
  Event copy(StreamId stream, const PricedTransfer& transfer, const Event& after) const {
    provenance.add(transfer);
    return ranks.copy(stream, transfer.spec, after);
  }
  // Kernels on another stream: the host launches them, the stream runs them after `after`.
  Event run(StreamId stream, const QueuedWork& kernels, const Event& after) const {
    if (plan.one_thread) return run_in_order(kernels, after);
    provenance.add(kernels);
    ranks.host(kernels.host);
    return ranks.enqueue(stream, kernels.busy, after, kernels.busy > 0, {},
                         ranks.elsewhere(kernels));
  }
  // On a CPU there are no streams: the thread that computes waits and does it here.
  Event run_in_order(const QueuedWork& kernels, const Event& after) const {
    if (kernels.busy <= 0) return after;
    ranks.wait(after);
    compute_copies(kernels);
    return ranks.record();
  }
};

// FullyShardedDataParallel: facts 29-45.
class Fsdp1Runtime {
 public:
  explicit Fsdp1Runtime(const FsdpStage& stage);

  void begin_forward(bool first_micro_batch, bool reduces);
  Program pre_forward(int unit);
  void post_forward(int unit);
  Program pre_backward(int unit);
  Program post_backward(int unit);
  // The compute stream waits for all reductions; the event is when the gradients are complete.
  Event end_backward();

 private:
  Event& ready(int unit) { return ready_[static_cast<std::size_t>(unit)]; }
  Program prepare(FsdpOrder::Actions actions);
  Program unshard(const FsdpAction& action);
  void reshard(const FsdpAction& action, const Event& freed);
  Program reduce(int unit, Event gradient);

  FsdpStage stage_;
  StreamId pre_unshard_, post_backward_, all_reduce_;
  FsdpOrder order_;
  std::vector<Event> ready_;  // of each unit: its parameters may be used
  std::deque<Event> freed_;   // the rate limiter's queue [34]
  Event start_;               // of this forward, in the compute stream [42]
  // Of the latest unit's reduction: its input is ready, the (last) collective, everything; and the
  // last collective of the unit before.
  Event last_input_, last_collective_, last_reduction_, collective_before_;
  bool first_micro_batch_ = true, reduces_ = true;
};

// fully_shard: facts 46-59.
class Fsdp2Runtime {
 public:
  explicit Fsdp2Runtime(const FsdpStage& stage);

  void begin_forward(bool first_micro_batch, bool reduces);
  Program pre_forward(int unit);
  void post_forward(int unit);
  Program pre_backward(int unit);
  Program post_backward(int unit);
  Event end_backward();

 private:
  Event& ready(int unit) { return ready_[static_cast<std::size_t>(unit)]; }
  void prepare(FsdpOrder::Actions actions);
  void unshard(int unit);
  void use(int unit, bool backward);
  void reshard(int unit);
  void reduce(int unit);

  FsdpStage stage_;
  StreamId copy_in_, reduce_, all_reduce_;
  FsdpOrder order_;
  std::vector<Event> ready_;  // of each unit: its collective's output is there
  Event gate_;                // before it no all-gather may begin
  Event last_copied_out_;     // of the forward unit before
  Event last_reduce_scatter_, last_collective_, last_reduction_;
  bool first_micro_batch_ = true, reduces_ = true;
};

}  // namespace lockstep
