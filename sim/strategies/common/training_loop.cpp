// The program of a stage's host: one optimizer step after the other, with the hooks of a strategy.
// Without a pipeline, micro-batches run one after the other. With a pipeline, the stage plays its
// program of the schedule (parallel/schedule.hpp). The step follows PyTorch's training loops and
// Megatron-LM's train_step(). Numbers in brackets are facts of docs/facts.md.
#include "strategies/common/training_loop.hpp"

#include <algorithm>
#include <span>

#include "strategies/common/folded_passes.hpp"
#include "strategies/common/micro_batches.hpp"
#include "strategies/common/stage_transfers.hpp"

namespace lockstep {

namespace {

// A part of the model on a stage: its context, its hooks, and its exchanges under way.
struct Part {
  TrainingContext* context;
  std::unique_ptr<TrainingHooks> hooks;
  int number = 0;  // number in the order of the model
  std::unique_ptr<FoldedPasses> folded;
  std::vector<Event> exchanges_under_way;  // by slot (PassItem::unit)
  // If micro-batches are cut into token slices: the layers and exchanges of each slice. The hooks
  // of the whole part are called around them.
  std::vector<Part> slices;

  // The layers of the micro-batch with number `micro`, which counts token slices if there are any.
  Part& work_of(int micro) {
    if (slices.empty()) return *this;
    const auto place = static_cast<std::size_t>(micro);
    return slices[place % slices.size()];
  }
};

// Seconds that a single controller needs to dispatch one computation of a stage (costs/host.hpp).
double dispatch_seconds(const Job& job) {
  return job.controller.seconds(nodes_of(job.mesh.stage_gpus(), job.machine));
}

// With `dispatch: in-turn`, a controller dispatches the stage's next computation when the previous
// one has ended. The compute stream waits for the dispatch.
void dispatch_in_turn(const Job& job, RankGroup& ranks, StreamId controller) {
  if (job.controller.dispatch != Dispatch::in_turn) return;
  ranks.wait(ranks.enqueue(controller, dispatch_seconds(job), ranks.record(), true, "dispatch"));
}

// Number of actions that are not messages.
std::int64_t computations_of(const RankProgram& program) {
  return std::count_if(program.begin(), program.end(),
                       [](const Action& action) { return !is_message(action.deed); });
}

// The action's micro-batch (or token slice) as hooks see it. Backward visits the slices of a
// micro-batch from the last to the first.
MicroBatch batch_of(const Job& job, const Action& action, int step) {
  const int slices = job.slices_of_micro_batch();
  const int slice = action.micro % slices;
  int place = action.micro;
  if (action.deed != Deed::forward) place += slices - 1 - 2 * slice;
  return {step, place == 0, place + 1 == job.passes()};
}

// The host of one stage.
class TrainingLoop {
 public:
  TrainingLoop(TrainingWorld& world, StageRanks& stage, EndlessProgram program,
               std::vector<Part> parts, StageTransfers& transfers)
      : job_(world.job),
        ranks_(stage.ranks),
        program_(std::move(program)),
        parts_(std::move(parts)),
        transfers_(transfers),
        input_(parts_.front().context->job, ranks_, stage.network,
               stage.stage * job_.mesh.stage_gpus()),
        middle_(job_, ranks_, input_, parts_.front().context->provenance),
        host_optimizer_(ranks_.add_stream("host optimizer", WaitCause::optimizer)),
        nvme_read_(ranks_.add_stream("NVMe read", WaitCause::optimizer)),
        nvme_write_(ranks_.add_stream("NVMe write", WaitCause::optimizer)),
        to_device_(ranks_.add_stream("updated parameters", WaitCause::copies)),
        controller_(ranks_.add_stream("controller", WaitCause::host_bound)),
        folds_(job_.simulation.observer == nullptr && !one_thread(job_) &&
               job_.device_of_rank.empty()) {
    // The provenance of the work that every step has.
    for (Part& part : parts_) {
      TrainingContext& context = *part.context;
      for (int slice = 0; slice < job_.slices_of_micro_batch(); ++slice) {
        for (const LayerCost& layer : part.work_of(slice).context->costs.layers) {
          context.always.add(layer.forward, job_.accumulation);
          context.always.add(layer.backward, job_.accumulation);
        }
      }
      const UpdateWork& update = part.hooks->update();
      context.always.add(update.optimizer);
      context.always.add(Provenance::modelled, update.host.seconds);
      if (part.number == 0) context.always.add(input_.copy(), job_.accumulation);
    }
  }

