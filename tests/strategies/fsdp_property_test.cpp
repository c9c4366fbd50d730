// Which laws does every FSDP simulation obey, on random jobs?
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/strategies/fsdp_fixture.hpp"

namespace lockstep::testing::fsdp_property_test {
namespace {

constexpr double slack = 1 + 1e-9;

Toy random_toy() {
  Toy toy;
  toy.units = *rc::gen::inRange(1, 9);
  toy.elements = 1e5 * *rc::gen::inRange(1, 3000);
  toy.outside = *rc::gen::element(0.0, 1e6, 1e8);
  toy.gpus = *rc::gen::element(1, 2, 4, 8, 16, 64);
  toy.costs.forward = 1e-5 * *rc::gen::inRange(1, 2000);
  toy.costs.backward = 1e-5 * *rc::gen::inRange(1, 4000);
  toy.costs.stream_seconds = *rc::gen::element(0.0, 5e-6, 2e-4);
  toy.costs.host = *rc::gen::element(0.0, 1e-6, 5e-6);
  FsdpOptions& options = toy.options;
  options.version = *rc::gen::element(1, 2);
  options.sharding = *rc::gen::element(Sharding::full_shard, Sharding::shard_grad_op,
                                       Sharding::no_shard, Sharding::hybrid_shard);
  options.backward_prefetch =
      *rc::gen::element(BackwardPrefetch::none, BackwardPrefetch::pre, BackwardPrefetch::post);
  options.forward_prefetch = *rc::gen::arbitrary<bool>();
  options.limit_all_gathers = *rc::gen::arbitrary<bool>();
  options.sync_every_micro_batch = *rc::gen::arbitrary<bool>();
  options.gather_bytes = *rc::gen::element(0.0, 2.0);
  return toy;
}

Job random_job(const Toy& toy) {
  Job job = toy_job(toy);
  job.simulation.steps = 4;
  job.accumulation = *rc::gen::inRange(1, 4);
  job.gradient_clipping = *rc::gen::element(0.0, 1.0);
  if (*rc::gen::arbitrary<bool>()) job.stragglers.per_step = Lognormal{0.05};
  return job;
}

// Seconds of all collectives of one step, one after the other.
double communication(const Job& job, const FsdpOptions& options) {
  const FsdpLayout layout = fsdp_layout(job, options);
  double sum = 0;
  for (const UnitLayout& unit : layout.layouts) {
    const auto seconds = [&](const CommGroup& group, Collective kind, double bytes) {
      return collective_cost(job.machine, group, kind, bytes).seconds();
    };
    if (layout.sharded()) {
      sum += 2 * seconds(layout.groups.shard, Collective::all_gather,
                         unit.elements * layout.gather_bytes);
      sum += seconds(layout.groups.shard, Collective::reduce_scatter,
                     unit.elements * layout.reduce_bytes);
    }
    if (layout.groups.replicas > 1) {
      sum +=
          seconds(layout.groups.replica, Collective::all_reduce, unit.shard * layout.reduce_bytes);
    }
  }
  if (layout.sharded()) {
    sum += collective_cost(job.machine, layout.groups.shard, Collective::all_reduce, 4).seconds();
  }
  return sum * job.accumulation;
}

RC_GTEST_PROP(FsdpLaws, EverySecondIsBookedOnce, ()) {
  const Toy toy = random_toy();
  Job job = random_job(toy);
  job.simulation.interference = *rc::gen::arbitrary<bool>();
  const Outcome o = run(job, toy.options);
  RC_ASSERT(std::abs(o.sum - o.step) <= 1e-9 * o.step);
  const double rounding = -1e-9 * o.step;
  RC_ASSERT(o.exposed >= rounding && o.host_bound >= rounding && o.waiting >= rounding &&
            o.copies >= rounding);
  RC_ASSERT(o.busy <= o.step * (1 + 1e-9));
}

RC_GTEST_PROP(FsdpLaws, AFasterNetworkIsNeverSlower, ()) {
  const Toy toy = random_toy();
  Job job = random_job(toy);
  const double step = run(job, toy.options).step;
  job.communication_scale = 0.5;
  RC_ASSERT(run(job, toy.options).step <= step * slack);
}

RC_GTEST_PROP(FsdpLaws, AFasterDeviceIsNeverSlower, ()) {
  const Toy toy = random_toy();
  Job job = random_job(toy);
  const double step = run(job, toy.options).step;
  EqualCosts quick = toy.costs;
  quick.forward *= 0.7;
  quick.backward *= 0.7;
  quick.update *= 0.7;
  job.costs = std::make_shared<EqualCosts>(quick);
  RC_ASSERT(run(job, toy.options).step <= step * slack);
}

// With forward prefetch, units are freed late. A prefetching backward asks the rate limiter before
// that, so the limiter may hold the host in the next forward instead, which costs less than one of
// its waits.
RC_GTEST_PROP(FsdpLaws, PrefetchInBackwardNeverHurts, ()) {
  constexpr double wait_of_limiter = 235e-6;  // fact 35
  Toy toy = random_toy();
  toy.options.version = 1;
  const Job job = random_job(toy);
  toy.options.backward_prefetch = BackwardPrefetch::none;
  const double none = run(job, toy.options).step;
  toy.options.backward_prefetch = BackwardPrefetch::pre;
  const bool moves_a_wait = toy.options.limit_all_gathers && toy.options.forward_prefetch;
  RC_ASSERT(run(job, toy.options).step <= none * slack + (moves_a_wait ? wait_of_limiter : 0));
}

RC_GTEST_PROP(FsdpLaws, TheRateLimiterNeverHelps, ()) {
  Toy toy = random_toy();
  toy.options.version = 1;
  const Job job = random_job(toy);
  toy.options.limit_all_gathers = true;
  const double limited = run(job, toy.options).step;
  toy.options.limit_all_gathers = false;
  RC_ASSERT(run(job, toy.options).step <= limited * slack);
}

RC_GTEST_PROP(FsdpLaws, TheStepIsAtLeastItsComputeAndItsLongestQueue, ()) {
  const Toy toy = random_toy();
  Job job = random_job(toy);
  job.stragglers = {};
  const Outcome o = run(job, toy.options);
  const int layers = toy.units + (toy.outside > 0);
  const double compute =
      job.accumulation * layers * (toy.costs.forward + toy.costs.backward) + toy.costs.update;
  RC_ASSERT(o.step * slack >= compute);
  RC_ASSERT(o.step * slack >= o.link_busy);
}

// On one GPU the casts, copies and divisions on side streams remain; they are not communication.
RC_GTEST_PROP(FsdpLaws, OneGpuCommunicatesNothing, ()) {
  Toy toy = random_toy();
  toy.gpus = 1;
  Job job = random_job(toy);
  edit_step(job).precision = *rc::gen::element(Precision::tf32, Precision::amp_fp16,
                                               Precision::amp_bf16, Precision::pure_bf16);
  const Outcome o = run(job, toy.options);
  RC_ASSERT(o.exposed == 0);
  RC_ASSERT(o.waiting == 0);
  RC_ASSERT(o.traffic == 0);
}

// With kernels that cost nothing, only collectives can be exposed, latency included.
RC_GTEST_PROP(FsdpLaws, ExposedCommunicationFitsIntoTheTransfers, ()) {
  Toy toy = random_toy();
  toy.costs.stream_seconds = 0;
  const Job job = random_job(toy);
  const Outcome o = run(job, toy.options);
  RC_ASSERT(o.exposed <= communication(job, toy.options) * slack);
}

}  // namespace
}  // namespace lockstep::testing::fsdp_property_test
