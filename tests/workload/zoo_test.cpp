// Does every shipped model build at odd sizes and in every precision, and do the totals scale
// correctly? Every file in models/ is tested.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <fstream>
#include <iterator>

#include "build.hpp"
#include "source_dir.hpp"
#include "workload/ops.hpp"

namespace lockstep::zoo_test {
namespace {

bool reads_tokens(const std::string& model) {
  return load_model(model)->tokens.has_value();
}

void expect_names_of_their_own(const TrainingStep& step) {
  std::set<std::string> names;
  std::set<std::string> parameters;
  for (const Layer& layer : step.layers) {
    EXPECT_TRUE(names.insert(layer.name).second) << layer.name;
    for (const Parameter& parameter : layer.parameters) {
      EXPECT_TRUE(parameters.insert(parameter.name).second) << parameter.name;
      EXPECT_GT(parameter.count, 0);
    }
  }
}

// A kernel on the device reads or writes bytes; a view costs the host alone.
bool is_consistent(const Kernel& kernel) {
  if ((kernel.bytes_read + kernel.bytes_written > 0) != (kernel.launches > 0)) return false;
  if (kernel.launches <= 0 && kernel.operators <= 0) return false;
  const double product = 2.0 * kernel.m * kernel.n * kernel.k * kernel.batch;
  if (kernel.kind == KernelKind::gemm && std::abs(kernel.flops - product) > 1e-15 * product) {
    return false;
  }
  return kernel.flops >= 0;
}

void expect_consistent(const TrainingStep& step) {
  int index = 0;
  for (const Layer& layer : step.layers) {
    for (const int input : layer.inputs) EXPECT_LT(input, index) << layer.name;
    for (const SavedTensor& saved : layer.saved) {
      EXPECT_LE(saved.produced_by, index) << layer.name;
      EXPECT_GT(saved.bytes, 0) << layer.name;
    }
    for (const auto* list : {&layer.forward, &layer.backward}) {
      for (const Kernel& kernel : *list) {
        if (!is_consistent(kernel)) ADD_FAILURE() << layer.name << " has a kernel that cannot be";
      }
    }
    ++index;
  }
  // Backward has two products for each forward product, except in layers that read the step's
  // input.
  EXPECT_LE(step.backward_flops, 2 * step.forward_flops * (1 + 1e-12));
  EXPECT_GT(step.backward_flops, step.forward_flops);
}

class EveryModel : public testing::TestWithParam<std::string> {};

TEST_P(EveryModel, BuildsAtTwoSizesInEveryPrecision) {
  const auto model = load_model(GetParam());
  for (const bool odd : {false, true}) {
    for (std::size_t i = 0; i < EnumNames<Precision>::names.size(); ++i) {
      StepOptions options;
      options.precision = static_cast<Precision>(i);
      options.samples = odd ? 1 : 3;
      options.fused_attention = !odd;
      if (model->tokens) {
        options.sequence = odd ? 37 : 0;
      } else if (odd) {
        const std::int64_t channels = build_step(*model, {}).input_bytes < 5000 ? 1 : 3;
        options.image = {channels, 97, 131};
      }
      const TrainingStep step = build_step(*model, options);
      if (i == 0) expect_names_of_their_own(step);
      expect_consistent(step);
    }
  }
}

TEST_P(EveryModel, IsTheSameModelAtEveryBatchAndPrecision) {
  const auto model = load_model(GetParam());
  StepOptions options;
  options.samples = 5;  // 4096 tokens each: each of 160 experts gets a whole number of tokens
  const TrainingStep few = build_step(*model, options);
  options.samples = 15;
  const TrainingStep many = build_step(*model, options);
  EXPECT_NEAR(many.forward_flops / few.forward_flops, 3, 1e-9);
  EXPECT_NEAR(many.backward_flops / few.backward_flops, 3, 1e-9);
  EXPECT_EQ(many.parameter_count, few.parameter_count);
  EXPECT_EQ(many.layers.size(), few.layers.size());
  EXPECT_GT(saved_bytes(many), saved_bytes(few));
  options.precision = Precision::pure_bf16;
  const TrainingStep half = build_step(*model, options);
  EXPECT_EQ(half.parameter_count, many.parameter_count);
  EXPECT_EQ(half.forward_flops, many.forward_flops);
  EXPECT_LT(saved_bytes(half), saved_bytes(many));
}

INSTANTIATE_TEST_SUITE_P(Zoo, EveryModel, testing::ValuesIn(known_models()),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           for (char& c : name) {
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           }
                           return name;
                         });

RC_GTEST_PROP(Zoo, BytesGrowWithTheBatch, ()) {
  static const std::vector<std::string> models = known_models();
  const std::string name = *rc::gen::elementOf(models);
  const auto model = load_model(name);
  StepOptions options;
  options.precision = static_cast<Precision>(*rc::gen::inRange(0, 6));
  options.samples = *rc::gen::inRange(1, 20);
  if (reads_tokens(name)) options.sequence = *rc::gen::inRange(1, 300);
  const TrainingStep smaller = build_step(*model, options);
  options.samples += *rc::gen::inRange(1, 20);
  const TrainingStep larger = build_step(*model, options);
  RC_ASSERT(smaller.layers.size() == larger.layers.size());
  for (std::size_t i = 0; i < smaller.layers.size(); ++i) {
    const Layer& a = smaller.layers[i];
    const Layer& b = larger.layers[i];
    // The loss is a single number; every other output grows with the samples.
    if (a.kind != "cross_entropy") RC_ASSERT(a.output_bytes < b.output_bytes);
    RC_ASSERT(a.forward.size() == b.forward.size());
    for (std::size_t k = 0; k < a.forward.size(); ++k) {
      RC_ASSERT(a.forward[k].bytes_read <= b.forward[k].bytes_read);
      RC_ASSERT(a.forward[k].bytes_written <= b.forward[k].bytes_written);
    }
  }
}

TEST(Zoo, EveryOperatorIsDocumented) {
  std::ifstream file(std::string(LOCKSTEP_SOURCE_DIR) + "/docs/model-format.md");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  ASSERT_FALSE(text.empty());
  for (const OpSpec& op : op_table()) {
    EXPECT_NE(text.find("`" + std::string(op.name) + "`"), std::string::npos) << op.name;
    for (const ArgumentSpec& argument : op.arguments) {
      EXPECT_NE(text.find("`" + std::string(argument.name) + "`"), std::string::npos)
          << op.name << "." << argument.name;
    }
  }
}

}  // namespace
}  // namespace lockstep::zoo_test
