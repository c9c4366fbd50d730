// Are shapes, kernel sizes and traffic equal to figures computed by hand?
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "build.hpp"

namespace lockstep::shapes_test {
namespace {

TEST(ConvolutionShapes, ResNetStemAt224) {
  StepOptions options;
  options.samples = 2;
  const TrainingStep step = build_step(*load_model("resnet50"), options);
  const Layer& stem = find_layer(step, "conv1");
  ASSERT_EQ(stem.forward.size(), 1u);
  const Kernel& kernel = stem.forward[0];
  EXPECT_EQ(kernel.m, 2 * 112 * 112);
  EXPECT_EQ(kernel.n, 64);
  EXPECT_EQ(kernel.k, 3 * 7 * 7);
  EXPECT_DOUBLE_EQ(kernel.flops, 2.0 * 2 * 112 * 112 * 64 * 147);
  EXPECT_DOUBLE_EQ(kernel.bytes_read, 4.0 * (2 * 3 * 224 * 224 + 64 * 147));
  EXPECT_DOUBLE_EQ(kernel.bytes_written, 4.0 * 2 * 64 * 112 * 112);
  EXPECT_EQ(kernel.conv.height_out, 112);
  EXPECT_EQ(find_layer(step, "layer4.2.conv2").forward[0].m, 2 * 7 * 7);
}

TEST(ConvolutionShapes, TheThreeImplicitGemms) {
  const TrainingStep step = build_layers(R"(
  - conv: {out: 16, kernel: 3}
    name: a
  - conv: {out: 32, kernel: 5, stride: 2, padding: 4, dilation: 2, groups: 4, bias: false}
    name: b
  - flatten
  - linear: classes
  - cross_entropy)");
  // The size is 30 x 30 after a, and (30 + 8 - 9) / 2 + 1 = 15 after b.
  const Layer& b = find_layer(step, "b");
  const Kernel forward = find_kernel(b.forward, KernelKind::convolution, Pass::forward);
  EXPECT_EQ((std::vector{forward.m, forward.n, forward.k, forward.batch}),
            (std::vector<std::int64_t>{15 * 15, 8, 4 * 25, 4}));
  const Kernel data = find_kernel(b.backward, KernelKind::convolution, Pass::data_gradient);
  EXPECT_EQ((std::vector{data.m, data.n, data.k, data.batch}),
            (std::vector<std::int64_t>{30 * 30, 4, 8 * 25, 4}));
  const Kernel weight = find_kernel(b.backward, KernelKind::convolution, Pass::weight_gradient);
  EXPECT_EQ((std::vector{weight.m, weight.n, weight.k, weight.batch}),
            (std::vector<std::int64_t>{8, 4 * 25, 15 * 15, 4}));
  EXPECT_DOUBLE_EQ(forward.flops, 2.0 * 15 * 15 * 32 * 4 * 25);
  EXPECT_DOUBLE_EQ(data.flops, forward.flops);
  EXPECT_DOUBLE_EQ(weight.flops, forward.flops);
  // The image needs no gradient, so the first layer has no data gradient.
  for (const Kernel& kernel : find_layer(step, "a").backward) {
    EXPECT_NE(kernel.pass, Pass::data_gradient);
  }
}

TEST(PoolingShapes, RoundDownUnlessAsked) {
  const auto size = [](const std::string& pool) {
    const TrainingStep step = build_layers("  - " + pool +
                                           "\n    name: pool\n  - flatten\n  - linear: classes\n"
                                           "  - cross_entropy");
    return find_layer(step, "pool").output_bytes / 4 / 3;
  };
  EXPECT_EQ(size("max_pool: {kernel: 3, stride: 2}"), 15 * 15);
  EXPECT_EQ(size("max_pool: {kernel: 3, stride: 2, ceil_mode: true}"), 16 * 16);
  EXPECT_EQ(size("max_pool: {kernel: 3, stride: 2, padding: 1}"), 16 * 16);
  EXPECT_EQ(size("avg_pool: 5"), 6 * 6);
  EXPECT_EQ(size("adaptive_avg_pool: 7"), 7 * 7);
}

TEST(PoolingShapes, OnlyMaximaWithChannelsFirstSearchTheirWindows) {
  StepOptions options;
  options.samples = 5;
  const auto searching = [&](const std::string& pool) {
    const TrainingStep step =
        build_layers("  - conv: {out: 4, kernel: 1}\n  - " + pool +
                         ": 2\n    name: pool\n  - flatten\n  - linear: classes\n  - cross_entropy",
                     options);
    return find_layer(step, "pool").backward.front().searching_elements;
  };
  EXPECT_EQ(searching("max_pool"), 5 * 4 * 32 * 32);
  EXPECT_EQ(searching("avg_pool"), 0);
  options.channels_last = true;
  EXPECT_EQ(searching("max_pool"), 0);
}

TEST(LinearShapes, RowsAreSamplesTimesTokens) {
  StepOptions options;
  options.samples = 3;
  options.sequence = 100;
  const TrainingStep step = build_step(*load_model("gpt2"), options);
  EXPECT_EQ(step.tokens, 300);
  EXPECT_DOUBLE_EQ(step.input_bytes, 2.0 * 8 * 300);
  const Layer& projection = find_layer(step, "h.3.mlp.c_fc");
  const Kernel forward = find_kernel(projection.forward, KernelKind::gemm, Pass::forward);
  EXPECT_EQ((std::vector{forward.m, forward.n, forward.k}),
            (std::vector<std::int64_t>{300, 3072, 768}));
  const Kernel data = find_kernel(projection.backward, KernelKind::gemm, Pass::data_gradient);
  EXPECT_EQ((std::vector{data.m, data.n, data.k}), (std::vector<std::int64_t>{300, 768, 3072}));
  const Kernel weight = find_kernel(projection.backward, KernelKind::gemm, Pass::weight_gradient);
  EXPECT_EQ((std::vector{weight.m, weight.n, weight.k}),
            (std::vector<std::int64_t>{3072, 768, 300}));
}

TEST(AttentionShapes, GroupedQueriesReadFewerKeys) {
  StepOptions options;
  options.samples = 2;
  options.sequence = 1024;
  options.precision = Precision::pure_bf16;
  const TrainingStep step = build_step(*load_model("llama3-8b"), options);
  const Layer& attention = find_layer(step, "model.layers.5.self_attn.attention");
  EXPECT_EQ(attention.block, "model.layers.5");
  const Kernel kernel = find_kernel(attention.forward, KernelKind::attention, Pass::forward);
  EXPECT_EQ((std::vector{kernel.m, kernel.n, kernel.k, kernel.batch}),
            (std::vector<std::int64_t>{1024, 1024, 128, 2 * 32}));
  EXPECT_DOUBLE_EQ(kernel.flops, 0.5 * 4.0 * 2 * 32 * 1024 * 1024 * 128) << "causal: half";
  EXPECT_DOUBLE_EQ(kernel.bytes_read, 2.0 * 2 * 1024 * 128 * (32 + 8 + 8));
  const Kernel back = find_kernel(attention.backward, KernelKind::attention, Pass::backward);
  EXPECT_DOUBLE_EQ(back.flops, 2.5 * kernel.flops) << "five products for two";
}

TEST(AttentionShapes, MaterialisedScoresCostTheirMatrices) {
  StepOptions options;
  options.samples = 2;
  options.fused_attention = false;
  const TrainingStep step = build_step(*load_model("vit_b_16"), options);
  const Layer& attention =
      find_layer(step, "encoder.layers.encoder_layer_0.self_attention.attention");
  int products = 0;
  double flops = 0;
  for (const auto* list : {&attention.forward, &attention.backward}) {
    for (const Kernel& kernel : *list) {
      if (kernel.kind != KernelKind::gemm) continue;
      ++products;
      flops += kernel.flops;
    }
  }
  EXPECT_EQ(products, 6);
  EXPECT_DOUBLE_EQ(flops, 6 * 2.0 * 2 * 12 * 197 * 197 * 64);
}

RC_GTEST_PROP(ConvolutionShapes, AgreeWithCountingWindows, ()) {
  const int size = *rc::gen::inRange(1, 70);
  const int kernel = *rc::gen::inRange(1, 8);
  const int stride = *rc::gen::inRange(1, 5);
  const int padding = *rc::gen::inRange(0, 4);
  const int dilation = *rc::gen::inRange(1, 4);
  int windows = 0;  // positions at which the dilated kernel fits into the padded image
  for (int start = 0; start + dilation * (kernel - 1) + 1 <= size + 2 * padding; start += stride) {
    ++windows;
  }
  StepOptions options;
  options.image = {3, size, size};
  const std::string text = "  - conv: {out: 4, kernel: " + std::to_string(kernel) +
                           ", stride: " + std::to_string(stride) +
                           ", padding: " + std::to_string(padding) +
                           ", dilation: " + std::to_string(dilation) +
                           "}\n    name: conv\n  - flatten\n  - linear: classes\n  - cross_entropy";
  if (windows == 0) {
    RC_ASSERT_THROWS_AS(build_layers(text, options), ConfigError);
  } else {
    const TrainingStep step = build_layers(text, options);
    RC_ASSERT(find_layer(step, "conv").output_bytes == 16.0 * windows * windows);
  }
}

}  // namespace
}  // namespace lockstep::shapes_test
