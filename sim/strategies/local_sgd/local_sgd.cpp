// As torch.distributed.algorithms.model_averaging does it: PeriodicModelAverager after each step of
// the optimizer, average_parameters() when its time has come.
#include "strategies/local_sgd/local_sgd.hpp"

#include <nlohmann/json.hpp>

#include "core/statistics.hpp"
#include "memory/step_memory.hpp"
#include "results/schedule.hpp"
#include "strategies/common/replica.hpp"

namespace lockstep {

namespace {

// torch.cat copies so many tensors with one kernel (CAT_ARRAY_BATCH_SIZE of ATen's Shape.cu).
constexpr int tensors_per_kernel = 128;

class Averager final : public TrainingHooks {
 public:
  Averager(TrainingContext& context, const Replica& replica, int every, double flat_bytes)
      : context_(context),
        ranks_(context.ranks),
        replica_(replica),
        every_(every),
        communicator_(ranks_.add_communicator("averaging")) {
    const Job& job = context.job;
    if (job.gpus == 1) return;
    const int tensors = static_cast<int>(replica.tensors.size());
    const int kernels = (tensors + tensors_per_kernel - 1) / tensors_per_kernel;
    flatten_ = job.costs->stream(2 * flat_bytes, kernels);
    divide_ = job.costs->stream(2 * flat_bytes, 1);
    views_ = tensors * view_dispatches * job.costs->stream(1, 1).host;
    all_reduce_ = context.network.collective(group_of(job.machine, job.gpus),
                                             Collective::all_reduce, flat_bytes);
  }

  const Passes& passes(const MicroBatch& batch) const override {
    return batch.first ? replica_.alone : replica_.alone_adding;
  }

  Program after_update(int step) override {
    if (all_reduce_.seconds <= 0 || step % every_ != 0) co_return;
    context_.copies(flatten_, "flatten parameters");
    context_.copies(divide_, "divide parameters");
    co_await ranks_.host_wait(ranks_.record());  // torch.cuda.synchronize()
    ranks_.wait(context_.collective(communicator_, all_reduce_, ranks_.record()));
    ranks_.host(views_);  // the parameters become views of the sum: nothing is copied back
  }

 private:
  TrainingContext& context_;
  RankGroup& ranks_;
  const Replica& replica_;
  const int every_;
  Communicator& communicator_;
  QueuedWork flatten_, divide_;
  PricedTransfer all_reduce_;
  double views_ = 0;  // host seconds
};

std::vector<GradientTensor> tensors_of(const Job& job) {
  return gradient_tensors(*job.step, gradient_bytes(job.step->precision));
}

// Each update is the mean of what the ranks made of the parameters in `every` steps of their own.
UpdateSchedule schedule_of(const Job& job, const LocalSgdOptions& options,
                           const StrategyResult& result) {
  const int every = options.every;
  const double step = mean(result.step_seconds);
  UpdateSchedule schedule =
      synchronous_schedule(job.gpus, (job.simulation.steps + every - 1) / every,
                           result.first_step_seconds + (every - 1) * step, every * step);
  schedule.exchange = Exchange::parameters;
  schedule.local_steps = every;
  schedule.average_state = options.average_state;
  return schedule;
}

}  // namespace

double LocalSgd::flat_bytes(const Job& job) const {
  double elements = 0;
  for (const GradientTensor& tensor : tensors_of(job)) elements += tensor.elements;
  const double state = optimizer_state_bytes(job.optimizer, job.step->precision);
  return elements * (parameter_bytes(job.step->precision) + (options_.average_state ? state : 0.0));
}

StrategyResult LocalSgd::simulate(const Job& job) const {
  TrainingContext context(job, "local_sgd", choose_engine(job, false, 0, false));
  const Replica replica(context, tensors_of(job));
  Averager averager(context, replica, options_.every, flat_bytes(job));
  StrategyResult result =
      train(context, averager, replica.update, job.gpus > 1 ? options_.every : 1);
  if (!job.simulation.schedule_file.empty() && job.gpus > 1) {
    write_schedule(schedule_of(job, options_, result), job.simulation.schedule_file);
  }
  return result;
}

MemoryUse LocalSgd::memory(const Job& job, const MemoryQuery& query) const {
  MemoryPlan plan = replica_memory_plan(job);
  if (job.gpus > 1) {
    plan.replicated.flat_copy_bytes = flat_bytes(job);
    plan.communication_bytes = communicator_bytes(job.machine, group_of(job.machine, job.gpus));
  }
  return memory_use(step_memory(*job.step, plan, job.machine.device, query), job.machine.device);
}

nlohmann::ordered_json LocalSgd::communication(const Job& job) const {
  return {{"every", options_.every},
          {"averaged_bytes", static_cast<std::int64_t>(flat_bytes(job))}};
}

std::vector<IdleOption> LocalSgd::idle_options(const Job& job) const {
  IdleOptions idle;
  const bool alone = job.gpus == 1;
  const bool stateless = optimizer_state_bytes(job.optimizer, job.step->precision) == 0;
  idle.idle_if("every", options_.every != LocalSgdOptions{}.every, alone,
               "one GPU averages nothing");
  idle.idle_if("average_state", options_.average_state, alone || stateless,
               alone ? "one GPU averages nothing" : "the optimizer keeps no state");
  return idle.take();
}

std::unique_ptr<Strategy> make_strategy(const LocalSgdOptions& options) {
  return std::make_unique<LocalSgd>(options);
}

}  // namespace lockstep
