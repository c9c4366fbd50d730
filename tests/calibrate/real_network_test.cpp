// Does LibTorch run the network whose figures the simulator has?
#include "torch/real_network.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

#include "core/errors.hpp"
// the simulated network: both halves are in this program, under two names
#include "engine/network.hpp"
#include "torch/attention.hpp"
#include "torch/grad_scaler.hpp"
#include "torch/precision.hpp"
#include "workload/model.hpp"

namespace lockstep::real_network_test {
namespace {

using Overrides = std::map<std::string, std::int64_t>;

// A small variant of the model: fewer blocks, narrower layers and a smaller input, if the model has
// these parameters.
TrainingStep small_step(const std::string& model, Precision precision = Precision::fp32) {
  const std::vector<Overrides> variants{
      {{"layers", 2},
       {"hidden", 64},
       {"heads", 4},
       {"kv_heads", 2},
       {"mlp", 96},
       {"vocabulary", 200}},
      {{"layers", 2}, {"hidden", 64}, {"heads", 4}, {"vocabulary", 200}},
      {{"layers", 2}, {"hidden", 64}, {"heads", 4}},
      {}};
  StepOptions options;
  options.samples = 2;
  options.precision = precision;
  options.fused_attention = false;
  for (const Overrides& overrides : variants) {
    for (const bool small : {true, false}) {
      options.parameters = overrides;
      if (model == "gemma") options.parameters["head_norm"] = 1;  // as in Gemma 3
      options.sequence = small ? 16 : 0;
      options.image = {};
      try {
        return build_step(*load_model(model), options);
      } catch (const ConfigError&) {  // the model has no such parameter, or no tokens
      }
      if (!small) continue;
      try {
        options.sequence = 0;
        options.image = {3, 64, 64};
        return build_step(*load_model(model), options);
      } catch (const ConfigError&) {
      }
    }
  }
  throw std::runtime_error("no variant of " + model);
}

class ShippedModels : public testing::TestWithParam<std::string> {};

TEST_P(ShippedModels, HaveTheSimulatorsParametersAndShapes) {
  const TrainingStep step = small_step(GetParam());
  ASSERT_LT(step.parameter_count, 400'000'000);
  for (const Layer& layer : step.layers) {
    if (layer.kind != "route" && layer.kind != "append_to_heads") continue;
    EXPECT_THROW(RealNetwork(step, at::kCPU, 1), std::exception);
    GTEST_SKIP() << "real training has no call for " << layer.kind << ", and says so";
  }
  RealNetwork network(step, at::kCPU, 1);
  std::int64_t count = 0;
  for (const NetworkParameter& parameter : network.parameters()) {
    if (parameter.tensor.requires_grad()) count += parameter.tensor.numel();
  }
  EXPECT_EQ(count, step.parameter_count);
  const at::NoGradGuard no_gradients;
  std::size_t seen = 0;
  ForwardHooks hooks;
  hooks.after = [&](std::size_t i, at::Tensor& output) {
    ++seen;
    const Layer& layer = step.layers[i];
    if (layer.kind == "cross_entropy") return;  // a number that the simulator leaves out
    EXPECT_EQ(static_cast<double>(output.numel() * output.element_size()), layer.output_bytes)
        << layer.name << " (" << layer.kind << "): " << output.sizes();
  };
  const at::Tensor loss = network.forward(random_batch(step, at::kCPU, 1), hooks);
  EXPECT_EQ(seen, step.layers.size());
  EXPECT_TRUE(std::isfinite(loss.item<double>()));
}

INSTANTIATE_TEST_SUITE_P(All, ShippedModels, testing::ValuesIn(known_models()),
                         [](const testing::TestParamInfo<std::string>& one) {
                           std::string name = one.param;
                           for (char& c : name) {
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           }
                           return name;
                         });

// Under autocast, each layer's output has the simulator's element size.
class Autocast : public testing::TestWithParam<std::string> {};

TEST_P(Autocast, ComputesInTheSimulatorsTypes) {
  const TrainingStep step = small_step(GetParam(), Precision::amp_bf16);
  RealNetwork network(step, at::kCPU, 1);
  ForwardHooks hooks;
  int narrow = 0;
  hooks.after = [&](std::size_t i, at::Tensor& output) {
    const Layer& layer = step.layers[i];
    if (layer.kind != "conv" && layer.kind != "linear" && layer.kind != "attention") return;
    ++narrow;
    EXPECT_EQ(output.scalar_type(), at::kBFloat16) << layer.name;
    EXPECT_EQ(static_cast<double>(output.numel() * output.element_size()), layer.output_bytes)
        << layer.name;
  };
  at::Tensor loss = network.forward(random_batch(step, at::kCPU, 1), hooks);
  EXPECT_GT(narrow, 3);
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
  loss.backward();
  for (const NetworkParameter& parameter : network.parameters()) {
    ASSERT_TRUE(parameter.tensor.grad().defined()) << parameter.name;
    EXPECT_EQ(parameter.tensor.grad().scalar_type(), at::kFloat) << parameter.name;
  }
  // After the scope has ended, the next network must compute in fp32.
  const at::Tensor a = at::ones({2, 2});
  EXPECT_EQ(at::matmul(a, a).scalar_type(), at::kFloat);
}

INSTANTIATE_TEST_SUITE_P(Models, Autocast, testing::Values("resnet18", "gpt"));

// The slopes that Press et al. print for 8 heads, and for 12 as in their implementation.
TEST(Alibi, HasThePublishedSlopes) {
  const at::Tensor eight = alibi_biases(8, 3, at::kFloat);
  ASSERT_EQ(eight.sizes(), (std::vector<std::int64_t>{8, 1, 3}));
  for (int head = 0; head < 8; ++head) {
    const float slope = std::pow(0.5f, float(head + 1));
    EXPECT_FLOAT_EQ(eight[head][0][2].item<float>() - eight[head][0][1].item<float>(), slope);
    EXPECT_FLOAT_EQ(eight[head][0][1].item<float>() - eight[head][0][0].item<float>(), slope);
  }
  const at::Tensor twelve = alibi_biases(12, 2, at::kFloat);
  const double powers[] = {1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5};
  for (int head = 0; head < 12; ++head) {
    EXPECT_NEAR(twelve[head][0][1].item<double>() - twelve[head][0][0].item<double>(),
                std::pow(2, -powers[head]), 1e-6)
        << head;
  }
}

// Attention must equal its definition, number by number.
TEST(Attention, IsTheDefinition) {
  at::manual_seed(3);
  const int heads = 4, tokens = 5, size = 6;
  const at::Tensor q = at::randn({1, heads, tokens, size}), k = at::randn_like(q),
                   v = at::randn_like(q);
  for (const bool causal : {false, true}) {
    for (const bool alibi : {false, true}) {
      AttentionRule rule;
      rule.causal = causal;
      rule.alibi = alibi;
      const at::Tensor y = attend(q, k, v, rule);
      rule.fused = true;
      EXPECT_TRUE(at::allclose(attend(q, k, v, rule), y, 1e-4, 1e-5));
      for (int h = 0; h < heads; ++h) {
        for (int i = 0; i < tokens; ++i) {
          at::Tensor sum = at::zeros({size});
          double weights = 0;
          for (int j = 0; j < (causal ? i + 1 : tokens); ++j) {
            double score = at::dot(q[0][h][i], k[0][h][j]).item<double>() / std::sqrt(size);
            if (alibi) score += std::pow(2.0, -8.0 * (h + 1) / heads) * (j - i);
            sum += v[0][h][j] * std::exp(score);
            weights += std::exp(score);
          }
          EXPECT_TRUE(at::allclose(y[0][h][i], sum / weights, 1e-4, 1e-5))
              << "causal " << causal << " alibi " << alibi << " head " << h << " token " << i;
        }
      }
    }
  }
}

TEST(RealNetwork, ReadsAlibi) {
  StepOptions options;
  options.samples = 2;
  options.fused_attention = false;
  options.parameters = {
      {"layers", 1}, {"hidden", 32}, {"heads", 4}, {"vocabulary", 50}, {"sequence", 8}};
  const auto loss_with = [&](std::int64_t alibi) {
    options.parameters["alibi"] = alibi;
    const TrainingStep step = build_step(*load_model("gpt"), options);
    RealNetwork network(step, at::kCPU, 1);
    return network.forward(random_batch(step, at::kCPU, 1)).item<double>();
  };
  EXPECT_NE(loss_with(1), loss_with(0));
}

// The loss of half-precision logits is computed in their precision, unless the model casts them to
// fp32.
TEST(RealNetwork, MakesFp32OfLogitsWhereTheModelSaysSo) {
  for (const bool upcast : {false, true}) {
    StepOptions options;
    options.samples = 1;
    options.precision = Precision::pure_bf16;
    options.fused_attention = false;
    options.sequence = 8;
    options.parameters = {{"layers", 1}, {"hidden", 32}, {"heads", 2}, {"upcast_loss", upcast}};
    const TrainingStep step = build_step(*load_model("gpt2"), options);
    RealNetwork network(step, at::kCPU, 1);
    EXPECT_EQ(network.forward(random_batch(step, at::kCPU, 1)).scalar_type(),
              upcast ? at::kFloat : at::kBFloat16);
  }
}

// torch.amp.GradScaler halves its scale after infinities, and doubles it after 2000 updates
// without.
TEST(GradScaler, BacksOffAndGrows) {
  GradScaler scaler(Precision::amp_fp16, at::kCPU);
  const auto scale = [&] { return scaler.scale(at::ones({})).item<float>(); };
  if (scale() == 1) GTEST_SKIP() << "this LibTorch has no such kernels for CPUs";
  at::Tensor parameter = at::zeros({2});
  const auto unscale = [&](float gradient) {
    parameter.mutable_grad() = at::full({2}, gradient);
    return scaler.unscale({parameter});
  };
  EXPECT_EQ(scale(), 65536);
  EXPECT_TRUE(unscale(65536));
  EXPECT_EQ(parameter.grad()[0].item<float>(), 1);
  EXPECT_FALSE(unscale(std::numeric_limits<float>::infinity()));
  EXPECT_EQ(scale(), 32768);
  EXPECT_FALSE(unscale(std::numeric_limits<float>::quiet_NaN()));
  EXPECT_EQ(scale(), 16384);
  for (int i = 0; i < 1999; ++i) ASSERT_TRUE(unscale(16384));
  EXPECT_EQ(parameter.grad()[0].item<float>(), 1);
  EXPECT_EQ(scale(), 16384);
  EXPECT_TRUE(unscale(16384));
  EXPECT_EQ(scale(), 32768);
}

TEST(GradScaler, LeavesOtherPrecisionsAlone) {
  GradScaler scaler(Precision::amp_bf16, at::kCPU);
  EXPECT_EQ(scaler.scale(at::ones({})).item<float>(), 1);
  at::Tensor parameter = at::zeros({1});
  parameter.mutable_grad() = at::full({1}, std::numeric_limits<float>::infinity());
  EXPECT_TRUE(scaler.unscale({parameter}));
}

// The setting belongs to a thread, so a separate thread keeps the next test's arithmetic unchanged.
TEST(Precision, FlushesDenormals) {
  const at::Tensor tiny = at::full({1}, 1e-40f);
  const auto doubled = [&] { return (tiny * 2).item<float>(); };
  EXPECT_GT(doubled(), 0);
  std::thread([&] {
    flush_denormals();
    EXPECT_EQ(doubled(), 0);
    std::thread([&] { EXPECT_EQ(doubled(), 0); }).join();
  }).join();
  EXPECT_GT(doubled(), 0);
}

}  // namespace
}  // namespace lockstep::real_network_test
