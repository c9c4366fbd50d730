// Numbers in brackets: facts of docs/strategies.md.
#include "strategies/common/training_loop.hpp"

#include "strategies/common/micro_batches.hpp"

namespace lockstep {

namespace {

class TrainingLoop {
 public:
  TrainingLoop(TrainingStage& stage, TrainingHooks& hooks, const UpdateWork& update)
      : stage_(stage),
        job_(stage.job),
        ranks_(stage.ranks),
        hooks_(hooks),
        update_(update),
        input_(stage.job, stage.ranks, stage.network),
        middle_(stage.job, stage.ranks, input_, stage.provenance),
        host_optimizer_(stage.ranks.add_stream("host optimizer", WaitCause::optimizer)) {
    for (const LayerCost& layer : stage.costs.layers) {
      stage.always.add(layer.forward, job_.accumulation);
      stage.always.add(layer.backward, job_.accumulation);
    }
    stage.always.add(update.optimizer);
    stage.always.add(Provenance::modelled, update.on_host);
    stage.always.add(input_.copy(), job_.accumulation);
  }

  Program step(int step) {
    stage_.provenance.add(stage_.always);
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
      stage_.copies(update_.norm, "clip_grad_norm_");
      hooks_.reduce_scalar();
      stage_.copies(update_.scaling, "clip_grad_norm_");
    }
    if (optimizer_synchronises(job_.step.precision)) {
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

  TrainingStage& stage_;
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

TrainingStage::TrainingStage(const Job& given, const std::string& name, Engine chosen,
                             std::span<const RankGroups> axes)
    : job(given),
      costs(step_costs(given)),
      speeds(given, axes),
      engine(chosen),
      world({.network = given.network, .engine = chosen, .observer = given.observer}),
      network(world, given),
      ranks(world.add_ranks({.name = name,
                             .ranks_per_lane = speeds.ranks_per_lane(),
                             .lane_of_rank = speeds.lane_of_rank(),
                             .device_of_lane = speeds.device_of_lane(),
                             .slowdown = interference_of(given, costs),
                             .one_thread = one_thread(given)})) {}

Event TrainingStage::collective(Communicator& communicator, const PricedTransfer& transfer,
                                const Event& after) {
  provenance.add(transfer);
  return issue_collective(ranks, communicator, transfer.spec, after);
}

void TrainingStage::copies(const QueuedWork& work, std::string_view name) {
  if (work.busy <= 0) return;
  provenance.add(work);
  ranks.compute(Phase::copies, work, name);
}

StrategyResult train(TrainingStage& stage, TrainingHooks& hooks, const UpdateWork& update,
                     int period) {
  const Job& job = stage.job;
  TrainingLoop loop(stage, hooks, update);
  StrategyResult result;
  const auto one_step = [&](int step) {
    if (step == 0 || (step - 1) % period == 0) stage.provenance = {};
    return loop.step(step);
  };
  run_steps(stage.world, stage.ranks, stage.speeds, job, period, one_step, result);
  result.engine = stage.engine;
  result.simulated_micro_batches = loop.played();
  result.provenance = stage.provenance.share();
  result.samples_per_step = static_cast<double>(job.step.samples) * job.gpus * job.accumulation;
  return result;
}

}  // namespace lockstep
