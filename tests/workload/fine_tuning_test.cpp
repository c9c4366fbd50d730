// With adapters, frozen parameters and quantized weights, which parameters are trained, what does
// backward run and keep, and how many bytes do frozen weights take?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "build.hpp"

namespace lockstep::fine_tuning_test {
namespace {

using testing::HasSubstr;

constexpr std::int64_t hidden = 64, mlp = 128, layers = 2, vocabulary = 100;

StepOptions small(const std::vector<std::string>& targets, std::int64_t rank = 4) {
  StepOptions options;
  options.sequence = 16;
  options.parameters = {{"layers", layers}, {"hidden", hidden}, {"heads", 4},
                        {"mlp", mlp},       {"kv_heads", 2},    {"vocabulary", vocabulary}};
  AdapterOptions& adapters = options.fine_tuning.adapters.emplace();
  adapters.rank = rank;
  adapters.targets = targets;
  return options;
}

TrainingStep llama(const StepOptions& options) {
  return build_step(*load_model("llama"), options);
}

std::string refusal(const StepOptions& options, const char* model = "llama") {
  try {
    build_step(*load_model(model), options);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

double frozen_bytes(const TrainingStep& step, double element_bytes) {
  double sum = 0;
  for (const Layer& layer : step.layers) {
    for (const Parameter& parameter : layer.parameters) {
      if (!parameter.trainable) sum += parameter.bytes(element_bytes);
    }
  }
  return sum;
}

int products(const TrainingStep& step, Pass pass) {
  int count = 0;
  for (const Layer& layer : step.layers) {
    for (const Kernel& kernel : layer.backward) {
      count += kernel.kind == KernelKind::gemm && kernel.pass == pass;
    }
  }
  return count;
}

TEST(Adapters, TrainRankTimesInputsAndOutputsOfEachTarget) {
  const auto trained = [](const std::vector<std::string>& targets, std::int64_t rank) {
    return llama(small(targets, rank)).parameter_count;
  };
  EXPECT_EQ(trained({"q_proj", "v_proj"}, 4), layers * 4 * (2 * hidden + hidden + hidden / 2));
  EXPECT_EQ(trained({"q_proj"}, 8), 2 * trained({"q_proj"}, 4));
  EXPECT_EQ(trained({"self_attn.o_proj"}, 4), layers * 4 * 2 * hidden);
  EXPECT_EQ(trained({"lm_head"}, 4), 4 * (hidden + vocabulary));
  // Each block has seven linear layers; the head has no adapter.
  const std::int64_t attention = 2 * 2 * hidden + 2 * (hidden + hidden / 2);
  EXPECT_EQ(trained({"all"}, 4), layers * 4 * (attention + 3 * (hidden + mlp)));
}

TEST(Adapters, LeaveOutWeightGradientsOfAllElse) {
  const TrainingStep step = llama(small({"q_proj"}));
  EXPECT_EQ(products(step, Pass::weight_gradient), 2 * layers);
  for (const Layer& layer : step.layers) {
    const bool trains = layer.name.find("lora_") != std::string::npos;
    for (const Kernel& kernel : layer.backward) {
      EXPECT_TRUE(trains || kernel.pass != Pass::weight_gradient) << layer.name;
    }
  }
  // A frozen linear layer keeps nothing for backward.
  EXPECT_TRUE(find_layer(step, "model.layers.1.mlp.gate_proj").saved.empty());
  EXPECT_TRUE(find_layer(step, "lm_head").saved.empty());
}

TEST(Adapters, RunAsPeftDoes) {
  StepOptions options = small({"q_proj"});
  options.fine_tuning.adapters->dropout = 0.1;
  const TrainingStep step = llama(options);
  std::vector<std::string> names;
  const std::string of = "model.layers.0.self_attn.q_proj";
  for (const Layer& layer : step.layers) {
    if (layer.name.starts_with(of)) names.push_back(layer.name.substr(of.size()));
  }
  const std::vector<std::string> order{"",        ".lora_dropout", ".lora_A",
                                       ".lora_B", ".lora_scale",   ".lora_add"};
  EXPECT_EQ(names, order);
  const Layer& narrow = find_layer(step, of + ".lora_A");
  EXPECT_EQ(narrow.output_bytes, 16 * 4 * 4);
  EXPECT_EQ(find_layer(step, of + ".lora_add").output_bytes, find_layer(step, of).output_bytes);
  ASSERT_EQ(narrow.saved.size(), 1U);
  EXPECT_EQ(narrow.saved[0].storage, find_layer(step, of + ".lora_dropout").output_storage);
}

TEST(Adapters, BackwardEndsAtTheLowestOne) {
  const auto backward_of = [](StepOptions options) {
    std::set<std::string> names;
    for (const Layer& layer : llama(options).layers) {
      if (!layer.backward.empty()) names.insert(layer.name);
    }
    return names;
  };
  StepOptions options = small({"layers.1.mlp.down_proj"});
  EXPECT_FALSE(backward_of(options).contains("model.layers.1.mlp.up_proj"));
  EXPECT_TRUE(backward_of(options).contains("model.norm"));
  // If blocks are recomputed, transformers makes the first block's input require a gradient.
  options.activation_checkpointing = true;
  EXPECT_TRUE(backward_of(options).contains("model.layers.0.input_layernorm"));
}

TEST(Adapters, LayersThatAreTrainedWholeKeepTheirFrozenOriginal) {
  StepOptions options = small({"q_proj"});
  const TrainingStep without = llama(options);
  options.fine_tuning.adapters->whole = {"lm_head"};
  const TrainingStep step = llama(options);
  const std::int64_t head = hidden * vocabulary;
  EXPECT_EQ(step.parameter_count, without.parameter_count + head);
  EXPECT_EQ(frozen_bytes(step, 4), frozen_bytes(without, 4));
  EXPECT_EQ(products(step, Pass::weight_gradient), products(without, Pass::weight_gradient) + 1);
}

TEST(FrozenWeights, TakeTheBytesOfTheirType) {
  StepOptions options = small({"all"});
  const double linear = layers * (2.5 * hidden * hidden + 0.5 * hidden * hidden + 3 * hidden * mlp);
  const double rest = 2 * hidden * vocabulary + (2 * layers + 1) * hidden;
  EXPECT_EQ(frozen_bytes(llama(options), 4), 4 * (linear + rest));
  FrozenOptions& frozen = options.fine_tuning.frozen;
  options.precision = Precision::amp_bf16;
  frozen.half = true;
  EXPECT_EQ(frozen_bytes(llama(options), 4), 2 * (linear + rest));
  frozen.quantization = Quantization::nf4;
  EXPECT_EQ(frozen_bytes(llama(options), 4), linear / 2 + 4 * linear / 64 + 2 * rest);
  frozen.nested = true;
  EXPECT_EQ(frozen_bytes(llama(options), 4), linear / 2 + linear / 64 * (1 + 4 / 256.0) + 2 * rest);
  frozen.quantization = Quantization::int8;
  const double rows = layers * (2 * hidden + hidden + 2 * mlp + hidden);
  EXPECT_EQ(frozen_bytes(llama(options), 4), linear + 4 * rows + 2 * rest);
}

TEST(FrozenWeights, AreRestoredBeforeEachProduct) {
  StepOptions options = small({"q_proj"});
  options.precision = Precision::pure_bf16;
  options.fine_tuning.frozen.quantization = Quantization::nf4;
  const TrainingStep step = llama(options);
  const Layer& up = find_layer(step, "model.layers.1.mlp.up_proj");
  const double weights = hidden * mlp;
  for (const auto* kernels : {&up.forward, &up.backward}) {
    ASSERT_EQ(kernels->size(), 2U);
    EXPECT_EQ(kernels->front().kind, KernelKind::elementwise);
    EXPECT_EQ(kernels->front().bytes_written, 2 * weights);
    EXPECT_EQ(kernels->back().kind, KernelKind::gemm);
  }
  EXPECT_EQ(up.forward_workspace_bytes, 2 * weights);
}

TEST(FrozenWeights, ArePatternsWithoutAdapters) {
  StepOptions options = small({});
  options.fine_tuning.adapters.reset();
  const std::int64_t all = llama(options).parameter_count;
  options.fine_tuning.frozen.parameters = {"model.embed_tokens", "*_layernorm.weight"};
  const TrainingStep step = llama(options);
  EXPECT_EQ(step.parameter_count, all - vocabulary * hidden - 2 * layers * hidden);
  EXPECT_TRUE(find_layer(step, "model.embed_tokens").backward.empty());
  options.fine_tuning.frozen.parameters = {"model.layers.0", "model.embed_tokens"};
  EXPECT_TRUE(find_layer(llama(options), "model.layers.0.mlp.up_proj").backward.empty());
  EXPECT_FALSE(find_layer(llama(options), "model.layers.1.mlp.up_proj").backward.empty());
}

TEST(FineTuning, MistakesAreAnswered) {
  EXPECT_THAT(refusal(small({"q_porj"})), HasSubstr("did you mean 'q_proj'?"));
  StepOptions no_blocks;
  no_blocks.fine_tuning = small({"all"}).fine_tuning;
  EXPECT_THAT(refusal(no_blocks, "resnet18"), HasSubstr("adapters.targets"));
  EXPECT_THAT(refusal(small({"k_proj"}, 33)),
              HasSubstr("33 is more than 'model.layers.0.self_attn.k_proj' has"));
  StepOptions options = small({"q_proj"});
  options.fine_tuning.adapters->whole = {"lm_haed"};
  EXPECT_THAT(refusal(options), HasSubstr("did you mean 'lm_head'?"));
  options.fine_tuning.adapters->whole = {"up_proj"};
  options.fine_tuning.frozen.quantization = Quantization::int8;
  EXPECT_THAT(refusal(options), HasSubstr("its weights are quantised"));
  options.fine_tuning.adapters->whole = {"q_proj"};
  options.fine_tuning.frozen.quantization = Quantization::none;
  EXPECT_THAT(refusal(options), HasSubstr("has an adapter"));
  options = small({"q_proj"});
  EXPECT_THAT(refusal(options, "mixtral"), HasSubstr("not with a model that has experts"));
}

}  // namespace
}  // namespace lockstep::fine_tuning_test