  // One optimizer step: micro-batches, sums over tensor ranks and tied stages, update.
  Program step(int step) {
    for (Part& part : parts_) part.context->provenance.add(part.context->always);
    if (job_.controller.dispatch == Dispatch::ahead) {
      // The controller dispatches the computations of all stages before the devices need them, on a
      // stream of its own. The step begins when all its computations are dispatched.
      const double computations =
          job_.parts ? static_cast<double>(job_.mesh.pipeline * computations_of(program_.step)) : 1;
      ranks_.wait(ranks_.enqueue(controller_, computations * dispatch_seconds(job_), {}, false,
                                 "dispatch"));
    }
    if (!job_.parts) dispatch_in_turn(job_, ranks_, controller_);
    if (job_.parts) {
      co_await pipelined(step);
    } else {
      co_await one_after_the_other(step);
    }
    for (Part& part : parts_) co_await part.hooks->end_micro_batches();
    for (Part& part : parts_) part.context->sum_over_tensor_ranks();
    co_await transfers_.share_gradients();
    if (parts_.front().hooks->update().host.seconds > 0) {
      co_await update_on_host();
    } else {
      co_await update_on_device();
    }
    for (Part& part : parts_) {
      co_await part.hooks->after_update(step);
      for (Part& slice : part.slices) {
        part.context->provenance.add(std::exchange(slice.context->provenance, {}));
      }
    }
  }

  int played() const { return played_; }  // number of micro-batches simulated in the latest step
  std::vector<Part>& parts() { return parts_; }

 private:
  // The micro-batches of a step without a pipeline. Micro-batches that repeat are skipped
  // (micro_batches.hpp).
  Program one_after_the_other(int step) {
    Part& part = parts_.front();
    played_ = 0;
    for (int micro = 0; micro < job_.accumulation; ++micro) {
      const MicroBatch batch{step, micro == 0, micro + 1 == job_.accumulation};
      co_await input_.next_batch();
      const Passes& passes = part.hooks->passes(batch);
      part.hooks->begin_forward(batch);
      co_await play(part, part, passes.forward, Phase::forward, batch);
      co_await play(part, part, passes.backward, Phase::backward, batch);
      co_await part.hooks->end_backward();
      ++played_;
      if (batch.last) break;
      if (part.hooks->outlasts_micro_batches()) continue;
      co_await middle_.ended(micro);
      micro += middle_.counted();
    }
  }

  // The stage's program of the schedule, with its messages. If the schedule never drains, it has an
  // opening before its first step.
  Program pipelined(int step) {
    played_ = job_.accumulation;
    if (step == 0) co_await play(program_.opening, step);
    co_await play(program_.step, step);
    // The last micro-batch's reductions are awaited after the whole program, when all messages to
    // other stages have left (Megatron-LM, forward_backward_pipelining: finalize_model_grads comes
    // last).
    for (Part& part : parts_) {
      part.hooks->begin_backward({step, job_.passes() == 1, true});
      co_await part.hooks->end_backward();
    }
    if (drains(job_.parallel.pipeline.schedule)) transfers_.end_step();
  }

  // Plays actions in order. Two actions that run beside each other (Action::with_next) begin when
  // the inputs of both have arrived.
  Program play(const RankProgram& program, int step) {
    for (std::size_t i = 0; i < program.size(); ++i) {
      const Action& action = program[i];
      if (is_message(action.deed)) {
        co_await transfers_.play(action);
        continue;
      }
      co_await transfers_.arrived(action);
      if (action.with_next) co_await transfers_.arrived(program[i + 1]);
      dispatch_in_turn(job_, ranks_, controller_);
      co_await act(action, step);
    }
  }

