// Do steps with many micro-batches take the same time as if each micro-batch was simulated?
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "edit_step.hpp"
#include "toy_job.hpp"

namespace lockstep::micro_batches_test {
namespace {

using namespace lockstep::testing;  // NOLINT: the fixture of this file

// An observer must see every micro-batch, so with an observer none is skipped.
class Listener final : public Observer {
 public:
  bool watches(std::string_view, int) const override { return false; }
};

struct Figures {
  double step = 0, micro_batches = 0;
  std::vector<double> seconds, others;
};

Figures figures(Job job, const StrategyOptions& options, bool all) {
  const std::vector<double> v = in_child([&] {
    Listener listener;
    if (all) job.simulation.observer = &listener;
    const StrategyResult r = make_strategy(options)->simulate(job);
    std::vector<double> out{static_cast<double>(r.simulated_micro_batches), r.first_step_seconds,
                            r.device_busy};
    double sum = 0;
    for (const double seconds : r.step_seconds) sum += seconds;
    out.push_back(sum / static_cast<double>(r.step_seconds.size()));
    for (const auto part : step_parts) out.push_back(r.split.*part);
    for (const RankTimes& rank : r.ranks) {
      out.insert(out.end(), {rank.own, rank.communicating, rank.waiting});
    }
    const auto seconds = static_cast<double>(out.size());
    out.insert(out.begin(), seconds);
    out.insert(out.end(), {r.provenance.measured, r.provenance.modelled, r.samples_per_step});
    for (const LinkTraffic& link : r.traffic) {
      out.insert(out.end(), {link.bytes, link.total_bytes, link.busy});
    }
    return out;
  });
  const auto split = v.begin() + 1 + static_cast<std::ptrdiff_t>(v[0]);
  return {v[4], v[1], {v.begin() + 2, split}, {split, v.end()}};
}

// The largest difference: times relative to the step, other figures relative to themselves.
double difference(const Figures& a, const Figures& b) {
  if (a.seconds.size() != b.seconds.size() || a.others.size() != b.others.size()) return 1;
  double worst = 0;
  for (std::size_t i = 0; i < a.seconds.size(); ++i) {
    worst = std::max(worst, std::abs(a.seconds[i] - b.seconds[i]) / b.step);
  }
  for (std::size_t i = 0; i < a.others.size(); ++i) {
    const double scale = std::max(std::abs(a.others[i]), std::abs(b.others[i]));
    if (scale > 0) worst = std::max(worst, std::abs(a.others[i] - b.others[i]) / scale);
  }
  return worst;
}

std::shared_ptr<ToyCosts> costs(double issue, double forward, double backward) {
  auto made = std::make_shared<ToyCosts>();
  made->forward = {issue, forward, std::max(issue, forward) + 1e-5};
  made->backward = {issue, backward, std::max(issue, backward) + 1e-5};
  return made;
}

Job many_micro_batches(int gpus = 8, double issue = 0.2e-3) {
  Job job = toy_job(6, 4e6, gpus, costs(issue, 1e-3, 2e-3));
  job.accumulation = 40;
  job.simulation.interference = true;
  job.simulation.steps = 5;
  edit_step(job).input_bytes = 50e6;
  return job;
}

void expect_the_same(const Job& job, const StrategyOptions& options, const char* what) {
  for (const Engine engine : {Engine::loop, Engine::simgrid}) {
    Job one = job;
    one.simulation.engine = engine;
    const Figures counted = figures(one, options, false), whole = figures(one, options, true);
    EXPECT_LE(difference(counted, whole), 1e-9) << what;
    EXPECT_EQ(whole.micro_batches, job.accumulation) << what;
    EXPECT_LE(counted.micro_batches, 10) << what;
  }
}

TEST(ManyMicroBatches, AreAlikeUnderDdp) {
  expect_the_same(many_micro_batches(), DdpOptions{}, "device-bound: the host gains a lead");
  expect_the_same(many_micro_batches(8, 4e-3), DdpOptions{}, "host-bound");
  expect_the_same(many_micro_batches(1), DdpOptions{}, "alone");
  Job job = many_micro_batches(16);
  job.stragglers.slow_ranks = {{3, 1.3}};
  expect_the_same(job, DdpOptions{}, "a slow rank, late in the last micro-batch only");
  job = many_micro_batches();
  job.data_loading_seconds = 4e-3;
  expect_the_same(job, DdpOptions{}, "a fast loader");
  job.data_loading_seconds = 30e-3;
  expect_the_same(job, DdpOptions{}, "a slow loader");
  job = many_micro_batches();
  edit_step(job).precision = Precision::amp_fp16;
  job.gradient_clipping = 1;
  for (Layer& layer : edit_step(job).layers) {
    layer.buffers = 2;
    layer.buffer_bytes = 1e5;
  }
  expect_the_same(job, DdpOptions{}, "buffers, loss scaling, clipping");
}

TEST(ManyMicroBatches, AreAlikeUnderFsdp) {
  for (const int version : {1, 2}) {
    for (const bool every : {true, false}) {
      FsdpOptions options;
      options.version = version;
      options.sync_every_micro_batch = every;
      expect_the_same(many_micro_batches(), options, "full_shard");
      expect_the_same(many_micro_batches(8, 4e-3), options, "host-bound");
      options.cpu_offload = true;
      expect_the_same(many_micro_batches(), options, "cpu_offload");
      options.cpu_offload = false;
      options.sharding = Sharding::hybrid_shard;
      Job job = many_micro_batches(16);
      job.accumulation = 16;
      expect_the_same(job, options, "hybrid_shard");
    }
  }
  Job job = many_micro_batches();
  job.stragglers.slow_ranks = {{3, 1.3}};
  expect_the_same(job, FsdpOptions{}, "a slow rank");
}

TEST(ManyMicroBatches, AreAlikeUnderTheOthers) {
  for (const int stage : {1, 2}) {
    ZeroOptions options;
    options.stage = stage;
    expect_the_same(many_micro_batches(), options, "ZeRO");
  }
  expect_the_same(many_micro_batches(), LocalSgdOptions{2, false, MeanOuter{}, 1, 0}, "local SGD");
  Job job = many_micro_batches();
  job.machine.device.architecture = Architecture::cpu;
  job.machine.host.cores = 8;
  expect_the_same(job, DdpOptions{}, "on CPUs");
  expect_the_same(job, FsdpOptions{}, "on CPUs");
}

// The loader is a little slower than the device, but has a lead from the long end of the step
// before. While the lead lasts, micro-batches look steady without being so.
TEST(ManyMicroBatches, AreNotAlikeWhileALoaderLosesItsLead) {
  auto slow_update = costs(0.2e-3, 1e-3, 2e-3);
  slow_update->optimizer_seconds = 200e-3;
  Job job = many_micro_batches(1);
  job.costs = slow_update;
  edit_step(job).input_bytes = 0;
  double device = 0;
  {
    Job lone = job;
    lone.accumulation = 1;
    device = figures(lone, DdpOptions{}, true).step - 200e-3;
  }
  for (const double slower : {1.01, 1.1}) {
    job.data_loading_seconds = slower * device;
    job.simulation.engine = Engine::loop;
    const Figures counted = figures(job, DdpOptions{}, false);
    EXPECT_LE(difference(counted, figures(job, DdpOptions{}, true)), 1e-9) << slower;
  }
}

// An update with so many launches that the host may delay the device.
class ManyLaunches final : public ToyCosts {
 public:
  explicit ManyLaunches(double seconds) : seconds_(seconds) {
    forward = {0.2e-3, 1e-3, 1.01e-3};
    backward = {0.2e-3, 2e-3, 2.01e-3};
  }
  QueuedWork optimizer(const OptimizerSpec&, Precision, double, int) const override {
    return {seconds_, 1e-3, seconds_ + 1e-3};
  }

