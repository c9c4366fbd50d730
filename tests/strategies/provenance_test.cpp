// Does the share that was measured count all that the device does?
#include <gtest/gtest.h>

#include "costs/optimizer.hpp"
#include "toy_job.hpp"

namespace lockstep::testing {
namespace {

// Layers measured, the update interpolated, copies modelled.
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
      const double copies = clipping * clipping_bytes(job.step.precision, 40e6) / 1e12;
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

// Eight ranks: what goes into the buckets and back counts too.
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

}  // namespace
}  // namespace lockstep::testing
