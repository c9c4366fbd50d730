// Does each layer launch the kernels of eager PyTorch: operators, casts, sums of gradients, changes
// of layout?
#include <gtest/gtest.h>

#include "build.hpp"

namespace lockstep::kernels_test {
namespace {

TEST(Kernels, OfALinearLayer) {
  StepOptions options;
  options.samples = 4;
  const TrainingStep step = build_layers(R"(
  - flatten
  - linear: 128
    name: first
  - relu
  - linear: classes
    name: second
  - cross_entropy)",
                                         options);
  const Layer& second = find_layer(step, "second");
  EXPECT_EQ(operators(second.forward), 1) << "addmm";
  EXPECT_EQ(launches(second.forward), 1);
  EXPECT_EQ(operators(second.backward), 3 + 2) << "two mm, one sum; two AccumulateGrad";
  EXPECT_EQ(launches(second.backward), 3);
  EXPECT_EQ(launches(find_layer(step, "first").backward), 2) << "no gradient of the input";
}

// In TeraPipe (Li et al. 2021) the queries of a token slice see all keys of the tokens before the
// slice, and a causal triangle of their own keys.
TEST(Kernels, OfTokenSlicesMeetTheKeysBefore) {
  StepOptions options;
  options.samples = 2;
  options.precision = Precision::pure_fp16;
  options.parameters = {{"layers", 1}, {"hidden", 64}, {"heads", 4}, {"vocabulary", 128}};
  const auto gpt = load_model("gpt");
  const auto attention = [&](std::int64_t tokens, std::int64_t before) {
    options.sequence = tokens;
    options.tokens_before = before;
    return find_layer(build_step(*gpt, options), "h.0.attn.attention");
  };
  const auto flops = [](const Layer& layer, KernelKind kind) {
    double sum = 0;
    for (const auto* kernels : {&layer.forward, &layer.backward}) {
      for (const Kernel& kernel : *kernels) sum += kernel.kind == kind ? kernel.flops : 0;
    }
    return sum;
  };
  for (const bool fused : {true, false}) {
    options.fused_attention = fused;
    const KernelKind kind = fused ? KernelKind::attention : KernelKind::gemm;
    const double whole = flops(attention(96, 0), kind);
    double sliced = 0;
    for (const auto& [tokens, before] : {std::pair{48, 0}, {24, 48}, {24, 72}}) {
      sliced += flops(attention(tokens, before), kind);
    }
    // Unfused products also compute the masked part of a slice.
    EXPECT_NEAR(sliced / whole, fused ? 1 : (48.0 * 48 + 24 * 72 + 24 * 96) / (96 * 96), 1e-9);
  }
  const Layer later = attention(24, 72);
  EXPECT_EQ(later.backward.back().kind, KernelKind::elementwise) << "gradients of earlier keys";
  EXPECT_EQ(later.backward.back().bytes_written, 2.0 * 2 * 2 * 72 * 64);
}

TEST(Kernels, AutocastCastsWeightsOncePerStep) {
  StepOptions options;
  options.samples = 4;
  options.precision = Precision::amp_fp16;
  const TrainingStep step = build_layers(R"(
  - conv: {out: 8, kernel: 3}
    name: first
  - conv: {out: 8, kernel: 3}
    name: second
  - flatten
  - linear: classes
  - cross_entropy)",
                                         options);
  const auto casts = [](const std::vector<Kernel>& kernels, double bytes) {
    int count = 0;
    for (const Kernel& kernel : kernels) {
      if (kernel.kind == KernelKind::elementwise && kernel.bytes_read == 2 * bytes &&
          kernel.bytes_written == bytes) {
        ++count;
      }
    }
    return count;
  };
  const Layer& first = find_layer(step, "first");
  EXPECT_EQ(casts(first.forward, 2.0 * 8 * 3 * 9), 1) << "weight";
  EXPECT_EQ(casts(first.forward, 2.0 * 8), 1) << "bias";
  EXPECT_EQ(casts(first.forward, 2.0 * 4 * 3 * 32 * 32), 1) << "the fp32 image";
  EXPECT_EQ(casts(find_layer(step, "second").forward, 2.0 * 4 * 8 * 30 * 30), 0)
      << "the input is half precision already";
  for (const Layer& layer : step.layers) {
    for (const Kernel& kernel : layer.forward) {
      if (kernel.kind == KernelKind::convolution) {
        EXPECT_EQ(kernel.math, MathMode::fp16);
      }
    }
  }
}

