// DistributedDataParallel as hooks on the training step, in the order of PyTorch's reducer
// (torch/csrc/distributed/c10d/reducer.cpp). Each hook issues copies and collectives of the plan
// (plan.hpp). Numbers in brackets are facts of docs/facts.md.
//
//   backward          |layers|layers|layers|
//   at each cut              ^ copies into buckets; full buckets are launched in order
//   end_backward                           ^ waits for the buckets in order, copies them back
#include "strategies/ddp/ddp.hpp"

#include <utility>

#include "costs/interference.hpp"
#include "strategies/ddp/plan.hpp"

namespace lockstep {

namespace {

// Work of a communication hook on a CPU. The thread that runs the collectives does this work
// between them, and competes with backward for the core. Therefore the work is issued as a transfer
// without bytes that keeps one core busy.
Event in_callback(TrainingContext& context, Communicator& communicator, const QueuedWork& work,
                  const Event& after) {
  const double cores = cores_per_rank(context.job.machine, context.job.mesh.gpus());
  context.provenance.add(work);
  TransferSpec spec;
  spec.latency_seconds = work.span;
  spec.cores = 1;
  spec.speed_beside_compute = share_cores(cores, spec.cores).communication;
  spec.name = "comm hook";
  return context.ranks.start(communicator, spec, after);
}

// PyTorch's reducer. The units of its passes are first the cuts of backward, then the SyncBatchNorm
// layers.
class Reducer final : public TrainingHooks {
 public:
  Reducer(TrainingContext& context, const DdpOptions& options)
      : context_(context),
        ranks_(context.ranks),
        replica_(context, ddp_tensors(context.job, options)),
        plan_(ddp_plan(context, replica_, options)),
        communicator_(context.stage.communicator("gradients", gradient_ranks(context.job.mesh))),
        experts_(context.job.mesh.expert == 1
                     ? communicator_
                     : context.stage.communicator("expert gradients",
                                                  expert_gradient_ranks(context.job.mesh))),
        hook_stream_(ranks_.add_stream("comm hook")),
        cycle_(ranks_.add_stream("Horovod", WaitCause::communication)),
        waits_for_gradients_(options.horovod()) {}

  const UpdateWork& update() const override { return replica_.update; }

  // Only the last micro-batch of a step reduces gradients.
  const Passes& passes(const MicroBatch& batch) const override {
    if (!batch.last) return batch.first ? plan_.alone : plan_.alone_adding;  // no_sync [17]
    return plan_.schedule(batch.step).passes;
  }

  bool is_quiet(const MicroBatch& batch) const override {
    return !batch.first && !batch.last && plan_.statistics.empty();
  }

  // Broadcasts rank 0's buffers, with one message for each element type [15].
  void begin_forward(const MicroBatch& batch) override {
    batch_ = batch;
    // A micro-batch after one that did not reduce (no_sync) broadcasts nothing [15].
    if (!batch.first) return;
    context_.copies(plan_.buffer_copies, "flatten buffers");
    std::vector<Event> sent;
    for (const PricedTransfer& type : plan_.buffers) sent.push_back(collective(type));
    for (const Event& type : sent) ranks_.wait(type);
    context_.copies(plan_.buffer_copies, "split buffers");
  }

  void begin_backward(const MicroBatch& batch) override { batch_ = batch; }

  // A SyncBatchNorm layer needs the statistics of all ranks before it normalises.
  Program pre_forward(int unit) override {
    gather_statistics(statistics_of(unit));
    co_return;
  }

  // The backward of a SyncBatchNorm layer needs two sums over all ranks. If the layer is
  // checkpointed, its forward is repeated first.
  Program pre_backward(int unit) override {
    const SharedStatistics& shared = statistics_of(unit);
    if (shared.again) gather_statistics(shared);
    context_.copies(shared.joined_sums, "statistics");
    ranks_.wait(collective(shared.reduce));
    co_return;
  }

  // A cut: backward has filled one or more buckets. Copies gradients into their buckets, and
  // launches full buckets strictly in order [8].
  Program post_backward(int cut) override {
    const DdpCut& here = plan_.schedule(batch_.step).cuts[static_cast<std::size_t>(cut)];
    context_.copies(here.copies, "gradients to buckets");
    for (const int bucket : here.launches) {
      reduced_.push_back(
          reduce(plan_.schedule(batch_.step).buckets[static_cast<std::size_t>(bucket)]));
    }
    co_return;
  }

