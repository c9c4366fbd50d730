// Are the saved activations those that a real framework keeps? The totals below are live bytes
// after forward without the input batch, measured with a memory reporter inside LibTorch (CPU,
// fp32).
#include <gtest/gtest.h>

#include <algorithm>

#include "build.hpp"

namespace lockstep::saved_test {
namespace {

double megabytes(const std::string& model, std::int64_t samples) {
  StepOptions options;
  options.samples = samples;
  options.image = {3, 32, 32};
  options.classes = 10;
  options.parameters["cifar"] = 1;
  return saved_bytes(build_step(*load_model(model), options)) / 1e6;
}

TEST(SavedActivations, EqualTheMeasuredLiveBytes) {
  EXPECT_NEAR(megabytes("vgg16_bn", 8), 20.73, 0.005);
  EXPECT_NEAR(megabytes("vgg16_bn", 32), 82.81, 0.005);
  EXPECT_NEAR(megabytes("resnet50", 8), 204.23, 0.005);
  EXPECT_NEAR(megabytes("densenet121", 8), 318.35, 0.005);
}

std::vector<std::string> saved_names(const Layer& layer) {
  std::vector<std::string> names;
  for (const SavedTensor& saved : layer.saved) names.push_back(saved.name);
  return names;
}

using Names = std::vector<std::string>;

TEST(SavedActivations, FollowTheRuleOfEachOperator) {
  const TrainingStep step = build_layers(R"(
  - conv: {out: 8, kernel: 3, padding: 1}
    name: conv
  - batch_norm:
    name: norm
  - relu: {inplace: true}
    name: relu
  - max_pool: 2
    name: max
  - residual:
      - gelu:
        name: gelu
    name: sum
  - silu: {inplace: true}
    name: silu
  - avg_pool: 2
    name: average
  - adaptive_avg_pool: 1
    name: mean
  - flatten
  - dropout: 0.5
    name: dropout
  - linear: classes
    name: head
  - cross_entropy:
    name: loss)");
  EXPECT_EQ(saved_names(find_layer(step, "conv")), Names{"input"});
  EXPECT_EQ(saved_names(find_layer(step, "norm")), (Names{"input", "statistics"}));
  EXPECT_EQ(saved_names(find_layer(step, "relu")), Names{"output"});
  EXPECT_EQ(saved_names(find_layer(step, "max")), (Names{"input", "indices"}));
  EXPECT_EQ(saved_names(find_layer(step, "sum.add")), Names{});
  EXPECT_EQ(saved_names(find_layer(step, "sum.gelu")), Names{"input"});
  EXPECT_EQ(saved_names(find_layer(step, "average")), Names{"input"});
  EXPECT_EQ(saved_names(find_layer(step, "mean")), Names{});
  EXPECT_EQ(saved_names(find_layer(step, "dropout")), Names{"mask"});
  EXPECT_EQ(saved_names(find_layer(step, "head")), Names{"input"});
  EXPECT_EQ(saved_names(find_layer(step, "loss")), Names{"log_softmax"});
  // Max pooling keeps int64 positions of 8 x 16 x 16 maxima; batch norm keeps two fp32 statistics
  // for each of 8 channels.
  EXPECT_EQ(find_layer(step, "max").saved[1].bytes, 8.0 * 8 * 16 * 16);
  EXPECT_EQ(find_layer(step, "norm").saved[1].bytes, 4.0 * 2 * 8);
  // An in-place operator whose derivative needs its input keeps a clone; its output reuses the
  // input's storage.
  const Layer& silu = find_layer(step, "silu");
  EXPECT_EQ(silu.saved[0].produced_by, &silu - step.layers.data());
  EXPECT_EQ(silu.output_storage, find_layer(step, "sum.add").output_storage);
  EXPECT_EQ(find_layer(step, "relu").output_storage, find_layer(step, "norm").output_storage);
}

TEST(SavedActivations, FusedAttentionKeepsNoScores) {
  StepOptions options;
  options.samples = 2;
  options.precision = Precision::pure_bf16;
  const std::string name = "h.0.attn.attention";
  const TrainingStep fused = build_step(*load_model("mpt-125m"), options);
  EXPECT_EQ(saved_names(find_layer(fused, name)),
            (Names{"query, key, value", "output", "logsumexp"}));
  EXPECT_EQ(find_layer(fused, name).saved[2].bytes, 4.0 * 2 * 12 * 2048);
  options.fused_attention = false;
  const TrainingStep plain = build_step(*load_model("mpt-125m"), options);
  const double scores = 2.0 * 2 * 12 * 2048 * 2048;
  const auto& saved = find_layer(plain, name).saved;
  EXPECT_TRUE(std::any_of(saved.begin(), saved.end(), [&](const SavedTensor& tensor) {
    return tensor.name == "softmax" && tensor.bytes == scores;
  }));
}

// Megatron-core without fused kernels (calibrate/oracle/meshes/mcore.py) keeps an fp32 softmax and
// its copy in the products' type. If queries, keys and values come from one product, the values are
// a part of its output.
TEST(SavedActivations, OfMegatronsPlainAttention) {
  StepOptions options;
  options.precision = Precision::pure_bf16;
  options.fused_attention = false;
  options.sequence = 64;
  const std::string projection = R"(
  - linear: {out: 32, bias: false}
    name: )";
  const std::string text =
      "input: {tokens: 64}\nlayers:\n  - embedding: {rows: 100, features: 32}\n    name: words" +
      projection + "q\n    from: words" + projection + "k\n    from: words" + projection +
      "v\n    from: words" + R"(
  - attention: {heads: 4, causal: true, upcast_softmax: true}
    name: attention
    from: [q, k, v]
  - linear: {out: 100, bias: false}
  - cross_entropy:
)";
  const double scores = 4 * 64 * 64, part = 2 * 64 * 32;
  for (const bool one_product : {false, true}) {
    options.parallel.tensor.shared_exchanges = one_product;
    double sum = 0;
    for (const SavedTensor& saved : find_layer(build_text(text, options), "attention").saved) {
      sum += saved.bytes;
    }
    EXPECT_EQ(sum, (4 + 2) * scores + (one_product ? 5 : 3) * part);
    EXPECT_EQ(find_layer(build_text(text, options), "attention").shared_buffer_bytes, 2 * scores);
  }
}