TEST(Kernels, LayoutChangesOnlyForTensorCoresOnNchw) {
  const auto copies = [](Precision precision, bool channels_last) {
    StepOptions options;
    options.precision = precision;
    options.channels_last = channels_last;
    int count = 0;
    for (const Layer& layer : build_step(*load_model("resnet18"), options).layers) {
      for (const Kernel& kernel : layer.forward)
        count += kernel.kind == KernelKind::copy && kernel.launches > 0;
    }
    return count;
  };
  EXPECT_EQ(copies(Precision::amp_fp16, false), 20) << "every convolution of ResNet-18";
  EXPECT_EQ(copies(Precision::amp_fp16, true), 0);
  EXPECT_EQ(copies(Precision::tf32, false), 20);
  EXPECT_EQ(copies(Precision::fp32, false), 0);
}

TEST(Kernels, GradientsOfSharedOutputsAreSummed) {
  const TrainingStep step = build_step(*load_model("resnet18"), {});
  // The input of layer1.0 feeds a convolution and the shortcut, so its two gradients are summed.
  const Layer& pool = find_layer(step, "maxpool");
  ASSERT_FALSE(pool.backward.empty());
  EXPECT_EQ(pool.backward[0].bytes_read, 2 * pool.output_bytes);
  EXPECT_EQ(pool.backward[0].bytes_written, pool.output_bytes);
  EXPECT_EQ(pool.backward[0].launches, 1);
}

TEST(Kernels, TiedHeadHasNoParametersAndAddsItsGradient) {
  const TrainingStep tied = build_step(*load_model("gpt2"), {});
  EXPECT_TRUE(find_layer(tied, "lm_head").parameters.empty());
  StepOptions options;
  options.parameters["tied"] = 0;
  const TrainingStep untied = build_step(*load_model("gpt2"), options);
  EXPECT_EQ(untied.parameter_count - tied.parameter_count, 50257 * 768);
  EXPECT_EQ(launches(find_layer(tied, "wte").backward),
            launches(find_layer(untied, "wte").backward) + 1);
}

TEST(Kernels, NormsRunInFullPrecisionUnderAutocast) {
  StepOptions options;
  options.precision = Precision::amp_bf16;
  const TrainingStep step = build_step(*load_model("vit_b_16"), options);
  EXPECT_EQ(find_layer(step, "encoder.layers.encoder_layer_3.ln_2").output_bytes, 4.0 * 197 * 768);
  EXPECT_EQ(find_layer(step, "encoder.layers.encoder_layer_3.mlp.0").output_bytes,
            2.0 * 197 * 3072);
}

// As calibrate/oracle/gpu found, the loss keeps 2 + 4 bytes of a logit under autocast, 2 in half
// precision, and 4 if logits are upcast.
TEST(Kernels, TheLossKeepsLogSoftmaxInThePrecisionOfTheLogits) {
  const auto saved = [](Precision precision, std::int64_t upcast) {
    StepOptions options;
    options.precision = precision;
    options.sequence = 64;
    options.parameters = {{"layers", 1}, {"upcast_loss", upcast}};
    double bytes = 0;
    const TrainingStep step = build_step(*load_model("gpt2"), options);
    for (const SavedTensor& tensor : find_layer(step, "cross_entropy").saved) bytes += tensor.bytes;
    return bytes / (64 * 50257);
  };
  EXPECT_EQ(saved(Precision::fp32, 0), 4);
  EXPECT_EQ(saved(Precision::amp_bf16, 0), 6);
  EXPECT_EQ(saved(Precision::pure_bf16, 0), 2);
  EXPECT_EQ(saved(Precision::amp_bf16, 1), 4);
  EXPECT_EQ(saved(Precision::pure_bf16, 1), 4);
}

TEST(Kernels, BatchNormHasThreeBuffers) {
  const TrainingStep step = build_step(*load_model("resnet50"), {});
  int buffers = 0;
  double bytes = 0;
  for (const Layer& layer : step.layers) {
    buffers += layer.buffers;
    bytes += layer.buffer_bytes;
  }
  EXPECT_EQ(buffers, 3 * 53);
  EXPECT_EQ(bytes, 2 * 4.0 * 26560 + 8 * 53) << "26,560 normalised channels";
}

