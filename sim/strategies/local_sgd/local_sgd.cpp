// Local SGD as in torch.distributed.algorithms.model_averaging: PeriodicModelAverager is called
// after each optimizer step, and calls average_parameters() after every `every` steps.
//
//   after every `every` steps: flatten (torch.cat), divide by the number of ranks, host waits for
//                              the device, all-reduce, parameters become views of the sum
#include "strategies/local_sgd/local_sgd.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/statistics.hpp"
#include "results/schedule.hpp"
#include "strategies/common/replica.hpp"
#include "strategies/common/stage_memory.hpp"

namespace lockstep {

namespace {

// Number of tensors that torch.cat copies with one kernel (CAT_ARRAY_BATCH_SIZE in ATen's
// Shape.cu).
constexpr int tensors_per_kernel = 128;

// The trainable tensors, which are averaged.
std::vector<GradientTensor> tensors_of(const Job& job) {
  return gradient_tensors(*job.step, gradient_bytes(job.step->precision));
}

// Hooks that average parameters after the update. The ranks exchange nothing else.
class Averager final : public TrainingHooks {
 public:
  // `exchanged` is the number of bytes of one exchange: a fragment of the averaged bytes.
  Averager(TrainingContext& context, const LocalSgdOptions& options, double exchanged)
      : context_(context),
        ranks_(context.ranks),
        replica_(context, tensors_of(context.job)),
        every_(options.steps_between_exchanges()),
        overlap_(options.overlap),
        communicator_(context.stage.communicator("averaging", gradient_ranks(context.job.mesh))) {
    const Job& job = context.job;
    if (job.mesh.copies() == 1) return;
    // Kernels and host time of one exchange, in PyTorch's order.
    const int tensors = std::max(1, static_cast<int>(replica_.tensors.size()) / options.fragments);
    const int kernels = (tensors + tensors_per_kernel - 1) / tensors_per_kernel;
    flatten_ = job.costs->stream(2 * exchanged, kernels);
    divide_ = job.costs->stream(2 * exchanged, 1);
    views_ = tensors * view_dispatches * job.costs->stream(1, 1).host;
    all_reduce_ =
        context.network.collective(gradient_group(job), Collective::all_reduce, exchanged);
    if (!options.steps_along_mean()) return;
    // DiLoCo: flattening also computes the distance from the parameters after the last exchange, so
    // that a third tensor is read or written. The outer step reads the distance, the momentum and
    // the start, and writes the momentum, the start and the parameters.
    flatten_ = job.costs->stream(3 * exchanged, kernels);
    outer_step_ = job.costs->stream(6 * exchanged, kernels);
    views_ = 0;
  }

  const UpdateWork& update() const override { return replica_.update; }
  const Passes& passes(const MicroBatch& batch) const override {
    return batch.first ? replica_.alone : replica_.alone_adding;
  }

  bool is_quiet(const MicroBatch& batch) const override { return !batch.first; }

  bool outlasts_micro_batches() const override { return overlap_ > 0; }

  // An exchange begins after each `every_`-th step. Its result is used `overlap_` steps later.
  Program after_update(int step) override {
    if (all_reduce_.seconds <= 0) co_return;
    if (step % every_ == 0) {
      context_.copies(flatten_, "flatten parameters");
      context_.copies(divide_, "divide parameters");
      if (overlap_ == 0) co_await ranks_.host_wait(ranks_.record());  // torch.cuda.synchronize()
      travels_ = context_.collective(communicator_, all_reduce_, ranks_.record());
    }
    if (step % every_ != overlap_ || !travels_.state()) co_return;
    ranks_.wait(travels_);
    travels_ = {};
    context_.copies(outer_step_, "outer step");
    ranks_.host(views_);  // the parameters become views of the sum, without a copy
  }

