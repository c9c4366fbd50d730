// The strategy of docs/add-a-strategy.md: replicas whose gradients are all-reduced one tensor after the
// other once backward is over. Nothing of it is shipped; naive_strategy_test.cpp runs it.
#pragma once

#include <array>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/fields.hpp"
#include "strategies/common/replica.hpp"
#include "strategies/options.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

// options.hpp
struct NaiveOptions {
  static constexpr const char* name = "naive";
  static constexpr const char* summary = "replicas; gradients are all-reduced after backward";
  static constexpr std::array<StrategyForm, 0> forms{};  // `recommend` does not try it
  int times = 1;
};

template <class Visitor>
void describe(Visitor& v, NaiveOptions& o) {
  v.field("times", o.times, "How often each tensor is reduced.", {.min = 1, .max = 100});
}

// naive.cpp
class NaiveHooks final : public TrainingHooks {
 public:
  NaiveHooks(TrainingContext& context, const Replica& replica, int times)
      : context_(context),
        replica_(replica),
        communicator_(context.ranks.add_communicator("gradients")),
        times_(times) {
    const Job& job = context.job;
    for (const GradientTensor& tensor : replica.tensors) {
      reductions_.push_back(context.network.collective(group_of(job.machine, job.gpus),
                                                       Collective::all_reduce,
                                                       tensor.elements * tensor.element_bytes));
    }
  }

  void begin_forward(const MicroBatch& batch) override { batch_ = batch; }
  const Passes& passes(const MicroBatch& batch) const override {
    return batch.first ? replica_.alone : replica_.alone_adding;
  }
  Program end_backward() override {
    if (!batch_.last || context_.job.gpus == 1) co_return;
    for (const PricedTransfer& reduction : reductions_) {
      for (int i = 0; i < times_; ++i) {
        const Event done = context_.collective(communicator_, reduction, context_.ranks.record());
        context_.ranks.wait(done);  // the compute stream does; the host goes on
      }
    }
  }

 private:
  TrainingContext& context_;
  const Replica& replica_;
  Communicator& communicator_;
  const int times_;
  std::vector<PricedTransfer> reductions_;
  MicroBatch batch_;
};

class Naive final : public StrategyOf<NaiveOptions> {
 public:
  explicit Naive(const NaiveOptions& options) : StrategyOf(options) {}

  StrategyResult simulate(const Job& job) const override {
    TrainingContext context(job, "naive", choose_engine(job, false, 0, false));
    const Replica replica(context,
                          gradient_tensors(*job.step, gradient_bytes(job.step->precision)));
    NaiveHooks hooks(context, replica, options_.times);
    return train(context, hooks, replica.update);
  }
  MemoryUse memory(const Job& job, const MemoryQuery& asked = {}) const override {
    return memory_use(step_memory(*job.step, replica_memory_plan(job), job.machine.device, asked),
                      job.machine.device);
  }
  nlohmann::ordered_json communication(const Job&) const override {
    return {{"times", options_.times}};
  }
  std::vector<IdleOption> idle_options(const Job& job) const override {
    IdleOptions idle;
    idle.idle_if("times", options_.times != 1, job.gpus == 1, "one GPU reduces nothing");
    return idle.take();
  }
};

inline std::unique_ptr<Strategy> make_strategy(const NaiveOptions& options) {
  return std::make_unique<Naive>(options);
}

}  // namespace lockstep
