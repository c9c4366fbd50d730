// Do the parts of a model add up to the model, and is a place where it cannot be cut refused?
#include "workload/partition.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "build.hpp"

namespace lockstep::partition_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TrainingStep build(const std::string& model, Precision precision = Precision::fp32,
                   std::int64_t layers = 0) {
  StepOptions options;
  options.precision = precision;
  if (layers > 0) options.parameters["layers"] = layers;
  return build_step(*load_model(model), options);
}

PipelineOptions listed(std::vector<std::int64_t> layers) {
  PipelineOptions options;
  options.layers = std::move(layers);
  return options;
}

std::string misfit_of(const TrainingStep& step, const std::vector<int>& first_layers) {
  try {
    cut(step, first_layers, true);
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.diagnostics()[0].field, "parallel.pipeline.layers");
    return error.what();
  }
  return "";
}
std::string misfit_of(const TrainingStep& step, const PipelineOptions& options, int parts) {
  try {
    cut(step, even_cuts(step, options, parts), true);
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.diagnostics()[0].field, "parallel.pipeline.layers");
    return error.what();
  }
  return "";
}

double bytes_of(const TrainingStep& step, bool backward) {
  double sum = 0;
  for (const Layer& layer : step.layers) {
    for (const Kernel& kernel : backward ? layer.backward : layer.forward) {
      sum += kernel.bytes_read + kernel.bytes_written;
    }
  }
  return sum;
}

// The number of trainable weights that a part shares with an earlier part.
std::int64_t shared_weights(const TrainingStep& step, const std::vector<int>& cuts) {
  std::int64_t sum = 0;
  for (int i = 0; i < static_cast<int>(step.layers.size()); ++i) {
    const Layer& layer = step.layers[static_cast<std::size_t>(i)];
    if (layer.tied_layer < 0) continue;
    const bool apart = std::any_of(cuts.begin(), cuts.end(), [&](int place) {
      return layer.tied_layer < place && place <= i;
    });
    const Layer& owner = step.layers[static_cast<std::size_t>(layer.tied_layer)];
    if (apart) sum += owner.parameters[static_cast<std::size_t>(layer.tied_parameter)].count;
  }
  return sum;
}

// Bytes of activations that layers on both sides of the cut keep; each part then has a copy of the
// activation that crosses.
double kept_twice(const TrainingStep& step, int place) {
  std::map<int, double> before;
  double sum = 0;
  for (int i = 0; i < static_cast<int>(step.layers.size()); ++i) {
    for (const SavedTensor& saved : step.layers[static_cast<std::size_t>(i)].saved) {
      if (saved.produced_by < 0 || saved.produced_by >= place) continue;
      if (i < place) {
        before[saved.storage] = saved.bytes;
      } else if (before.contains(saved.storage)) {
        sum += saved.bytes;
        before.erase(saved.storage);
      }
    }
  }
  return sum;
}

// Indices must stay inside the part, and each saved tensor must be produced by an earlier layer or
// its own.
void check_indices(const ModelPart& part, bool first, bool last) {
  const std::vector<Layer>& layers = part.step.layers;
  ASSERT_EQ(part.layers.size(), layers.size());
  EXPECT_EQ(layers.front().kind == "receive", !first);
  EXPECT_EQ(layers.back().kind == "send", !last);
  for (int i = 0; i < static_cast<int>(layers.size()); ++i) {
    const Layer& layer = layers[static_cast<std::size_t>(i)];
    for (const int input : layer.inputs) {
      EXPECT_LT(input, i);
      EXPECT_TRUE(input >= 0 || first || layer.is_loss) << layer.name;
    }
    EXPECT_LT(layer.tied_layer, i);
    for (const SavedTensor& saved : layer.saved) EXPECT_LE(saved.produced_by, i);
  }
}

struct Case {
  std::string model;
  int parts;
  Precision precision;
};
class Parts : public testing::TestWithParam<Case> {};