std::string with_loss(const std::string& loss) {
  return "input: {tokens: 64}\nlayers:\n  - embedding: {rows: 4096, features: 16}\n    name: "
         "words\n"
         "  - linear: {out: 4096, bias: false}\n    name: head\n  - cross_entropy: " +
         loss + "\n";
}

// torchtitan's chunked loss does the same work with an eighth of the logits, and keeps an eighth of
// the loss's tensors.
TEST(SavedActivations, OfALossInPiecesAreThoseOfOnePiece) {
  const TrainingStep whole = build_text(with_loss("{}"));
  const TrainingStep eighth = build_text(with_loss("{pieces: 8}"));
  EXPECT_EQ(eighth.forward_flops, whole.forward_flops);
  EXPECT_EQ(eighth.backward_flops, whole.backward_flops);
  EXPECT_EQ(eighth.parameter_count, whole.parameter_count);
  const Layer &head = find_layer(eighth, "head"), &before = find_layer(whole, "head");
  EXPECT_EQ(head.output_bytes * 8, before.output_bytes);
  // the head's input has the tokens of all pieces
  EXPECT_EQ(head.saved.front().bytes, before.saved.front().bytes);
  EXPECT_EQ(eighth.layers.back().saved.front().bytes * 8, whole.layers.back().saved.front().bytes);
  EXPECT_EQ(head.forward.size(), 8 * before.forward.size());
  EXPECT_EQ(head.forward.front().m * 8, before.forward.front().m);
  try {
    build_text(with_loss("{pieces: 3}"));
    ADD_FAILURE() << "64 tokens are no three pieces";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("3 pieces cannot share 64 tokens evenly"));
  }
}

// Megatron-LM's loss of split logits works in place, even with a single tensor rank.
TEST(SavedActivations, OfMegatronsLossAreWorkedOnInPlace) {
  StepOptions options;
  options.precision = Precision::pure_bf16;
  options.parameters = {{"upcast_loss", 1}};
  const auto workspace = [&](bool split_loss, bool copies) {
    options.parallel.tensor.split_loss = split_loss;
    options.parallel.tensor.copies = copies;
    return build_step(*load_model("megatron-gpt"), options).layers.back().backward_workspace_bytes;
  };
  EXPECT_EQ(workspace(true, false), 0);
  EXPECT_GT(workspace(false, false), 0);
  EXPECT_EQ(workspace(true, true), workspace(false, false));
}

