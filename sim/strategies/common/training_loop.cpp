// Numbers in brackets: facts of docs/strategies.md.
#include "strategies/common/training_loop.hpp"

#include "strategies/common/micro_batches.hpp"

namespace lockstep {

namespace {

class TrainingLoop {
 public:
  TrainingLoop(TrainingContext& context, TrainingHooks& hooks, const UpdateWork& update)
      : context_(context),
        job_(context.job),
        ranks_(context.ranks),
        hooks_(hooks),
        update_(update),
        input_(context.job, context.ranks, context.network),
        middle_(context.job, context.ranks, input_, context.provenance),
        host_optimizer_(context.ranks.add_stream("host optimizer", WaitCause::optimizer)) {
    for (const LayerCost& layer : context.costs.layers) {
      context.always.add(layer.forward, job_.accumulation);
      context.always.add(layer.backward, job_.accumulation);
    }
    context.always.add(update.optimizer);
    context.always.add(Provenance::modelled, update.on_host);
    context.always.add(input_.copy(), job_.accumulation);
  }

  Program step(int step) {
    context_.provenance.add(context_.always);
    played_ = 0;
    for (int micro = 0; micro < job_.accumulation; ++micro) {
      const MicroBatch batch{step, micro == 0, micro + 1 == job_.accumulation};
      co_await input_.next_batch();
      const Passes& passes = hooks_.passes(batch);
      hooks_.begin_forward(batch);
      co_await play(passes.forward, Phase::forward);
      co_await play(passes.backward, Phase::backward);
      co_await hooks_.end_backward();
      ++played_;
      if (batch.last) break;
      co_await middle_.ended(micro);
      micro += middle_.counted();
    }
    if (update_.on_host > 0) {
      co_await update_on_host();
    } else {
      co_await update_on_device();
    }
    co_await hooks_.after_update(step);
  }

  int played() const { return played_; }  // micro-batches of the latest step

 private:
  Program play(const std::vector<PassItem>& pass, Phase phase) {
    for (const PassItem& item : pass) {
      switch (item.hook) {
        case Hook::layers:
          ranks_.compute(phase, item.work);
          break;
        case Hook::pre_forward:
          co_await hooks_.pre_forward(item.unit);
          break;
        case Hook::post_forward:
          hooks_.post_forward(item.unit);
          break;
        case Hook::pre_backward:
          co_await hooks_.pre_backward(item.unit);
          break;
        case Hook::post_backward:
          co_await hooks_.post_backward(item.unit);
          break;
      }
    }
  }

  Program update_on_device() {
    if (update_.clips) {
      context_.copies(update_.norm, "clip_grad_norm_");
      hooks_.reduce_scalar();
      context_.copies(update_.scaling, "clip_grad_norm_");
    }
    if (optimizer_synchronises(job_.step->precision)) {
      hooks_.reduce_scalar();  // found_inf
      // GradScaler reads found_inf before it lets the optimizer step [22].
      co_await ranks_.host_wait(ranks_.record());
    }
    ranks_.compute(Phase::optimizer, update_.optimizer, "Optimizer.step");
  }

  // The gradients are on the host by now.
  Program update_on_host() {
    if (update_.clips) {
      hooks_.reduce_scalar();
      co_await ranks_.host_wait(ranks_.record());  // the norm goes back to the host
    }
    ranks_.wait(ranks_.host_position());
    // Nothing of the next step can begin before.
    const Event updated =
        ranks_.enqueue(host_optimizer_, update_.on_host, {}, true, "Optimizer.step");
    ranks_.wait(updated);
    co_await ranks_.host_wait(updated);
  }

  TrainingContext& context_;
  const Job& job_;
  RankGroup& ranks_;
  TrainingHooks& hooks_;
  const UpdateWork& update_;
  InputPipeline input_;
  MiddleMicroBatches middle_;
  int played_ = 0;
  const StreamId host_optimizer_;
};

}  // namespace

StrategyResult train(TrainingContext& context, TrainingHooks& hooks, const UpdateWork& update,
                     int period) {
  const Job& job = context.job;
  TrainingLoop loop(context, hooks, update);
  StrategyResult result;
  const auto one_step = [&](int step) {
    if (step == 0 || (step - 1) % period == 0) context.provenance = {};
    return loop.step(step);
  };
  run_steps(context.world, context.ranks, context.speeds, job, period, one_step, result);
  result.engine = context.engine;
  result.simulated_micro_batches = loop.played();
  result.provenance = context.provenance.share();
  result.samples_per_step = static_cast<double>(job.step->samples) * job.gpus * job.accumulation;
  return result;
}

}  // namespace lockstep