  // Forward or backward of one chunk for one micro-batch. The first part of the model needs no
  // gradient of its input, so backward_weight computes its whole backward.
  Program act(const Action& action, int step) {
    Part& part = parts_[static_cast<std::size_t>(action.chunk)];
    Part& work = part.work_of(action.micro);
    const MicroBatch batch = batch_of(job_, action, step);
    switch (action.deed) {
      case Deed::forward:
        if (part.number == 0 && action.micro % job_.slices_of_micro_batch() == 0) {
          co_await input_.next_batch();
        }
        part.hooks->begin_forward(batch);
        co_await play(part, work, work.hooks->passes(batch).forward, Phase::forward, batch);
        break;
      case Deed::backward:
        part.hooks->begin_backward(batch);
        co_await play(part, work, work.hooks->passes(batch).backward, Phase::backward, batch);
        if (!batch.last) co_await part.hooks->end_backward();
        break;
      case Deed::backward_input:
        if (part.number == 0) break;
        part.hooks->begin_backward(batch);
        co_await play(part, part, part.hooks->passes(batch).backward_input, Phase::backward, batch);
        break;
      case Deed::backward_weight: {
        part.hooks->begin_backward(batch);
        const Passes& passes = part.hooks->passes(batch);
        co_await play(part, part, part.number == 0 ? passes.backward : passes.backward_weight,
                      Phase::backward, batch);
        if (!batch.last) co_await part.hooks->end_backward();
        break;
      }
      default:
        break;
    }
  }

  // Plays a pass of `work`, which is the part or one of its token slices. If the micro-batch sends
  // nothing but exchanges, runs of exchanges are played as one piece (folded_passes.hpp).
  Program play(Part& part, Part& work, const std::vector<PassItem>& pass, Phase phase,
               const MicroBatch& batch) {
    TrainingHooks& hooks = *part.hooks;
    if (!folds_ || !hooks.is_quiet(batch)) {
      co_await play(hooks, work, pass, phase);
      co_return;
    }
    for (const FoldedPasses::Item& item : work.folded->of(pass)) {
      co_await play(hooks, work, item.items, phase);
      if (item.exchanged == nullptr) continue;
      work.folded->tally(*item.exchanged);
      ranks_.compute(phase, *item.communicator, *item.exchanged);
    }
  }

  // Plays items of a pass one after the other.
  Program play(TrainingHooks& hooks, Part& part, std::span<const PassItem> pass, Phase phase) {
    for (const PassItem& item : pass) {
      switch (item.hook) {
        case Hook::layers:
          ranks_.compute(phase, item.work);
          break;
        case Hook::pre_forward:
          co_await hooks.pre_forward(item.unit);
          break;
        case Hook::post_forward:
          hooks.post_forward(item.unit);
          break;
        case Hook::pre_backward:
          co_await hooks.pre_backward(item.unit);
          break;
        case Hook::post_backward:
          co_await hooks.post_backward(item.unit);
          break;
        case Hook::start_exchange:
          under_way(part, item) = part.context->exchange(*item.exchange, ranks_.record());
          break;
        case Hook::await_exchange:
          ranks_.wait(under_way(part, item));
          if (item.exchange->host_waits) co_await ranks_.host_wait(under_way(part, item));
          break;
      }
    }
  }

  // The event of the item's exchange, by slot.
  static Event& under_way(Part& part, const PassItem& item) {
    const auto slot = static_cast<std::size_t>(item.unit);
    if (slot >= part.exchanges_under_way.size()) part.exchanges_under_way.resize(slot + 1);
    return part.exchanges_under_way[slot];
  }

  // Reduces a number over all ranks of the job: over the ranks that share a stage's state, then
  // over all stages. If the schedule never drains, each stage updates by itself and uses its own
  // norm.
  Program reduce_scalar() {
    for (Part& part : parts_) part.hooks->reduce_scalar();
    parts_.front().context->reduce_scalar_over_tensor_ranks();
    if (drains(job_.parallel.pipeline.schedule)) co_await transfers_.meet();
  }