// nanotron subtracts the maximum out of place: the fp32 logits and a copy, where Megatron-LM has one. Where every query
// head has keys of its own it keeps a further copy of keys and values.
TEST(SavedActivations, OfNanotronAreFurtherCopies) {
  StepOptions options;
  options.precision = Precision::pure_bf16;
  options.parallel.tensor.split_loss = true;
  options.parallel.tensor.copies = false;
  const auto step = [&](FrameworkKind framework, std::int64_t kv_heads) {
    options.framework = framework;
    options.parameters = {{"layers", 2},          {"hidden", 1024},  {"heads", 16},
                          {"kv_heads", kv_heads}, {"mlp", 2048},     {"vocabulary", 8000},
                          {"sequence", 512},      {"upcast_loss", 1}};
    return build_step(*load_model("llama"), options);
  };
  const TrainingStep megatron = step(FrameworkKind::megatron, 16);
  const TrainingStep nanotron = step(FrameworkKind::nanotron, 16);
  EXPECT_EQ(saved_bytes(nanotron) - saved_bytes(megatron), 2 * 2 * 512 * 1024 * 2);
  EXPECT_EQ(saved_bytes(step(FrameworkKind::nanotron, 4)),
            saved_bytes(step(FrameworkKind::megatron, 4)));
  EXPECT_EQ(megatron.layers.back().forward_workspace_bytes, 0);
  EXPECT_EQ(nanotron.layers.back().forward_workspace_bytes,
            2 * 512 * 8000);  // beside bf16 and one of fp32
}

// Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", section 4.1:
// a transformer layer in 16 bits with dropout keeps s*b*h*(34 + 5*a*s/h) bytes.
TEST(SavedActivations, EqualKorthikantisFormula) {
  StepOptions options;
  options.samples = 4;
  options.precision = Precision::pure_fp16;
  options.fused_attention = false;
  const auto saved = [&](std::int64_t layers) {
    options.parameters = {{"layers", layers}, {"hidden", 1024}, {"heads", 16}};
    return saved_bytes(build_step(*load_model("megatron-gpt"), options));
  };
  const double s = 1024, b = 4, h = 1024, a = 16;
  // The formula leaves out the fp32 mean and 1/deviation of each row of two layer norms.
  const double statistics = 2 * 2 * 4 * s * b;
  EXPECT_DOUBLE_EQ(saved(3) - saved(2), s * b * h * (34 + 5 * a * s / h) + statistics);
}

TEST(SavedActivations, AutocastKeepsHalfPrecisionCopies) {
  StepOptions options;
  options.samples = 2;
  options.precision = Precision::amp_bf16;
  const TrainingStep step = build_step(*load_model("gpt2"), options);
  const Layer& layer = find_layer(step, "h.0.attn.c_attn");
  EXPECT_EQ(saved_names(layer), (Names{"weight_half", "input"}));
  EXPECT_EQ(layer.saved[0].bytes, 2.0 * 768 * 2304);
  EXPECT_EQ(layer.saved[1].bytes, 2.0 * 2 * 1024 * 768);
  EXPECT_EQ(find_layer(step, "h.0.add").output_bytes, 4.0 * 2 * 1024 * 768)
      << "the residual stream stays fp32";
}

// In Qwen 3 and Gemma 3 queries and keys have a norm with statistics for each head; the heads share
// the weight.
TEST(SavedActivations, OfANormOfHeadsAreTheStatisticsOfEachHead) {
  const auto with = [](int heads) {
    return build_text(
        "input: {tokens: 16}\nlayers:\n  - embedding: {rows: 10, features: 64}\n"
        "  - rms_norm: {heads: " +
        std::to_string(heads) + "}\n    name: norm\n  - linear: {out: 10}\n  - cross_entropy:\n");
  };
  const TrainingStep step = with(4);
  const Layer& norm = find_layer(step, "norm");
  ASSERT_EQ(norm.parameters.size(), 1U);
  EXPECT_EQ(norm.parameters[0].count, 16);
  const auto statistics = [](const Layer& layer) {
    double bytes = 0;
    for (const SavedTensor& saved : layer.saved)
      bytes += saved.name == "reciprocal" ? saved.bytes : 0;
    return bytes;
  };
  EXPECT_EQ(statistics(norm), 4.0 * 16 * 4);
  EXPECT_EQ(statistics(find_layer(with(1), "norm")), 16.0 * 4);
  EXPECT_EQ(step.forward_flops, with(1).forward_flops);
  const TrainingStep without = with(0);
  EXPECT_EQ(without.layers.size(), step.layers.size() - 1);
  EXPECT_EQ(without.parameter_count, step.parameter_count - 16);
}

TEST(SavedActivations, OfCappedLogitsAreTheirTanh) {
  const auto with = [](const char* cap) {
    return build_text(
        std::string("input: {tokens: 16}\nlayers:\n  - embedding: {rows: 10, features: "
                    "64}\n  - linear: {out: 10}\n    name: head\n") +
        cap + "  - cross_entropy:\n");
  };
  const TrainingStep step = with("  - soft_cap:\n    name: cap\n");
  const Layer& cap = find_layer(step, "cap");
  EXPECT_EQ(saved_names(cap), Names{"tanh"});
  EXPECT_EQ(saved_bytes(step), saved_bytes(with("")) + 16 * 10 * 4);
  EXPECT_EQ(launches(cap.forward), 3);
  EXPECT_EQ(launches(cap.backward), 3);
}

}  // namespace
}  // namespace lockstep::saved_test
