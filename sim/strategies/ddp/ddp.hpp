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

 private:
  DdpOptions options_;
};

// Bytes of one gradient element in `.grad` and in the buckets.
int ddp_gradient_bytes(const DdpOptions& options, Precision precision);

MemoryPlan ddp_memory_plan(const Job& job, const DdpOptions& options, const BucketPlan& buckets);

}  // namespace lockstep
