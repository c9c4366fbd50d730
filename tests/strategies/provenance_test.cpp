// Does the share of measured time count everything that the device does?
#include <gtest/gtest.h>

#include "costs/optimizer.hpp"
#include "toy_job.hpp"

namespace lockstep::testing::provenance_test {
namespace {

// Costs in which layers are measured, the update is interpolated, and copies are modelled.
class MixedCosts final : public ToyCosts {
 public:
  LayerCost layer(const TrainingStep& step, std::size_t index) const override {
    LayerCost cost = ToyCosts::layer(step, index);
    cost.forward.provenance = cost.backward.provenance = Provenance::measured;
    return cost;
  }
  QueuedWork optimizer(const OptimizerSpec& spec, Precision precision, double elements,
                       int tensors) const override {
    QueuedWork work = ToyCosts::optimizer(spec, precision, elements, tensors);
    work.provenance = Provenance::interpolated;
    return work;
  }
};

TEST(Provenance, CountsLayersUpdateAndCopies) {
  FsdpOptions fsdp2;  // FSDP1 would join its gradients even on one rank
  fsdp2.version = 2;
  for (const StrategyOptions& options : {StrategyOptions(DdpOptions{}), StrategyOptions(fsdp2)}) {
    Job job = toy_job(4, 10e6, 1, std::make_shared<MixedCosts>());
    const double layers = 4 * 3e-3, update = 1e-3;
    for (const double clipping : {0.0, 1.0}) {
      job.gradient_clipping = clipping;
      const double copies = clipping * clipping_bytes(job.step->precision, 40e6) / 1e12;
      const std::vector<double> share = in_child([&] {
        const ProvenanceShare p = make_strategy(options)->simulate(job).provenance;
        return std::vector{p.measured, p.interpolated, p.modelled};
      });
      const double all = layers + update + copies;
      EXPECT_NEAR(share[0], layers / all, 1e-9);
      EXPECT_NEAR(share[1], update / all, 1e-9);
      EXPECT_NEAR(share[2], copies / all, 1e-9);
    }
  }
}

// With eight ranks the copies into the buckets and back count as well.
TEST(Provenance, CountsBucketCopies) {
  const auto modelled = [](bool views) {
    DdpOptions options;
    options.gradient_as_bucket_view = views;
    const Job job = toy_job(4, 10e6, 8, std::make_shared<MixedCosts>());
    return in_child(
        [&] { return std::vector{make_strategy(options)->simulate(job).provenance.modelled}; })[0];
  };
  EXPECT_GT(modelled(false), modelled(true) + 1e-3);
}

// The measured share of a job in which only layers are measured: the layers' seconds over the
// seconds of everything that the step issues.
double measured_share(const StrategyOptions& options, const Job& job) {
  return in_child([&] {
    const ProvenanceShare share = make_strategy(options)->simulate(job).provenance;
    return std::vector{share.measured};
  })[0];
}

// A job with so many parameters that their transfers take ten times as long as the layers. Copies
// take no time.
Job large_gradients(int accumulation) {
  const auto costs = std::make_shared<MixedCosts>();
  costs->stream_bytes_per_second = 1e18;
  Job job = toy_job(4, 1e9, 8, costs);
  job.accumulation = accumulation;
  return job;
}

// With a reduction in every micro-batch, a step of three micro-batches is three times a step of
// one, so the shares are equal. The update does not matter here.
TEST(Provenance, CountsTheReductionsOfEveryMicroBatch) {
  for (const int version : {1, 2}) {
    for (const Sharding sharding : {Sharding::full_shard, Sharding::no_shard}) {
      FsdpOptions options;
      options.version = version;
      options.sharding = sharding;
      const double once = measured_share(options, large_gradients(1));
      EXPECT_NEAR(measured_share(options, large_gradients(3)), once, 0.1 * once);
      options.sync_every_micro_batch = false;  // less communication
      EXPECT_GT(measured_share(options, large_gradients(3)), 1.2 * once);
    }
  }
}

TEST(Provenance, CountsBuffersBitmapInputAndSums) {
  const Job plain = large_gradients(1);
  const double before = measured_share(DdpOptions{}, plain);
  Job buffers = plain;
  edit_step(buffers).layers[0].buffer_bytes = 10e9;
  edit_step(buffers).layers[0].buffers = 2;
  EXPECT_LT(measured_share(DdpOptions{}, buffers), 0.95 * before);
  Job input = plain;
  edit_step(input).input_bytes = 20e9;
  EXPECT_LT(measured_share(DdpOptions{}, input), 0.95 * before);
  DdpOptions unused;
  unused.find_unused_parameters = true;
  EXPECT_LT(measured_share(unused, plain), before);
  // With two micro-batches on one GPU, the second one's gradients are added.
  Job sums = toy_job(4, 10e6, 1, std::make_shared<MixedCosts>());
  sums.accumulation = 2;
  const double layers = 2 * 4 * 3e-3, update = 1e-3, adding = 3 * 4 * 10e6 * 4 / 1e12;
  EXPECT_NEAR(measured_share(DdpOptions{}, sums), layers / (layers + update + adding), 1e-9);
}

TEST(Provenance, CountsTheHostsUpdateAndWhatItMoves) {
  FsdpOptions options;
  options.version = 2;
  Job job = toy_job(4, 10e6, 1, std::make_shared<MixedCosts>());
  const double before = measured_share(options, job);
  options.cpu_offload = true;
  EXPECT_LT(measured_share(options, job), before);
}

TEST(Provenance, CountsWhatServersDo) {
  ParameterServerOptions options;
  Job job = toy_job(4, 10e6, 4, std::make_shared<MixedCosts>());
  // the servers take a thousand times as long as the layers
  job.machine.host.memory_bandwidth = 1e9;
  EXPECT_LT(measured_share(options, job), 0.05);
  options.servers = 4;
  options.consistency = Consistency::async;
  EXPECT_LT(measured_share(options, job), 0.05);
}

}  // namespace
}  // namespace lockstep::testing::provenance_test