 private:
  double seconds_;
};

// While the host is far ahead of the device, it waits for nothing and gains a little in every
// micro-batch.
TEST(ManyMicroBatches, LeaveTheHostTheLeadThatItHasGained) {
  Job job = many_micro_batches();
  job.costs = std::make_shared<ManyLaunches>(0.25);
  expect_the_same(job, DdpOptions{}, "without a loader");
  job.data_loading_seconds = 4e-3;
  expect_the_same(job, DdpOptions{}, "with one");
}

// When the update is issued, the loader has two batches ready. It is slower than the host (2.4 ms)
// and faster than the device. Micro-batches look steady until the host has used up the ready
// batches.
TEST(ManyMicroBatches, AreNotAlikeWhileTheHostCatchesUpWithALoader) {
  Job job = many_micro_batches(1);
  job.costs = std::make_shared<ManyLaunches>(1);
  edit_step(job).input_bytes = 0;
  for (const double loader : {2.5e-3, 2.7e-3, 3e-3}) {
    job.data_loading_seconds = loader;
    for (const Engine engine : {Engine::loop, Engine::simgrid}) {
      job.simulation.engine = engine;
      const Figures counted = figures(job, DdpOptions{}, false);
      EXPECT_LE(difference(counted, figures(job, DdpOptions{}, true)), 1e-9) << loader;
    }
  }
}

RC_GTEST_PROP(ManyMicroBatches, TakeWhatTheyTake, ()) {
  const auto milliseconds = [](int low, int high) { return *rc::gen::inRange(low, high) * 1e-5; };
  const double issue = milliseconds(0, 200);
  Job job = toy_job(*rc::gen::inRange(1, 8), *rc::gen::inRange(1, 2000) * 1e4,
                    *rc::gen::element(1, 4, 8, 16),
                    costs(issue, milliseconds(1, 300), milliseconds(1, 600)));
  job.simulation.engine = Engine::loop;
  job.accumulation = *rc::gen::inRange(1, 30);
  job.simulation.steps = 5;
  job.simulation.interference = *rc::gen::arbitrary<bool>();
  job.simulation.network = *rc::gen::element(NetworkKind::flow, NetworkKind::analytic);
  job.gradient_clipping = *rc::gen::element(0.0, 1.0);
  edit_step(job).input_bytes = *rc::gen::element(0.0, 100e6);
  edit_step(job).precision = *rc::gen::element(Precision::fp32, Precision::amp_fp16);
  if (*rc::gen::arbitrary<bool>()) job.data_loading_seconds = milliseconds(1, 2000);
  if (*rc::gen::arbitrary<bool>()) job.stragglers.slow_ranks = {{0, 1.2}};
  if (*rc::gen::arbitrary<bool>()) job.stragglers.per_rank_sigma = 0.02;
  FsdpOptions fsdp;
  fsdp.version = *rc::gen::element(1, 2);
  fsdp.sharding = *rc::gen::element(Sharding::full_shard, Sharding::shard_grad_op,
                                    Sharding::no_shard, Sharding::hybrid_shard);
  fsdp.sync_every_micro_batch = *rc::gen::arbitrary<bool>();
  fsdp.cpu_offload = *rc::gen::arbitrary<bool>();
  const std::vector<StrategyOptions> strategies{DdpOptions{}, fsdp, ZeroOptions{.stage = 2}};
  const StrategyOptions& options = strategies[*rc::gen::inRange<std::size_t>(0, 3)];
  RC_ASSERT(difference(figures(job, options, false), figures(job, options, true)) <= 1e-9);
}

}  // namespace
}  // namespace lockstep::micro_batches_test