  // Clipping, loss scaling and the optimizer, all on the compute stream.
  Program update_on_device() {
    if (parts_.front().hooks->update().clips) {
      for (Part& part : parts_) {
        part.context->copies(part.hooks->update().norm, "clip_grad_norm_");
      }
      co_await reduce_scalar();
      for (Part& part : parts_) {
        part.context->copies(part.hooks->update().scaling, "clip_grad_norm_");
      }
    }
    if (optimizer_synchronises(job_.step->precision)) {
      // The ranks agree on found_inf, and the host reads it before GradScaler calls the optimizer's
      // step [22].
      co_await reduce_scalar();
      co_await ranks_.host_wait(ranks_.record());
    }
    for (Part& part : parts_) {
      ranks_.compute(Phase::optimizer, part.hooks->update().optimizer, "Optimizer.step");
    }
  }

  // The update of an offloaded optimizer. The strategy's hooks have already copied the gradients to
  // the host.
  Program update_on_host() {
    if (parts_.front().hooks->update().clips) {
      co_await reduce_scalar();
      co_await ranks_.host_wait(ranks_.record());  // the host needs the norm for clipping
    }
    for (Part& part : parts_) {
      const QueuedWork& on_device = part.hooks->update().optimizer;
      if (on_device.busy > 0) ranks_.compute(Phase::optimizer, on_device, "Optimizer.step");
    }
    ranks_.wait(ranks_.host_position());
    // With delayed_update, the host computes this step's update beside the next step. Therefore
    // this step first waits for the previous step's update, whose parameters the next step uses.
    const bool delayed = parts_.front().hooks->update().host.delayed;
    if (delayed) co_await await_host_update();
    const Event gradients = delayed ? ranks_.record() : Event{};
    for (Part& part : parts_) issue_on_host(*part.context, part.hooks->update().host, gradients);
    if (!delayed) co_await await_host_update();
  }

  // Issues the chunks of a part's update on four streams: NVMe read, cores, NVMe write, copy to the
  // device. Each stream works on only one chunk, so that chunks overlap as in a pipeline.
  void issue_on_host(TrainingContext& context, const HostUpdate& update, const Event& gradients) {
    for (int chunk = 0; chunk < update.chunks; ++chunk) {
      Event ready = gradients;
      if (update.read > 0) {
        ready = ranks_.enqueue(nvme_read_, update.read, gradients, true, "NVMe read");
      }
      host_updated_ = ranks_.enqueue(host_optimizer_, update.seconds / update.chunks, ready, true,
                                     "Optimizer.step");
      if (update.write > 0) {
        host_written_ =
            ranks_.enqueue(nvme_write_, update.write, host_updated_, true, "NVMe write");
      }
      if (update.to_device.seconds > 0) {
        host_copied_ = context.copy(to_device_, update.to_device, host_updated_);
      }
    }
  }

  // Device and host wait until the latest issued update is complete.
  Program await_host_update() {
    for (const Event& part : {host_updated_, host_written_, host_copied_}) {
      ranks_.wait(part);
      co_await ranks_.host_wait(part);
    }
  }