TEST_P(Parts, AddUpToTheModel) {
  const TrainingStep whole = build(GetParam().model, GetParam().precision);
  const std::vector<int> cuts = even_cuts(whole, {}, GetParam().parts);
  const std::vector<ModelPart> parts = cut(whole, cuts, false);
  ASSERT_EQ(static_cast<int>(parts.size()), GetParam().parts);
  std::int64_t parameters = 0;
  double forward = 0, backward = 0, saved = 0, input = 0, forward_bytes = 0, backward_bytes = 0;
  int next = 0;
  std::map<std::string, int> names;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    check_indices(parts[i], i == 0, i + 1 == parts.size());
    parameters += parts[i].step.parameter_count;
    forward += parts[i].step.forward_flops;
    backward += parts[i].step.backward_flops;
    saved += saved_bytes(parts[i].step);
    input += parts[i].step.input_bytes;
    forward_bytes += bytes_of(parts[i].step, false);
    backward_bytes += bytes_of(parts[i].step, true);
    for (const int layer : parts[i].layers) {
      if (layer < 0) continue;
      EXPECT_EQ(layer, next);
      ++next;
    }
  }
  EXPECT_EQ(next, static_cast<int>(whole.layers.size()));
  const std::int64_t shared = shared_weights(whole, cuts);
  EXPECT_EQ(parameters, whole.parameter_count + shared);
  EXPECT_NEAR(forward / whole.forward_flops, 1, 1e-12);
  EXPECT_NEAR(backward / whole.backward_flops, 1, 1e-12);
  EXPECT_EQ(input, whole.input_bytes);
  EXPECT_NEAR(forward_bytes / bytes_of(whole, false), 1, 1e-12);
  // The whole model adds a shared weight's two gradients: two reads and a write that the parts do
  // not have.
  EXPECT_NEAR(
      backward_bytes + 3.0 * static_cast<double>(shared) * parameter_bytes(GetParam().precision),
      bytes_of(whole, true), 1e-9 * bytes_of(whole, true));
  // An activation that both sides keep exists twice.
  double twice = 0;
  for (std::size_t i = 1; i < parts.size(); ++i) twice += kept_twice(whole, cuts[i]);
  EXPECT_EQ(saved, saved_bytes(whole) + twice);
}

INSTANTIATE_TEST_SUITE_P(
    OfModels, Parts,
    testing::Values(Case{"gpt2", 4, Precision::fp32}, Case{"gpt2", 3, Precision::amp_bf16},
                    Case{"llama3.2-1b", 8, Precision::pure_bf16},
                    Case{"mixtral-8x7b", 8, Precision::pure_bf16},
                    Case{"bert-large", 5, Precision::fp32}, Case{"resnet50", 4, Precision::fp32},
                    Case{"vgg16", 3, Precision::fp32}, Case{"vit_b_16", 2, Precision::fp32},
                    Case{"densenet121", 4, Precision::fp32}, Case{"swin_t", 4, Precision::fp32}));

TEST(Parts, OneIsTheStepItself) {
  const TrainingStep whole = build("gpt2");
  const std::vector<ModelPart> parts = cut(whole, std::vector{0}, true);
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts[0].step.layers.size(), whole.layers.size());
  EXPECT_EQ(parts[0].step.forward_flops, whole.forward_flops);
  EXPECT_EQ(parts[0].step.input_bytes, whole.input_bytes);
  EXPECT_EQ(parts[0].layers.back(), static_cast<int>(whole.layers.size()) - 1);
}

// A middle part of Llama receives and sends hidden states, tokens x features in bf16. Its first
// layer adds the gradients of the residual and of the norm.
TEST(Parts, InTheMiddleReceiveAndSendHiddenStates) {
  StepOptions options;
  options.precision = Precision::pure_bf16;
  options.samples = 2;
  options.sequence = 64;
  options.parameters = {{"layers", 4},        {"hidden", 128}, {"heads", 4},
                        {"vocabulary", 1000}, {"mlp", 256},    {"fused_norm", 1}};
  const TrainingStep whole = build_step(*load_model("llama"), options);
  const std::vector<ModelPart> parts = cut(whole, even_cuts(whole, {}, 4), true);
  const TrainingStep& middle = parts[1].step;
  const Layer& receive = middle.layers.front();
  EXPECT_EQ(receive.boundary, Boundary::receive);
  EXPECT_EQ(receive.output_bytes, 2 * 64 * 128 * 2);
  ASSERT_EQ(receive.backward.size(), 1U);
  EXPECT_EQ(receive.backward[0].bytes_written, receive.output_bytes);
  const Layer& send = middle.layers.back();
  EXPECT_TRUE(send.forward.empty() && send.backward.empty());
  EXPECT_EQ(send.inputs[0], static_cast<int>(middle.layers.size()) - 2);
  // The gradient of the sent output arrives as one tensor and needs no sum.
  const Layer& last = middle.layers[middle.layers.size() - 2];
  for (const Kernel& kernel : last.backward) EXPECT_NE(kernel.bytes_read, 2 * last.output_bytes);
  // Middle parts are equal.
  EXPECT_EQ(parts[1].step.parameter_count, parts[2].step.parameter_count);
  EXPECT_EQ(parts[1].step.backward_flops, parts[2].step.backward_flops);
}

