// As torch.distributed.algorithms.model_averaging does it: PeriodicModelAverager after each step of
// the optimizer, average_parameters() when its time has come.
#include "strategies/local_sgd/local_sgd.hpp"

#include <nlohmann/json.hpp>

#include "core/statistics.hpp"
#include "results/schedule.hpp"
#include "strategies/common/replica.hpp"
#include "strategies/common/stage_memory.hpp"

namespace lockstep {

namespace {

// torch.cat copies so many tensors with one kernel (CAT_ARRAY_BATCH_SIZE of ATen's Shape.cu).
constexpr int tensors_per_kernel = 128;

std::vector<GradientTensor> tensors_of(const Job& job) {
  return gradient_tensors(*job.step, gradient_bytes(job.step->precision));
}

class Averager final : public TrainingHooks {
 public:
  Averager(TrainingContext& context, int every, double flat_bytes)
      : context_(context),
        ranks_(context.ranks),
        replica_(context, tensors_of(context.job)),
        every_(every),
        communicator_(context.stage.communicator("averaging", gradient_ranks(context.job.mesh))) {
    const Job& job = context.job;
    if (job.mesh.copies() == 1) return;
    const int tensors = static_cast<int>(replica_.tensors.size());
    const int kernels = (tensors + tensors_per_kernel - 1) / tensors_per_kernel;
    flatten_ = job.costs->stream(2 * flat_bytes, kernels);
    divide_ = job.costs->stream(2 * flat_bytes, 1);
    views_ = tensors * view_dispatches * job.costs->stream(1, 1).host;
    all_reduce_ =
        context.network.collective(gradient_group(job), Collective::all_reduce, flat_bytes);
  }

  const UpdateWork& update() const override { return replica_.update; }
  const Passes& passes(const MicroBatch& batch) const override {
    return batch.first ? replica_.alone : replica_.alone_adding;
  }

  bool is_quiet(const MicroBatch& batch) const override { return !batch.first; }

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
  const Replica replica_;
  const int every_;
  Communicator& communicator_;
  QueuedWork flatten_, divide_;
  PricedTransfer all_reduce_;
  double views_ = 0;  // host seconds
};

// Each update is the mean of what the ranks made of the parameters in `every` steps of their own.
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
  TrainingWorld world(job, "local_sgd", choose_engine(job, false, 0, false));
  const auto averager = [&](TrainingContext& context) {
    return std::make_unique<Averager>(context, options_.every, flat_bytes(context.job));
  };
  StrategyResult result = train(world, averager, job.mesh.copies() > 1 ? options_.every : 1);
  if (!job.simulation.schedule_file.empty() && job.mesh.copies() > 1) {
    write_schedule(schedule_of(job, options_, result), job.simulation.schedule_file);
  }
  return result;
}

std::vector<MemoryUse> LocalSgd::stage_memory(const Job& job, const MemoryQuery& query) const {
  return replica_memory_of_stages(job, query, [this](const Job& rank) {
    MemoryPlan plan = replica_memory_plan(rank);
    if (rank.mesh.copies() > 1) {
      plan.replicated.flat_copy_bytes = flat_bytes(rank);
      plan.communication_bytes = communicator_bytes(rank.machine, gradient_group(rank));
    }
    return plan;
  });
}

nlohmann::ordered_json LocalSgd::communication(const Job& job) const {
  return {{"every", options_.every},
          {"averaged_bytes", static_cast<std::int64_t>(flat_bytes(job))}};
}

std::vector<IdleOption> LocalSgd::idle_options(const Job& job) const {
  IdleOptions idle;
  const bool alone = job.mesh.copies() == 1;
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