// Forward reads the input for the sums and once more to normalize it. Backward reads input and
// gradient twice each.
TEST(Kernels, BatchNormReadsEverythingTwice) {
  const TrainingStep step = build_step(*load_model("resnet50"), {});
  const Layer& norm = find_layer(step, "bn1");
  const double bytes = norm.output_bytes;
  EXPECT_EQ(norm.forward.back().bytes_read, 2 * bytes);
  EXPECT_EQ(norm.forward.back().bytes_written, bytes);
  EXPECT_EQ(norm.backward.front().bytes_read, 4 * bytes);
  EXPECT_EQ(norm.backward.front().bytes_written, bytes);
}

// A wide batch norm casts its input to fp32, normalizes it there and casts back; backward keeps an
// fp32 copy of the input.
TEST(Kernels, AWideBatchNormIsBetweenCasts) {
  StepOptions options;
  options.precision = Precision::pure_bf16;
  const Layer narrow = find_layer(build_step(*load_model("resnet50"), options), "bn1");
  options.wide_batch_norm = true;
  const Layer wide = find_layer(build_step(*load_model("resnet50"), options), "bn1");
  EXPECT_TRUE(wide.wide);
  EXPECT_FALSE(narrow.wide);
  EXPECT_EQ(wide.output_bytes, narrow.output_bytes);
  EXPECT_EQ(launches(wide.forward), launches(narrow.forward) + 2);
  EXPECT_EQ(launches(wide.backward), launches(narrow.backward) + 2);
  EXPECT_EQ(wide.saved.front().bytes, 2 * narrow.saved.front().bytes);
  EXPECT_EQ(wide.saved.front().produced_by, wide.saved.back().produced_by);
  EXPECT_EQ(wide.buffer_bytes - 8, 2 * (narrow.buffer_bytes - 8));
  options.precision = Precision::fp32;
  EXPECT_FALSE(find_layer(build_step(*load_model("resnet50"), options), "bn1").wide);
}

TEST(Kernels, BlocksAreTheUnitsOfWrapping) {
  const auto blocks = [](const std::string& model) {
    std::set<std::string> names;
    for (const Layer& layer : build_step(*load_model(model), {}).layers) {
      if (!layer.block.empty()) names.insert(layer.block);
    }
    return names.size();
  };
  EXPECT_EQ(blocks("gpt2"), 12u);
  EXPECT_EQ(blocks("resnet50"), 16u);
  EXPECT_EQ(blocks("convnext_large"), 36u);
  EXPECT_EQ(blocks("densenet121"), 58u);
  EXPECT_EQ(blocks("vgg16"), 0u);
}

TEST(Kernels, CheckpointingFlagsExactlyTheBlocks) {
  StepOptions options;
  options.activation_checkpointing = true;
  for (const Layer& layer : build_step(*load_model("gpt2"), options).layers) {
    EXPECT_EQ(layer.checkpointed, !layer.block.empty()) << layer.name;
    EXPECT_FALSE(layer.keeps_output) << layer.name;
  }
}

TEST(Kernels, AttentionAloneIsComputedAgain) {
  StepOptions options;
  options.activation_checkpointing = true;
  options.recompute = Recompute::attention;
  for (const Layer& layer : build_step(*load_model("gpt2"), options).layers) {
    EXPECT_EQ(layer.checkpointed, layer.kind == "attention") << layer.name;
    EXPECT_FALSE(layer.keeps_output) << layer.name;
  }
}

// torchtitan's policy counts the products of a block from one and recomputes every even one.
TEST(Kernels, OperatorsKeepFusedAttentionAndEverySecondProduct) {
  StepOptions options;
  options.activation_checkpointing = true;
  options.recompute = Recompute::operators;
  const auto kept = [&](const std::string& block) {
    std::vector<std::string> names;
    for (const Layer& layer : build_step(*load_model("gpt2"), options).layers) {
      EXPECT_EQ(layer.checkpointed, !layer.block.empty()) << layer.name;
      if (layer.block == block && layer.keeps_output) names.push_back(layer.name);
    }
    return names;
  };
  const std::vector<std::string> products{"h.11.attn.c_attn", "h.11.mlp.c_fc"};
  std::vector<std::string> fused = products;
  fused.insert(fused.begin() + 1, "h.11.attn.attention");
  EXPECT_EQ(kept("h.11"), fused);
  options.fused_attention = false;
  EXPECT_EQ(kept("h.11"), products);
}

}  // namespace
}  // namespace lockstep::kernels_test