 private:
  TrainingContext& context_;
  RankGroup& ranks_;
  const Replica replica_;
  const int every_, overlap_;  // number of steps between exchanges, and during an exchange
  Communicator& communicator_;
  Event travels_;  // end of the exchange under way; a default event if none is
  QueuedWork flatten_, divide_, outer_step_;
  PricedTransfer all_reduce_;
  double views_ = 0;  // host seconds
};

// The updates for the accuracy replay. Each update is the mean of the parameters that the ranks
// have reached in `every` steps by themselves.
UpdateSchedule schedule_of(const Job& job, const LocalSgdOptions& options,
                           const StrategyResult& result) {
  const int every = options.every;
  const double step = mean(result.step_seconds);
  UpdateSchedule schedule =
      synchronous_schedule(job.mesh.replicas(), (job.simulation.steps + every - 1) / every,
                           result.first_step_seconds + (every - 1) * step, every * step);
  schedule.exchange = Exchange::parameters;
  schedule.local_steps = every;
  schedule.average_state = options.average_state;
  if (const auto* outer = std::get_if<NesterovOuter>(&options.outer)) {
    schedule.outer_rate = outer->learning_rate;
    schedule.outer_momentum = outer->momentum;
  }
  return schedule;
}

}  // namespace

double LocalSgd::flat_bytes(const Job& job) const {
  double elements = 0;
  for (const GradientTensor& tensor : tensors_of(job)) elements += tensor.elements;
  const double state = optimizer_state_bytes(job.optimizer, job.step->precision);
  return elements * (parameter_bytes(job.step->precision) + (options_.average_state ? state : 0.0));
}

// The program repeats after each exchange, so a period is the number of steps between exchanges.
StrategyResult LocalSgd::simulate(const Job& job) const {
  TrainingWorld world(job, "local_sgd", choose_engine(job, false, 0, false));
  const auto averager = [&](TrainingContext& context) {
    return std::make_unique<Averager>(context, options_,
                                      flat_bytes(context.job) / options_.fragments);
  };
  StrategyResult result =
      train(world, averager, job.mesh.copies() > 1 ? options_.steps_between_exchanges() : 1);
  if (!job.simulation.schedule_file.empty() && job.mesh.copies() > 1) {
    write_schedule(schedule_of(job, options_, result), job.simulation.schedule_file);
  }
  return result;
}

// A replica, plus the flat tensor of an exchange after the update.
std::vector<MemoryUse> LocalSgd::stage_memory(const Job& job, const MemoryQuery& query) const {
  return replica_memory_of_stages(job, query, [this](const Job& rank) {
    MemoryPlan plan = replica_memory_plan(rank);
    if (rank.mesh.copies() > 1) {
      plan.replicated.flat_copy_bytes = flat_bytes(rank) / options_.fragments;
      // DiLoCo keeps the parameters after the last exchange, and the outer momentum.
      if (options_.steps_along_mean()) plan.replicated.hook_state_bytes = 2 * flat_bytes(rank);
      plan.communication_bytes = communicator_bytes(rank.machine, gradient_group(rank));
    }
    return plan;
  });
}

nlohmann::ordered_json LocalSgd::communication(const Job& job) const {
  return {{"every", options_.every},
          {"averaged_bytes", static_cast<std::int64_t>(flat_bytes(job) / options_.fragments)}};
}

std::vector<IdleOption> LocalSgd::idle_options(const Job& job) const {
  IdleOptions idle;
  const bool alone = job.mesh.copies() == 1;
  const bool stateless = optimizer_state_bytes(job.optimizer, job.step->precision) == 0;
  idle.idle_if("every", options_.every != LocalSgdOptions{}.every, alone,
               "one GPU averages nothing");
  idle.idle_if("outer", options_.steps_along_mean(), alone, "one GPU averages nothing");
  if (const auto* outer = std::get_if<NesterovOuter>(&options_.outer)) {
    const NesterovOuter usual;
    idle.learnt_if("outer.nesterov.learning_rate", outer->learning_rate != usual.learning_rate,
                   !alone);
    idle.learnt_if("outer.nesterov.momentum", outer->momentum != usual.momentum, !alone);
  }
  idle.idle_if("fragments", options_.fragments != 1, alone, "one GPU averages nothing");
  idle.idle_if("overlap", options_.overlap != 0, alone, "one GPU averages nothing");
  idle.idle_if("average_state", options_.average_state, alone || stateless,
               alone ? "one GPU averages nothing" : "the optimizer keeps no state");
  return idle.take();
}

std::vector<std::string> LocalSgd::not_replayed(const Job& job) const {
  std::vector<std::string> options;
  if (options_.fragments > 1 && job.mesh.copies() > 1) options.push_back("fragments");
  if (options_.overlap > 0 && job.mesh.copies() > 1) options.push_back("overlap");
  return options;
}

std::unique_ptr<Strategy> make_strategy(const LocalSgdOptions& options) {
  return std::make_unique<LocalSgd>(options);
}

}  // namespace lockstep
