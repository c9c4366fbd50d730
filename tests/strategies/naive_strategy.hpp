// The example of docs/add-a-strategy.md: replicas whose gradients are all-reduced tensor by tensor
// after backward. The program does not contain it; naive_strategy_test.cpp runs it.
#pragma once

#include <array>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/fields.hpp"
#include "strategies/common/replica.hpp"
#include "strategies/options.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

// In a real strategy: options.hpp
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

// In a real strategy: naive.cpp
class NaiveHooks final : public TrainingHooks {
 public:
  NaiveHooks(TrainingContext& context, int times)
      : context_(context),
        replica_(context, tensors_of(context.job)),
        communicator_(context.stage.communicator("gradients", gradient_ranks(context.job.mesh))),
        times_(times) {
    for (const GradientTensor& tensor : replica_.tensors) {
      reductions_.push_back(context.network.collective(gradient_group(context.job),
                                                       Collective::all_reduce,
                                                       tensor.elements * tensor.element_bytes));
    }
  }

  const UpdateWork& update() const override { return replica_.update; }

  void begin_forward(const MicroBatch& batch) override { batch_ = batch; }
  void begin_backward(const MicroBatch& batch) override { batch_ = batch; }  // for pipelines
  const Passes& passes(const MicroBatch& batch) const override {
    return batch.first ? replica_.alone : replica_.alone_adding;
  }
  Program end_backward() override {
    if (!batch_.last || context_.job.mesh.copies() == 1) co_return;
    for (const PricedTransfer& reduction : reductions_) {
      for (int i = 0; i < times_; ++i) {
        const Event done = context_.collective(communicator_, reduction, context_.ranks.record());
        context_.ranks.wait(done);  // only the compute stream waits; the host continues
      }
    }
  }

 private:
  static std::vector<GradientTensor> tensors_of(const Job& job) {
    return gradient_tensors(*job.step, gradient_bytes(job.step->precision));
  }

  TrainingContext& context_;
  const Replica replica_;
  Communicator& communicator_;
  const int times_;
  std::vector<PricedTransfer> reductions_;
  MicroBatch batch_;
};

class Naive final : public StrategyOf<NaiveOptions> {
 public:
  explicit Naive(const NaiveOptions& options) : StrategyOf(options) {}

  StrategyResult simulate(const Job& job) const override {
    TrainingWorld world(job, "naive", choose_engine(job, false, 0, false));
    return train(world, [this](TrainingContext& context) {
      return std::make_unique<NaiveHooks>(context, options_.times);
    });
  }
  std::vector<MemoryUse> stage_memory(const Job& job,
                                      const MemoryQuery& query = {}) const override {
    return {memory_use(step_memory(*job.step, replica_memory_plan(job), job.machine.device, query),
                       job.machine.device)};
  }
  nlohmann::ordered_json communication(const Job&) const override {
    return {{"times", options_.times}};
  }
  std::vector<IdleOption> idle_options(const Job& job) const override {
    IdleOptions idle;
    idle.idle_if("times", options_.times != 1, job.mesh.copies() == 1, "one GPU reduces nothing");
    return idle.take();
  }
};

inline std::unique_ptr<Strategy> make_strategy(const NaiveOptions& options) {
  return std::make_unique<Naive>(options);
}

}  // namespace lockstep
