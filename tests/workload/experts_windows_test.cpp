// Have mixtures of experts and attention in windows the FLOPs and bytes that are counted by hand?
#include <gmock/gmock.h>

#include "build.hpp"

namespace lockstep::experts_windows_test {
namespace {

using testing::HasSubstr;

double matmul_flops(const TrainingStep& step, const std::string& kind, bool forward) {
  double sum = 0;
  for (const Layer& layer : step.layers) {
    if (!kind.empty() && layer.kind != kind) continue;
    for (const Kernel& kernel : forward ? layer.forward : layer.backward) {
      if (kernel.kind == KernelKind::gemm) sum += kernel.flops;
    }
  }
  return sum;
}

double saved_of(const TrainingStep& step, const std::string& kind, const std::string& name) {
  double sum = 0;
  for (const Layer& layer : step.layers) {
    if (layer.kind != kind) continue;
    for (const SavedTensor& saved : layer.saved) {
      if (saved.name == name) sum += saved.bytes;
    }
  }
  return sum;
}

std::string refusal(const std::string& model) {
  try {
    build_text(model);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

// Mixtral 8x7B computes with 2 of its 8 experts: 12.9 of its 46.7 billion parameters with
// embeddings (Jiang et al. 2024, section 1: 13 billion active).
TEST(Experts, ComputeWithTheChosenOnes) {
  StepOptions options;
  options.sequence = 512;
  options.precision = Precision::pure_bf16;
  const TrainingStep step = build_step(*load_model("mixtral-8x7b"), options);
  const double h = 4096, kv = 1024, inner = 14336, tokens = 512;
  const double each = 2 * 3 * h * inner;
  EXPECT_DOUBLE_EQ(matmul_flops(step, "experts", true), 32 * 2 * tokens * each);
  EXPECT_DOUBLE_EQ(matmul_flops(step, "experts", false), 2 * 32 * 2 * tokens * each);
  const double active = 32 * (2 * h * h + 2 * h * kv + each + 8 * h) + 32000 * h;
  EXPECT_DOUBLE_EQ(matmul_flops(step, "", true), 2 * tokens * active);
  EXPECT_NEAR(active + 32000 * h, 12.9e9, 0.05e9);
  // The gates and their products with the inputs, for two experts per token in bf16.
  EXPECT_EQ(saved_of(step, "experts", "product"), 32 * 2 * tokens * inner * 2);
}

TEST(Experts, RoundUpTheTokensOfEach) {
  StepOptions options;
  options.sequence = 3;
  const TrainingStep step = build_step(*load_model("mixtral-8x7b"), options);
  for (const Layer& layer : step.layers) {
    if (layer.kind != "experts") continue;
    EXPECT_EQ(layer.parameters.size(), 24u);
    for (const Kernel& kernel : layer.forward) {
      if (kernel.kind != KernelKind::gemm) continue;
      EXPECT_EQ(kernel.m, 1);  // 6 choices among 8 experts
    }
  }
}

TEST(Experts, RefuseWhatCannotBe) {
  const std::string start =
      "title: t\ninput: {tokens: 8}\nlayers:\n- embedding: {rows: 10, features: 16}\n  name: x\n";
  const auto with = [&](const std::string& router, const std::string& experts) {
    return refusal(start + "- linear: " + router + "\n  name: router\n- experts: " + experts +
                   "\n  from: [x, router]\n- linear: 10\n- cross_entropy\n");
  };
  EXPECT_EQ(with("4", "{count: 4, inner: 8}"), "");
  EXPECT_THAT(with("4", "{count: 4, inner: 8, top: 5}"), HasSubstr("5 of 4 experts"));
  EXPECT_THAT(with("3", "{count: 4, inner: 8}"), HasSubstr("the router gives 8 x 3, 8 x 4"));
}

// Swin-T at 224 x 224 pixels: its stages have 2, 2, 6 and 2 blocks with 64, 16, 4 and 1 windows of
// 49 pixels and 3, 6, 12 and 24 heads.
TEST(Windows, AttendInsideThemselves) {
  StepOptions options;
  options.samples = 2;
  const TrainingStep step = build_step(*load_model("swin_t"), options);
  const double pairs = 49 * 49;
  const double scores = 2 * pairs * (2 * 64 * 3 + 2 * 16 * 6 + 6 * 4 * 12 + 2 * 24);
  EXPECT_EQ(saved_of(step, "window_attention", "softmax"), 4 * scores);
  EXPECT_DOUBLE_EQ(matmul_flops(step, "window_attention", true), 2 * 2 * 32 * scores);
  int rolled = 0;
  for (const Layer& layer : step.layers) rolled += static_cast<int>(attribute(layer, "rolled"));
  EXPECT_EQ(rolled, 3 * (1 + 1 + 3));  // the last stage is one window and is not shifted
}

// 200 / 32 is 6.25, so every stage is padded to whole windows and cropped again.
TEST(Windows, ArePaddedToWholeOnes) {
  StepOptions options;
  options.image = {3, 200, 200};
  const TrainingStep step = build_step(*load_model("swin_t"), options);
  for (const Layer& layer : step.layers) {
    if (layer.name == "features.1.0.attn.windows") {
      EXPECT_EQ(layer.output_bytes, 4.0 * 56 * 56 * 96);
    }
    if (layer.name == "features.1.0.attn.join_windows") {
      EXPECT_EQ(layer.output_bytes, 4.0 * 50 * 50 * 96);
    }
  }
}

TEST(Windows, RefuseWhatCannotBe) {
  const auto with = [](const std::string& layers) {
    return refusal("title: t\ninput: {image: [6, 8, 8], classes: 3}\nlayers:\n" + layers +
                   "- flatten\n- linear: classes\n- cross_entropy\n");
  };
  EXPECT_THAT(with("- windows: {size: 4}\n"), HasSubstr("channels last"));
  EXPECT_THAT(with("- permute\n- window_attention: {heads: 1, size: 3}\n"),
              HasSubstr("not made of windows of 3"));
  EXPECT_THAT(with("- permute\n- window_attention: {heads: 4, size: 4}\n"),
              HasSubstr("not divisible by 12"));
  EXPECT_THAT(
      with("- permute\n- windows: {size: 4}\n- join_windows: {height: 9, width: 8, size: 4}\n"),
      HasSubstr("do not make 9 x 8"));
}

}  // namespace
}  // namespace lockstep::experts_windows_test
