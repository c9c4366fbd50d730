// Do DDP's communication hooks send the bytes and cost the time that they should, and at which
// bandwidth does compression pay?
#include "strategies/ddp/hooks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/describe.hpp"
#include "costs/collective.hpp"
#include "toy_job.hpp"

namespace lockstep::testing::hooks_test {
namespace {

constexpr double near = 1e-9;
constexpr int ranks = 8;
constexpr double elements = 40e6, gradients = 4 * elements;  // of the toy job

double relative(double a, double b) {
  return std::abs(a - b) / std::abs(b);
}

// A job whose collectives have no latency and take the time in which one rank sends its part at
// `rate` bytes/s.
Job job_at(double rate) {
  Job job = toy_job(4, 10e6, ranks);
  const auto curve = [&](const char* name, double sent) {
    job.machine.collectives.push_back({.collective = name,
                                       .ranks = ranks,
                                       .nodes = 1,
                                       .bytes = {1e3, 1e12},
                                       .seconds = {1e3 * sent / rate, 1e12 * sent / rate},
                                       .source = "test"});
  };
  curve("all_reduce", 2.0 * (ranks - 1) / ranks);
  curve("all_gather", 1.0 * (ranks - 1) / ranks);
  curve("all_to_all", 1.0 * (ranks - 1) / ranks);
  return job;
}

DdpOptions one_bucket(const CommHook& hook) {
  DdpOptions options;
  options.first_bucket_bytes = options.bucket_bytes = 1e15;
  options.comm_hook = hook;
  return options;
}

double step(double rate, const CommHook& hook) {
  return simulate(job_at(rate), one_bucket(hook)).step;
}

struct Closed {
  CommHook hook;
  double streamed;  // bytes of device memory that encoding and decoding read and write
  double sent;      // bytes that each rank sends
};

// The closed forms follow fact H125; the bytes of memory are counted as in hooks.cpp.
std::vector<Closed> closed_forms() {
  const double n = elements, others = ranks - 1;
  const double k = 0.01 * n, gathered = ranks * (8 * k + 2 * 32 * k);
  return {
      {TopKHook{0.01}, 8 * gradients + gradients + gathered, others * 8 * k},
      {TopKHook{0.01, Selection::one_block},
       (18 / 0.54 * 108 + 3) * gradients + gradients + gathered, others * 8 * k},
      {RandomKHook{0.01}, 3 * gradients + 8 * k + 32 * k + 4 * k + gradients + 8 * k + 32 * k,
       2 * others / ranks * 4 * k},
      {SignHook{}, (8 + 1.0 / 8) * n + ranks * (10 + 1.0 / 8) * n + 2 * gradients, others * n / 8},
      {QsgdHook{}, 17 * n + ranks * 9 * n, others * (n + 4)},
      {OneBitHook{}, (100 + 1.0 / 8) * (n + n / ranks) + (34 + 1.0 / 8) * n + (38 + 1.0 / 8) * n,
       2 * others / ranks * n / 8},
  };
}

// The uncompressed step without its all-reduce.
double rest_of_step() {
  const double copies = 2 * 2 * gradients / 1e12;  // into the bucket, and back
  return 4 * 1e-3 + 4 * 2e-3 + copies + 1e-3;
}

TEST(CommHooks, CostTheirMessagesAndTheirKernels) {
  for (const double rate : {1e8, 1e10}) {
    for (const Closed& closed : closed_forms()) {
      SCOPED_TRACE(AlternativeNames<CommHook>::names[closed.hook.index()]);
      EXPECT_LT(relative(step(rate, closed.hook),
                         rest_of_step() + closed.streamed / 1e12 + closed.sent / rate),
                near);
    }
  }
}

// Compression pays below the bandwidth at which the saved bytes take as long as the hook's kernels.
TEST(CommHooks, PayBelowTheThresholdBandwidth) {
  const double plain = 2.0 * (ranks - 1) / ranks * gradients;
  for (const Closed& closed : closed_forms()) {
    SCOPED_TRACE(AlternativeNames<CommHook>::names[closed.hook.index()]);
    if (std::holds_alternative<QsgdHook>(
            closed.hook)) {  // a gather to eight ranks moves more bytes than a sum
      EXPECT_GT(closed.sent, plain);
      EXPECT_GT(step(1e6, closed.hook), step(1e6, PlainHook{}));
      continue;
    }
    const double threshold = (plain - closed.sent) / (closed.streamed / 1e12);
    EXPECT_LT(relative(step(threshold, closed.hook), step(threshold, PlainHook{})), near);
    EXPECT_LT(step(0.99 * threshold, closed.hook), step(0.99 * threshold, PlainHook{}));
    EXPECT_GT(step(1.01 * threshold, closed.hook), step(1.01 * threshold, PlainHook{}));
  }
}

// Also with buckets that travel during backward, a hook that sends less saves no more on a faster
// network.
TEST(CommHooks, SaveNoMoreOnAFasterNetwork) {
  for (const Closed& closed : closed_forms()) {
    if (std::holds_alternative<QsgdHook>(closed.hook)) continue;
    SCOPED_TRACE(AlternativeNames<CommHook>::names[closed.hook.index()]);
    DdpOptions options;
    options.comm_hook = closed.hook;
    double before = std::numeric_limits<double>::infinity();
    for (double rate = 1e8; rate < 1e13; rate *= 3) {
      const Job job = job_at(rate);
      const double saved = simulate(job, DdpOptions{}).step - simulate(job, options).step;
      EXPECT_LE(saved, before + near);
      before = saved;
    }
    EXPECT_LT(before, 0);  // on an infinitely fast network only the kernels are left
  }
}

TEST(CommHooks, SendingEveryElementWithItsPlaceCostsMoreThanThePlainSum) {
  for (const double rate : {1e7, 1e9, 1e11}) {
    EXPECT_GT(step(rate, TopKHook{1}), step(rate, PlainHook{}));
    EXPECT_GT(step(rate, RandomKHook{1}), step(rate, PlainHook{}));
  }
}

// Gathered bytes grow with the number of ranks, summed bytes do not.
TEST(CommHooks, SendWhatTheirCollectivesSend) {
  const Job job = toy_job(4, 10e6, 16);  // two nodes
  const double k = 0.01 * elements, sign = elements / 8;
  const auto expect = [&](const CommHook& hook,
                          const std::vector<std::pair<Collective, double>>& sent) {
    SCOPED_TRACE(AlternativeNames<CommHook>::names[hook.index()]);
    double total = 0;
    for (const auto& [kind, bytes] : sent) {
      for (const LinkLoad& load :
           collective_cost(job.machine, group_of(job.machine, 16), kind, bytes).links) {
        total += load.total_bytes;
      }
    }
    EXPECT_LT(relative(simulate(job, one_bucket(hook)).traffic, total), near);
  };
  expect(TopKHook{0.01}, {{Collective::all_gather, 16 * 8 * k}});
  expect(RandomKHook{0.01}, {{Collective::all_reduce, 4 * k}});
  expect(SignHook{}, {{Collective::all_gather, 16 * sign}});
  expect(QsgdHook{}, {{Collective::all_gather, 16 * (elements + 4)}});
  expect(OneBitHook{}, {{Collective::all_to_all, sign}, {Collective::all_gather, sign}});
  // The model has four matrices of 1000 x 10000.
  expect(PowerSgdHook{4}, {{Collective::all_reduce, 4.0 * 4 * 4 * 1000},
                           {Collective::all_reduce, 4.0 * 4 * 4 * 10000}});
}

// The error feedback stays for the next step; messages exist only while their bucket travels.
TEST(CommHooks, TakeMemory) {
  const Job job = toy_job();  // 8 ranks
  const auto more = [&](const CommHook& hook) {
    DdpOptions options;
    options.comm_hook = hook;
    return make_strategy(options)->memory(job).allocated -
           make_strategy(DdpOptions{})->memory(job).allocated;
  };
  const double bucket = 40e6, mib = 1024.0 * 1024.0;
  EXPECT_NEAR(more(TopKHook{0.05}), gradients + 9 * 0.05 * 2 * bucket, 2 * mib);
  EXPECT_NEAR(more(RandomKHook{0.1}), gradients + 0.1 * 2 * bucket, 2 * mib);
  EXPECT_NEAR(more(SignHook{}), 9 * bucket / 32, 2 * mib);
  EXPECT_NEAR(more(QsgdHook{}), 9 * bucket / 4, 2 * mib);
  EXPECT_NEAR(more(OneBitHook{}), gradients * (1 + 1.0 / 8) + 2 * bucket / 32, 2 * mib);
  EXPECT_NEAR(more(PowerSgdHook{}), gradients, 2 * mib);
}

// Gram-Schmidt takes about seven kernels for each column of a factor, and both factors of a matrix
// replace one kernel per column of the fused form.
TEST(CommHooks, GramSchmidtTakesMoreKernelsForEveryColumn) {
  class Launches final : public ToyCosts {
    QueuedWork stream(double, int launches) const override {
      return {0, 1e-5 * launches, 1e-5 * launches};
    }
  };
  Job job = toy_job(4, 10e6, ranks, std::make_shared<Launches>());
  const auto kernels = [&](int rank, Orthogonalization how) {
    HookPlan plan = plan_hook(
        one_bucket(PowerSgdHook{rank, how}),
        plan_buckets(gradient_tensors(*job.step, 4), one_bucket({})).later[0],
        gradient_tensors(*job.step, 4),
        {*job.costs, ranks, 108, false, [](Collective, double) { return PricedTransfer{}; }});
    QueuedWork all = append(plan.after, plan.decode);
    for (const HookStep& part : plan.steps) all = append(all, part.before);
    return all.busy / 1e-5;
  };
  for (const int rank : {1, 4, 16}) {
    const double matrices = 4;
    EXPECT_NEAR(
        kernels(rank, Orthogonalization::gram_schmidt) - kernels(rank, Orthogonalization::fused),
        matrices * (2 * (3 * rank + 4 * (rank - 1)) - rank), 1e-6);
  }
}

TEST(CommHooks, AreReadByNameOrWithOptions) {
  const auto read = [](const std::string& hook) {
    return std::get<DdpOptions>(read_text<StrategyOptions>("ddp: {" + hook + "}", "f.yaml"));
  };
  EXPECT_EQ(std::get<PowerSgdHook>(read("comm_hook: powersgd, power_sgd_rank: 4").comm_hook).rank,
            std::nullopt);
  EXPECT_EQ(std::get<PowerSgdHook>(read("comm_hook: {powersgd: {rank: 4}}").comm_hook).rank, 4);
  EXPECT_EQ(std::get<TopKHook>(read("comm_hook: top-k").comm_hook).fraction, 0.01);
  EXPECT_EQ(std::get<TopKHook>(read("comm_hook: {top-k: {fraction: 5 %}}").comm_hook).fraction,
            0.05);
  const auto error = [&](const std::string& hook) -> std::string {
    try {
      read(hook);
    } catch (const ConfigError& refused) {
      return refused.what();
    }
    return "";
  };
  EXPECT_THAT(error("comm_hook: {powersgd: {rank: 4}}, power_sgd_rank: 2"),
              ::testing::HasSubstr("power_sgd_rank: contradicts comm_hook.powersgd.rank"));
  EXPECT_THAT(error("comm_hook: topk"), ::testing::HasSubstr("did you mean 'top-k'"));
  EXPECT_THAT(error("comm_hook: {top-k: {fraction: 200 %}}"), ::testing::HasSubstr("fraction"));
}

// Both spellings of PowerSGD's rank have the same meaning.
TEST(CommHooks, RankOfPowerSgdCanBeGivenEitherWay) {
  DdpOptions before = one_bucket(PowerSgdHook{});
  before.power_sgd_rank = 4;
  EXPECT_EQ(simulate(toy_job(), before).step,
            simulate(toy_job(), one_bucket(PowerSgdHook{4})).step);
}

}  // namespace
}  // namespace lockstep::testing::hooks_test
