// DistributedDataParallel's plan for one job: what is reduced when, and what surrounds it. The
// simulation itself is ddp.cpp; this is what tests and the memory model look at.
#pragma once

#include <vector>

#include "memory/memory_plan.hpp"
#include "strategies/ddp/buckets.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

class Ddp : public Strategy {
 public:
  explicit Ddp(const DdpOptions& options) : options_(options) {}
  StrategyResult simulate(const Job& job) const override;
  MemoryUse memory(const Job& job) const override;
  nlohmann::ordered_json communication(const Job& job) const override;
  std::vector<IdleOption> idle_options(const Job& job) const override;

 private:
  DdpOptions options_;
};

// Megatron's local DDP keeps all gradients in one buffer, divides it in one pass and reduces it in
// one piece after backward (model/distributed.py: DistributedDataParallel, allreduce_gradients).
bool keeps_one_buffer(const Job& job, const DdpOptions& options);

// Bytes of one gradient element in `.grad` and in the buckets.
int ddp_gradient_bytes(const DdpOptions& options, Precision precision);

MemoryPlan ddp_memory_plan(const Job& job, const DdpOptions& options, const BucketPlan& buckets);

}  // namespace lockstep