  const Job& job_;
  RankGroup& ranks_;
  const EndlessProgram program_;  // the opening is empty if the schedule drains
  std::vector<Part> parts_;       // by chunk
  StageTransfers& transfers_;
  InputPipeline input_;
  MiddleMicroBatches middle_;
  int played_ = 0;
  const StreamId host_optimizer_, nvme_read_, nvme_write_, to_device_, controller_;
  // Ends of the latest update on each of its streams.
  Event host_updated_, host_written_, host_copied_;
  const bool folds_;  // whether runs of exchanges may be played as one piece
};

// "FIRST .. LAST": the names of the first and the last layer of a part, without "receive" and
// "send".
std::string layers_text(const std::vector<Layer>& layers) {
  const auto first = std::find_if(layers.begin(), layers.end(),
                                  [](const Layer& layer) { return layer.kind != "receive"; });
  const auto last = std::find_if(layers.rbegin(), layers.rend(),
                                 [](const Layer& layer) { return layer.kind != "send"; });
  return first->name + " .. " + last->name;
}

using OneStep = std::function<Program(std::size_t stage, int step)>;

// The program of each stage; empty programs if there is no pipeline.
std::vector<EndlessProgram> stage_programs(const Job& job, std::size_t stages) {
  if (!job.parts) return std::vector<EndlessProgram>(stages);
  const PipelineSchedule schedule = job.parallel.pipeline.schedule;
  const PipelineShape shape = pipeline_shape(job);
  std::vector<EndlessProgram> programs;
  if (drains(schedule)) {
    for (RankProgram& step : with_messages(schedule, shape, programs_of(schedule, shape), true)) {
      programs.push_back({{}, std::move(step)});
    }
    return programs;
  }
  for (int rank = 0; rank < shape.stages; ++rank) programs.push_back(endless_program(shape, rank));
  return programs;
}

// Makes the loops of all stages and simulates the job. `run` (run_steps() or run_apart()) executes
// one step after the other on the stages, and fills the result's times and traffic. train_by() adds
// provenance, names of the stages' layers, and samples.
StrategyResult train_by(TrainingWorld& world, const MakeHooks& make_hooks, int period,
                        const std::function<void(const OneStep&, StrategyResult&)>& run) {
  const Job& job = world.job;
  const std::vector<EndlessProgram> programs = stage_programs(job, world.stages.size());
  JobTransfers transfers(world);
  std::deque<TrainingLoop> loops;
  for (StageRanks& stage : world.stages) {
    std::vector<Part> parts;
    for (std::size_t number = 0; number < world.parts.size(); ++number) {
      if (&world.parts[number].stage != &stage) continue;
      const auto part_of = [&](TrainingContext& context) {
        return Part{&context,
                    make_hooks(context),
                    static_cast<int>(number),
                    std::make_unique<FoldedPasses>(context),
                    {},
                    {}};
      };
      parts.push_back(part_of(world.parts[number]));
      Part& part = parts.back();
      for (auto& slice : world.slices) {
        part.slices.push_back(part_of(slice[number]));
      }
    }
    const auto rank = static_cast<std::size_t>(stage.stage);
    loops.emplace_back(world, stage, programs[rank], std::move(parts), transfers.of(stage.stage));
  }
  StrategyResult result;
  // The provenance is that of the latest period only.
  const OneStep one_step = [&](std::size_t stage, int step) {
    if (step == 0 || (step - 1) % period == 0) {
      for (Part& part : loops[stage].parts()) part.context->provenance = {};
    }
    return loops[stage].step(step);
  };
  run(one_step, result);
  for (const TrainingContext& part : world.parts) {
    if (result.stages.empty()) break;
    const std::vector<Layer>& layers = part.job.step->layers;
    result.stages[static_cast<std::size_t>(part.stage.stage)].layers.push_back(layers_text(layers));
  }
  result.engine = world.engine;
  result.simulated_micro_batches = loops.front().played();
  ProvenanceTally provenance;
  for (const TrainingContext& part : world.parts) provenance.add(part.provenance);
  result.provenance = provenance.share();
  result.samples_per_step =
      static_cast<double>(job.step->samples) * job.mesh.replicas() * job.accumulation;
  return result;
}

}  // namespace

StrategyResult train(TrainingWorld& world, const MakeHooks& make_hooks, int period) {
  return train_by(world, make_hooks, period, [&](const OneStep& one_step, StrategyResult& result) {
    run_steps(world, period, one_step, result);
  });
}

// Each rank becomes a stage that has one rank and sends no messages to other stages.
StrategyResult train_apart(const Job& job, const std::string& name,
                           const std::function<Apart(TrainingWorld&)>& make) {
  Job stages = job;
  std::swap(stages.mesh.pipeline, stages.mesh.data);
  TrainingWorld world(stages, name, choose_engine(job, true, job.mesh.gpus(), false));
  const Apart apart = make(world);
  StrategyResult result =
      train_by(world, apart.make_hooks, 1, [&](const OneStep& one_step, StrategyResult& outcome) {
        run_apart(world, one_step, apart.after_step, outcome);
      });
  result.samples_per_step *= job.mesh.gpus();
  return result;
}

}  // namespace lockstep