// GPT-2's head is its embedding, so the last part has the weight as a parameter of its own (fact
// H43).
TEST(Parts, WithATiedHeadHaveItsWeightTwice) {
  const TrainingStep whole = build("gpt2");
  const std::vector<ModelPart> parts = cut(whole, even_cuts(whole, {}, 2), true);
  const Layer& head = find_layer(parts[1].step, "lm_head");
  ASSERT_EQ(head.parameters.size(), 1U);
  EXPECT_EQ(head.parameters[0].name, "wte.weight");
  EXPECT_EQ(head.tied_layer, -1);
  EXPECT_EQ(head.tied_to, "");
  const Layer& owner = find_layer(parts[0].step, "wte");
  EXPECT_EQ(owner.backward.size() + 1, find_layer(whole, "wte").backward.size());
}

std::vector<int> blocks_of(const TrainingStep& whole, const PipelineOptions& options, int parts) {
  std::vector<int> counts;
  for (const ModelPart& part : cut(whole, even_cuts(whole, options, parts), true)) {
    std::set<std::string> blocks;
    for (const Layer& layer : part.step.layers) {
      if (!layer.block.empty()) blocks.insert(layer.block);
    }
    counts.push_back(static_cast<int>(blocks.size()));
  }
  return counts;
}

// Megatron-LM requires layers / stages to be whole. Other counts are spread as torchtitan's
// generate_llm_fqn_per_model_part does, with one block less on the first and on the last stage
// (fact H60).
TEST(EvenCuts, CountBlocks) {
  const TrainingStep whole = build("gpt2");
  EXPECT_THAT(blocks_of(whole, {}, 4), ElementsAre(3, 3, 3, 3));
  EXPECT_THAT(blocks_of(whole, {}, 12), testing::Each(1));
  EXPECT_THAT(blocks_of(whole, {}, 5), ElementsAre(2, 3, 3, 3, 1));
  EXPECT_THAT(blocks_of(whole, {}, 8), ElementsAre(1, 2, 2, 2, 2, 2, 1, 0));
  EXPECT_THAT(blocks_of(build("gemma", Precision::pure_bf16), {}, 4), ElementsAre(6, 7, 7, 6));
  EXPECT_THAT(blocks_of(whole, listed({2, 4, 5, 1}), 4), ElementsAre(2, 4, 5, 1));
  EXPECT_THAT(blocks_of(whole, listed({0, 12}), 2), ElementsAre(0, 12));
}

// In a network without equal blocks no other choice of cuts has a smaller largest part.
TEST(EvenCuts, OfVggHaveTheLeastLargestPart) {
  const TrainingStep whole = build("vgg16");
  const std::vector<int> places = clean_places(whole);
  const auto largest = [&](const std::vector<int>& cuts) {
    double most = 0;
    for (const ModelPart& part : cut(whole, cuts, true)) {
      most = std::max(most, part.step.forward_flops + part.step.backward_flops);
    }
    return most;
  };
  const double chosen = largest(even_cuts(whole, {}, 3));
  for (std::size_t i = 0; i < places.size(); ++i) {
    for (std::size_t j = i + 1; j < places.size(); ++j) {
      EXPECT_LE(chosen, largest({0, places[i], places[j]}) * (1 + 1e-12));
    }
  }
}

TEST(Misfits, WhereTwoActivationsCross) {
  const TrainingStep whole = build("gpt2");
  int inside = 0;
  while (whole.layers[static_cast<std::size_t>(inside)].name != "h.3.attn.c_proj") ++inside;
  // Inside an attention both the residual and the attention's tensor would cross the cut.
  EXPECT_THAT(misfit_of(whole, {0, inside}),
              HasSubstr("gpt2 cannot be cut before h.3.attn.c_proj: more than one activation"));
  EXPECT_THAT(misfit_of(whole, {0, inside}),
              HasSubstr("the nearest place for a cut is before h.3."));
}

TEST(Misfits, OfLists) {
  const TrainingStep whole = build("gpt2");
  EXPECT_THAT(misfit_of(whole, listed({6, 6}), 4), HasSubstr("2 numbers for 4 parts"));
  EXPECT_THAT(misfit_of(whole, listed({6, 5}), 2), HasSubstr("11 blocks together, gpt2 has 12"));
  EXPECT_THAT(misfit_of(whole, listed({12, 0, 0}), 3), HasSubstr("a part without layers"));
  EXPECT_THAT(misfit_of(whole, {}, 16), HasSubstr("gpt2 has 12 blocks, 16 parts need one each"));
  EXPECT_THAT(misfit_of(build("lenet5"), {}, 20), HasSubstr("it has places for"));
}

}  // namespace
}  // namespace lockstep::partition_test
