// Are the products of the Newton-Schulz iteration counted and priced, and do other tensors cost as
// much as with AdamW?
#include "costs/muon.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/errors.hpp"
#include "costs/kernel_model.hpp"
#include "costs/profile.hpp"
#include "costs/roofline_costs.hpp"
#include "kernel_test_device.hpp"
#include "workload/model.hpp"

namespace lockstep::muon_test {
namespace {

constexpr auto fused = OptimizerImplementation::fused;
constexpr auto foreach = OptimizerImplementation::foreach;

double flops(const HiddenMatrix& matrix) {
  double sum = 0;
  for (const Kernel& kernel : muon_kernels(matrix, {})) sum += kernel.flops;
  return sum;
}

double bytes(const HiddenMatrix& matrix, KernelKind kind) {
  double sum = 0;
  for (const Kernel& kernel : muon_kernels(matrix, {})) {
    if (kernel.kind == kind) sum += kernel.bytes_read + kernel.bytes_written;
  }
  return sum;
}

OptimizerSpec spec(std::vector<HiddenMatrix> matrices, OptimizerKind name = OptimizerKind::muon,
                   OptimizerImplementation implementation = fused) {
  OptimizerSpec optimizer;
  optimizer.name = name;
  optimizer.implementation = implementation;
  optimizer.matrices = std::move(matrices);
  return optimizer;
}

TEST(Muon, FlopsOfFiveIterations) {
  // Each of 5 iterations computes the Gram matrix (2 m m n), its square (2 m m m) and the next X
  // (2 m m n).
  EXPECT_EQ(flops({0, 1000, 1000}), 5 * 6e9);
  EXPECT_EQ(flops({0, 1000, 4000}), 5 * (2 * 8e9 + 2e9));
  EXPECT_EQ(flops({0, 4000, 1000}), flops({0, 1000, 4000}));  // transposed
}

TEST(Muon, BytesOfItsPasses) {
  const double all = 4e6, gram = 1e6;
  const double momentum = 12 + 12, cast = 6, norm = 2, quotient = 4, decay = 8, update = 10;
  const double copies = 5 * (4 * gram + 4 * all);  // addmm copies the matrix to which it adds
  EXPECT_EQ(bytes({0, 1000, 4000}, KernelKind::elementwise),
            all * (momentum + cast + norm + quotient + decay + update) + copies);
  EXPECT_EQ(bytes({0, 1000, 4000}, KernelKind::gemm),
            5 * 2 * ((2 * all + gram) + (2 * gram + 2 * gram) + (gram + all + 2 * all)));
  // Gradients in bf16 need no cast.
  EXPECT_EQ(muon_kernels({0, 8, 8}, {2, 2, 2}).size() + 1, muon_kernels({0, 8, 8}, {}).size());
}

TEST(Muon, LargeMatrixTakesItsFlopsAtTheRateOfProducts) {
  Machine machine;
  machine.device = round_device();
  const RooflineCosts costs(machine, {});
  const double n = 16384;
  const double seconds = costs.optimizer(spec({{0, 16384, 16384}}), Precision::fp32, n * n, 1).busy;
  // Products run at 0.8 of 200 TFLOP/s. Elementwise kernels move 94 bytes an element, 40 of these
  // for addmm's copies.
  const double products = 5 * 6 * n * n * n / 160e12, streamed = 94 * n * n / 1.6e12;
  EXPECT_NEAR(seconds, products + streamed, 0.05 * products);
  EXPECT_GT(seconds, products);

  // The kernel model prices each product like that of a linear layer.
  double modelled = 0;
  for (const Kernel& kernel : muon_kernels({0, 16384, 16384}, {})) {
    modelled += kernel_time(kernel, machine.device, {}, 2).total;
  }
  EXPECT_NEAR(seconds, modelled, 1e-9 * modelled);

  machine.device.bf16_flops = 0;  // without bf16 units the products run in fp32
  const RooflineCosts plain(machine, {});
  EXPECT_GT(plain.optimizer(spec({{0, 16384, 16384}}), Precision::fp32, n * n, 1).busy,
            5 * 6 * n * n * n / 20e12);
}

TEST(Muon, WithoutMatricesIsAdamW) {
  Machine machine;
  machine.device = round_device();
  machine.host.dispatch_seconds = 5e-6;
  const RooflineCosts costs(machine, {});
  for (const auto implementation : {fused, foreach, OptimizerImplementation::for_loop}) {
    for (const Precision precision : {Precision::fp32, Precision::pure_fp16}) {
      OptimizerSpec muon = spec({}, OptimizerKind::muon, implementation);
      OptimizerSpec adamw = spec({}, OptimizerKind::adamw, implementation);
      muon.weight_decay = adamw.weight_decay = 0.1;
      const QueuedWork a = costs.optimizer(muon, precision, 1e8, 100);
      const QueuedWork b = costs.optimizer(adamw, precision, 1e8, 100);
      EXPECT_EQ(a.busy, b.busy);
      EXPECT_EQ(a.host, b.host);
      EXPECT_EQ(a.span, b.span);
      EXPECT_EQ(optimizer_state_bytes(muon, precision), optimizer_state_bytes(adamw, precision));
      EXPECT_EQ(optimizer_temporary_bytes(muon, precision),
                optimizer_temporary_bytes(adamw, precision));
      EXPECT_EQ(optimizer_loop_temporaries(muon, precision),
                optimizer_loop_temporaries(adamw, precision));
    }
  }
}

TEST(Muon, RestIsAdamWsAndTheHostLoopsOverMatrices) {
  Machine machine;
  machine.device = round_device();
  machine.host.dispatch_seconds = 5e-6;
  const RooflineCosts costs(machine, {});
  const auto of = [&](std::vector<HiddenMatrix> matrices, double elements, int tensors) {
    return costs.optimizer(spec(std::move(matrices)), Precision::fp32, elements, tensors);
  };
  const HiddenMatrix tall{0, 64, 32}, flat{1, 32, 64};
  const QueuedWork rest = of({}, 1e8, 10), one = of({tall}, 2048, 1), other = of({flat}, 2048, 1);
  const QueuedWork all = of({tall, flat}, 1e8 + 4096, 12);
  EXPECT_NEAR(all.busy, rest.busy + one.busy + other.busy, 1e-9 * all.busy);
  EXPECT_NEAR(all.host, rest.host + one.host + other.host, 1e-9 * all.host);
  // The host issues two lerps, a cast, norm, clamp, quotient, decay and step, and in each of five
  // iterations a view, a product and two addmm. A tall matrix is transposed before and after. Each
  // addmm also launches a copy.
  EXPECT_NEAR(other.host, (8 + 5 * 4) * 5e-6 + 5 * 2 * machine.host.launch_seconds, 1e-12);
  EXPECT_NEAR(one.host - other.host, 2 * 5e-6, 1e-12);

  const OptimizerTraffic traffic =
      optimizer_traffic(spec({tall, flat}), Precision::fp32, 1e8 + 4096, 12);
  // the fused AdamW of the rest takes 5 launches of 320 blocks of 65,536 elements
  EXPECT_EQ(traffic.launches, 5 + 2 * (8 + 5 * 5));
  EXPECT_EQ(traffic.operators, 1 + 2 * (8 + 5 * 4) + 2);
}

TEST(Muon, StateIsOneMomentumOfAMatrixAndTwoOfTheRest) {
  const TrainingStep step = build_step(*load_model("gpt2"), {});
  const OptimizerSpec muon = for_model(spec({}), step);
  const double matrices = 12 * 12 * 768.0 * 768;
  const auto all = static_cast<double>(step.parameter_count);
  EXPECT_NEAR(all * optimizer_state_bytes(muon, Precision::fp32),
              4 * matrices + 8 * (all - matrices), 1);
  EXPECT_NEAR(all * optimizer_state_bytes(muon, Precision::master_bf16),
              8 * matrices + 12 * (all - matrices), 1);
  EXPECT_NEAR(all * optimizer_state_bytes(muon, Precision::pure_bf16),
              2 * matrices + 4 * (all - matrices), 1);
  // Other optimizers leave the matrices unknown.
  EXPECT_TRUE(for_model(spec({}, OptimizerKind::adamw), step).matrices.empty());
}

TEST(Muon, SomeTensorsHaveTheirMatricesNumberedAnew) {
  const OptimizerSpec part = of_tensors(spec({{4, 1, 2}, {6, 3, 4}, {9, 5, 6}}), {9, 5, 4});
  ASSERT_EQ(part.matrices.size(), 2u);
  EXPECT_EQ(part.matrices[0].tensor, 2);
  EXPECT_EQ(part.matrices[0].rows, 1);
  EXPECT_EQ(part.matrices[1].tensor, 0);
  EXPECT_EQ(part.matrices[1].columns, 6);
}

TEST(Muon, HostsCoresAreRefused) {
  HostSpec host;
  host.memory_bandwidth = 100e9;
  EXPECT_THROW(host_optimizer_seconds(spec({}), Precision::fp32, 1e6, host), ConfigError);
}

TEST(Muon, AProfileAnswersForTheVeryUpdateOnly) {
  Machine machine;
  machine.device = round_device();
  const auto modelled = std::make_shared<const RooflineCosts>(machine, Framework{});
  auto profile = std::make_shared<Profile>();
  const std::vector<HiddenMatrix> matrices{{0, 512, 512}};
  for (const int tensors : {1, 3}) {
    ProfileOptimizer entry;
    entry.name = OptimizerKind::muon;
    entry.implementation = OptimizerImplementation::for_loop;
    entry.elements = 300'000;
    entry.tensors = tensors;
    entry.seconds = 0.5;
    profile->optimizers.push_back(entry);
  }
  const auto costs = profile_costs(profile, modelled, {});
  const OptimizerSpec muon = spec(matrices, OptimizerKind::muon, OptimizerImplementation::for_loop);
  const QueuedWork measured = costs->optimizer(muon, Precision::fp32, 300'000, 3);
  EXPECT_EQ(measured.busy, 0.5);
  EXPECT_EQ(measured.provenance, Provenance::measured);
  const QueuedWork another = costs->optimizer(muon, Precision::fp32, 290'000, 3);
  EXPECT_EQ(another.busy, modelled->optimizer(muon, Precision::fp32, 290'000, 3).busy);
  EXPECT_EQ(another.provenance, Provenance::modelled);
}

}  // namespace
}  // namespace lockstep::muon_test