  // finalize_backward: waits for the buckets in order, decodes each one and copies it back [12].
  // The kernels of a serial communication hook run after backward, because on any stream they would
  // take the device from backward [H124].
  Program end_backward() override {
    if (!batch_.last) co_return;
    const Event bitmap = plan_.bitmap.seconds > 0 ? collective(plan_.bitmap) : Event{};
    const std::vector<PlannedBucket>& buckets = plan_.schedule(batch_.step).buckets;
    // The further steps of serial hooks. Each step is issued for all buckets before the next step,
    // so that the device works on the next bucket while one bucket travels.
    bool more = true;
    for (std::size_t part = 1; std::exchange(more, false); ++part) {
      for (std::size_t i = 0; i < reduced_.size(); ++i) {
        const HookPlan& hook = buckets[i].hook;
        if (!hook.serial || part >= hook.steps.size()) continue;
        more = true;
        ranks_.wait(reduced_[i]);
        context_.copies(hook.steps[part].before, "comm hook");
        reduced_[i] = context_.collective(buckets[i].expert ? experts_ : communicator_,
                                          hook.steps[part].transfer, ranks_.record());
      }
    }
    for (std::size_t i = 0; i < reduced_.size(); ++i) {
      ranks_.wait(reduced_[i]);
      context_.copies(buckets[i].hook.decode, "comm hook");
      context_.copies(buckets[i].copy_out, "bucket to gradients");
    }
    ranks_.wait(bitmap);
    // Horovod's optimizer waits for all gradients before its step [H129].
    if (waits_for_gradients_ && !reduced_.empty()) co_await ranks_.host_wait(reduced_.back());
    reduced_.clear();
  }

  // After the first step, buckets are rebuilt. Rank 0 broadcasts the indices and then the sizes of
  // the new buckets, and the host of every rank waits for the sizes [3].
  Program after_update(int step) override {
    if (step > 0 || plan_.indices.seconds <= 0) co_return;
    const Event order = collective(plan_.indices);
    const Event sizes = context_.collective(communicator_, plan_.indices, order);
    ranks_.wait(sizes);
    co_await ranks_.host_wait(sizes);
  }

 private:
  Event collective(const PricedTransfer& transfer) {
    return context_.collective(communicator_, transfer, ranks_.record());
  }

  // SyncBatchNorm uses the process group of the gradients, so its messages wait for buckets that
  // are under way.
  void gather_statistics(const SharedStatistics& shared) {
    context_.copies(shared.joined, "statistics");
    ranks_.wait(collective(shared.gather));
    context_.copies(shared.combined, "statistics");
  }
  // In passes that reduce, the SyncBatchNorm units are numbered after the cuts.
  const SharedStatistics& statistics_of(int unit) const {
    const std::size_t cuts = batch_.last ? plan_.schedule(batch_.step).cuts.size() : 0;
    return plan_.statistics[static_cast<std::size_t>(unit) - cuts];
  }

  // Issues a bucket's reduction: the plain all-reduce, or the communication hook that replaces it
  // [20, 21]. Returns the end of the reduction. If the hook is serial, only its first step is
  // issued, and its end is returned; end_backward() issues the further steps.
  Event reduce(const PlannedBucket& bucket) {
    const HookPlan& hook = bucket.hook;
    Communicator& communicator = bucket.expert ? experts_ : communicator_;
    Event done;
    for (const HookStep& part : hook.steps) {
      if (!done.state()) {
        context_.copies(part.before, "comm hook");
        done = ranks_.record();
        if (bucket.delay > 0)
          done = ranks_.enqueue(cycle_, bucket.delay, done, false, "negotiation");
        if (bucket.joined.busy > 0) done = on_hook_stream(bucket.joined, done);
      } else {
        done = hook.in_callbacks ? in_callback(context_, communicator, part.before, done)
                                 : on_hook_stream(part.before, done);
      }
      done = context_.collective(communicator, part.transfer, done);
      if (hook.serial) return done;
    }
    if (hook.in_callbacks) return in_callback(context_, communicator, hook.after, done);
    return hook.after.busy > 0 ? on_hook_stream(hook.after, done) : done;
  }

  // Issues work beside backward, on a stream of its own, because PyTorch runs it in callbacks of
  // the collective.
  Event on_hook_stream(const QueuedWork& work, const Event& after) {
    context_.provenance.add(work);
    return ranks_.enqueue(hook_stream_, work.span, after, true, "comm hook",
                          ranks_.elsewhere(work));
  }

  TrainingContext& context_;
  RankGroup& ranks_;
  const Replica replica_;
  const DdpPlan plan_;
  Communicator& communicator_;
  Communicator& experts_;         // for gradients of experts
  StreamId hook_stream_, cycle_;  // `cycle_`: delays of Horovod's background thread
  const bool waits_for_gradients_;
  MicroBatch batch_;
  std::vector<Event> reduced_;  // by bucket launched so far: the end of its reduction
};

}  // namespace

StrategyResult Ddp::simulate(const Job& job) const {
  const DdpOptions options = options_for(job, options_);
  TrainingWorld world(job, "ddp", choose_engine(job, false, 0, false));
  StrategyResult result = train(world, [&options](TrainingContext& context) {
    return std::make_unique<Reducer>(context, options);
  });
  if (std::holds_alternative<PowerSgdHook>(options.comm_hook)) {
    result.notes.push_back(
        "PowerSGD is simulated in its compressing phase (PyTorch starts it after 1000 steps)");
  }
  return result;
}

}  // namespace lockstep
