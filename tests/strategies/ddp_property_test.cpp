// Which laws does every DDP simulation obey, on random jobs?
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "costs/collective.hpp"
#include "strategies/ddp/buckets.hpp"
#include "toy_job.hpp"

namespace lockstep::ddp_property_test {
namespace {

using namespace lockstep::testing;  // NOLINT: the fixture of this file

constexpr double slack = 1 + 1e-9;

struct RandomJob {
  Job job;
  std::shared_ptr<ToyCosts> costs;
};

RandomJob random_job() {
  auto costs = std::make_shared<ToyCosts>();
  const auto milliseconds = [](int low, int high) { return *rc::gen::inRange(low, high) * 1e-5; };
  const double forward = milliseconds(1, 300);
  const double backward = milliseconds(1, 600);
  const double issue = milliseconds(0, 200);
  costs->forward = {issue, forward, std::max(issue, forward) + 1e-5};
  costs->backward = {issue, backward, std::max(issue, backward) + 1e-5};
  RandomJob random{toy_job(*rc::gen::inRange(1, 20), *rc::gen::inRange(1, 2000) * 1e4,
                           *rc::gen::element(1, 2, 4, 8, 16, 64), costs),
                   costs};
  random.job.accumulation = *rc::gen::inRange(1, 4);
  random.job.simulation.steps = 8;
  random.job.simulation.seed = *rc::gen::inRange<std::uint64_t>(0, 1000);
  if (*rc::gen::arbitrary<bool>()) random.job.stragglers.per_step = Lognormal{0.1};
  if (*rc::gen::arbitrary<bool>()) random.job.data_loading_seconds = milliseconds(1, 1000);
  return random;
}

DdpOptions random_options() {
  DdpOptions options;
  options.bucket_bytes = *rc::gen::element(1e6, 25e6, 1e9);
  options.first_bucket_bytes = *rc::gen::element(1e5, 1e6, 1e9);
  options.gradient_as_bucket_view = *rc::gen::arbitrary<bool>();
  options.find_unused_parameters = *rc::gen::arbitrary<bool>();
  options.static_graph = *rc::gen::arbitrary<bool>();
  options.comm_hook =
      *rc::gen::element<CommHook>(PlainHook{}, Fp16Hook{}, PowerSgdHook{}, TopKHook{},
                                  RandomKHook{}, SignHook{}, QsgdHook{}, OneBitHook{});
  return options;
}

// Whether run `a` is not later than run `b`. With random steps the end of the last step counts,
// because single steps may well take longer: a device that is ahead meets a host that is not. With
// steady steps the step counts.
bool never_later(const Numbers& a, const Numbers& b) {
  RC_PRE(a.extrapolated == b.extrapolated && (a.extrapolated > 0 || a.steps == b.steps));
  const auto finish = [](const Numbers& n) {
    return n.extrapolated > 0 ? n.step : n.first + n.steps * n.step;
  };
  return finish(a) <= finish(b) * slack;
}

RC_GTEST_PROP(DdpLaws, EverySecondIsBookedOnce, ()) {
  RandomJob random = random_job();
  random.job.simulation.interference = *rc::gen::arbitrary<bool>();
  const Numbers result = simulate(random.job, random_options());
  RC_ASSERT(std::abs(sum(result.split) - result.step) <= 1e-9 * result.step);
  for (const double part : {result.split.data_loading, result.split.exposed_communication,
                            result.split.host_bound, result.split.waiting}) {
    RC_ASSERT(part >= 0);
  }
}

RC_GTEST_PROP(DdpLaws, AFasterNetworkIsNeverSlower, ()) {
  const RandomJob random = random_job();
  const DdpOptions options = random_options();
  Job faster = random.job;
  faster.communication_scale = 0.5;
  RC_ASSERT(never_later(simulate(faster, options), simulate(random.job, options)));
}

RC_GTEST_PROP(DdpLaws, AFasterDeviceIsNeverSlower, ()) {
  const RandomJob random = random_job();
  const DdpOptions options = random_options();
  auto quick = std::make_shared<ToyCosts>(*random.costs);
  quick->speed = 1.5;
  Job faster = random.job;
  faster.costs = quick;
  RC_ASSERT(never_later(simulate(faster, options), simulate(random.job, options)));
}

// The law holds without jitter only. The jitter of a segment that waits for its host is an estimate
// (QueuedWork keeps three numbers), which differs between one long segment and the several segments
// that overlap needs.
RC_GTEST_PROP(DdpLaws, OverlapNeverHurtsWithoutInterference, ()) {
  RandomJob random = random_job();
  random.job.stragglers.per_step.reset();
  DdpOptions options = random_options();
  options.overlap = false;
  const Numbers serial = simulate(random.job, options);
  options.overlap = true;
  RC_ASSERT(never_later(simulate(random.job, options), serial));
}

// The device waits for transfers at most for as long as transfers run.
RC_GTEST_PROP(DdpLaws, ExposedCommunicationFitsIntoTheTransfers, ()) {
  const RandomJob random = random_job();
  DdpOptions options = random_options();
  options.comm_hook = PlainHook{};
  const Numbers result = simulate(random.job, options);
  if (random.job.mesh.gpus() == 1) {
    RC_ASSERT(result.traffic == 0);
    RC_ASSERT(result.split.exposed_communication == 0);
    return;
  }
  const CommGroup group = group_of(random.job.machine, random.job.mesh.gpus());
  const auto tensors = gradient_tensors(*random.job.step, 4);
  double running = collective_cost(random.job.machine, group, Collective::all_reduce,
                                   4.0 * static_cast<double>(tensors.size()))
                       .seconds();
  for (const Bucket& bucket : plan_buckets(tensors, options).later) {
    running +=
        collective_cost(random.job.machine, group, Collective::all_reduce, bucket.bytes).seconds();
  }
  RC_ASSERT(result.split.exposed_communication <= running * slack);
}

RC_GTEST_PROP(DdpLaws, OneGpuCommunicatesNothing, ()) {
  RandomJob random = random_job();
  random.job.mesh.data = 1;
  edit_step(random.job).precision = *rc::gen::element(Precision::tf32, Precision::amp_fp16,
                                                      Precision::amp_bf16, Precision::pure_bf16);
  const Numbers n = simulate(random.job, random_options());
  RC_ASSERT(n.split.exposed_communication == 0);
  RC_ASSERT(n.split.waiting == 0);
  RC_ASSERT(n.traffic == 0);
}

RC_GTEST_PROP(DdpLaws, RelabellingRanksChangesNothing, ()) {
  RandomJob random = random_job();
  random.job.stragglers.per_step.reset();
  random.job.mesh.data = 16;
  const double factor = *rc::gen::inRange(100, 300) * 0.01;
  const int one = *rc::gen::inRange(0, 16);
  const int other = *rc::gen::inRange(0, 16);
  random.job.stragglers.slow_ranks = {{one, factor}};
  const DdpOptions options = random_options();
  const Numbers a = simulate(random.job, options);
  random.job.stragglers.slow_ranks = {{other, factor}};
  const Numbers b = simulate(random.job, options);
  RC_ASSERT(a.step == b.step);
  RC_ASSERT(a.split.waiting == b.split.waiting);
}

}  // namespace
}  // namespace lockstep::ddp_property_test
