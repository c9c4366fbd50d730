// Does a rank under tensor and sequence parallelism run the step of genuine PyTorch and
// Megatron-core? The golden files hold products and exchanges of PyTorch 2.15 (DTensor) and
// Megatron-core 0.16.1, whose own code ran on a stub of the CUDA runtime. The dimensions of a
// product are sorted, and the products of one layer's backward may be in either order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "mesh.hpp"
#include "workload/partition.hpp"

namespace lockstep::tensor_test {
namespace {

using testing::HasSubstr;

Lines pytorch(const StepOptions& options) {
  return StepLines(build_step(*load_model("llama"), options)).write();
}

TEST(TensorParallel, ExchangesAsDTensorDoes) {
  StepOptions options = oracle_options();
  options.parallel.tensor.size = 2;
  EXPECT_EQ(pytorch(options),
            golden_lines("tensor_order_pytorch.txt", R"({"layers": 2, "tp": 2} rank 0)"));
}

TEST(TensorParallel, WithSequencesExchangesAsDTensorDoes) {
  StepOptions options = oracle_options();
  options.parallel.tensor.size = 4;
  options.parallel.tensor.sequence = true;
  EXPECT_EQ(pytorch(options), golden_lines("tensor_order_pytorch.txt",
                                           R"({"layers": 2, "tp": 4, "sp": true} rank 0)"));
}

StepOptions half_precision() {
  StepOptions options = oracle_options();
  options.precision = Precision::pure_bf16;
  options.parallel.tensor.size = 2;
  options.parallel.tensor.sequence = true;
  return options;
}

TEST(TensorParallel, SplitLossExchangesAsDTensorDoes) {
  StepOptions options = half_precision();
  options.parallel.tensor.split_loss = true;
  EXPECT_EQ(pytorch(options),
            golden_lines("tensor_order_pytorch.txt",
                         R"({"layers": 2, "tp": 2, "sp": true, "loss_parallel": true, )"
                         R"("precision": "pure-bf16"} rank 0)"));
}

// Removes the recomputation of each block's last product: the simulator repeats this product,
// PyTorch does not.
Lines without_last_products(Lines lines) {
  std::erase_if(lines, [](const std::string& line) {
    return line.starts_with("recompute matmul") && line.find("down_proj") != std::string::npos;
  });
  return lines;
}

TEST(TensorParallel, RecomputesBlocksAsPyTorchDoes) {
  StepOptions options = half_precision();
  options.parallel.tensor.split_loss = true;
  options.activation_checkpointing = true;
  EXPECT_EQ(without_last_products(pytorch(options)),
            golden_lines("tensor_order_pytorch.txt",
                         R"({"layers": 2, "micro_batches": 2, "tp": 2, "sp": true, )"
                         R"("loss_parallel": true, "dp": 4, "fsdp": true, )"
                         R"("precision": "mixed", "checkpoint": "full"} rank 0)"));
}

TEST(TensorParallel, RecomputesOperatorsAsTorchtitanDoes) {
  StepOptions options = half_precision();
  options.activation_checkpointing = true;
  options.recompute = Recompute::operators;
  EXPECT_EQ(without_last_products(pytorch(options)),
            golden_lines("tensor_order_pytorch.txt",
                         R"({"layers": 2, "tp": 2, "sp": true, "dp": 2, "fsdp": true, )"
                         R"("precision": "mixed", "checkpoint": "operators"} rank 0)"));
}

// torchtitan 0.3.0's own exchanges are not functional collectives, so its policy keeps none of
// their results. Its embedding also lacks DTensor's gradient of the whole table.
TEST(TensorParallel, OfTorchtitansOwnKeepsNoExchangedActivation) {
  StepOptions options = half_precision();
  options.activation_checkpointing = true;
  options.recompute = Recompute::operators;
  options.parallel.tensor.size = 2;
  options.parallel.tensor.sequence = true;
  const auto kept = [](const TrainingStep& step) {
    return std::count_if(step.layers.begin(), step.layers.end(), [](const Layer& layer) {
      return layer.keeps_output && !layer.forward_exchanges.empty();
    });
  };
  const TrainingStep dtensor = build_step(*load_model("llama"), options);
  options.parallel.tensor.dtensor = false;
  const TrainingStep own = build_step(*load_model("llama"), options);
  EXPECT_GT(kept(dtensor), 0);
  EXPECT_EQ(kept(own), 0);
  const auto table = [](const TrainingStep& step) {
    const Parameter& words = step.layers.front().parameters.front();
    return static_cast<double>(words.gradient_elements()) / static_cast<double>(words.count);
  };
  EXPECT_EQ(table(dtensor), 2);
  EXPECT_EQ(table(own), 1);
}

StepOptions megatron_options() {
  StepOptions options;
  options.precision = Precision::pure_bf16;
  options.parameters = {{"layers", 1}, {"hidden", 2048},      {"heads", 16},
                        {"mlp", 5632}, {"vocabulary", 32000}, {"tied", 0},
                        {"biases", 0}, {"positions", 0},      {"upcast_loss", 1}};
  options.sequence = 1024;
  options.fused_attention = false;
  TensorOptions& tensor = options.parallel.tensor;
  tensor.size = 2;
  tensor.keep_gathered = false;
  tensor.shared_exchanges = true;
  tensor.split_loss = true;
  tensor.overlap = TensorOverlap::backward;
  tensor.copies = false;
  tensor.repeat_last_exchange = true;
  return options;
}

Lines megatron(const StepOptions& options) {
  return StepLines(build_step(*load_model("gpt"), options), false).write();
}

TEST(TensorParallel, ExchangesAsMegatronDoes) {
  EXPECT_EQ(megatron(megatron_options()),
            golden_lines("tensor_order_megatron.txt",
                         R"({"layers": 1, "micro_batches": 1, "tp": 2} rank 0)"));
}

TEST(TensorParallel, WithSequencesExchangesAsMegatronDoes) {
  StepOptions options = megatron_options();
  options.parallel.tensor.sequence = true;
  EXPECT_EQ(megatron(options),
            golden_lines("tensor_order_megatron.txt",
                         R"({"layers": 1, "micro_batches": 1, "tp": 2, "sp": true} rank 0)"));
}

TEST(TensorParallel, RecomputesAsMegatronDoes) {
  StepOptions options = megatron_options();
  options.parallel.tensor.sequence = true;
  options.activation_checkpointing = true;
  EXPECT_EQ(megatron(options), golden_lines("tensor_order_megatron.txt",
                                            R"({"layers": 1, "micro_batches": 1, "tp": 2, )"
                                            R"("sp": true, "recompute": "full"} rank 0)"));
}

const char* const divided_models[] = {"llama",   "gpt",       "megatron-gpt", "gemma",
                                      "mpt-1b",  "bert",      "t5",           "vit",
                                      "mixtral", "qwen3-moe", "deepseek-v3"};

class DividedModels : public testing::TestWithParam<const char*> {};

StepOptions small(const std::string& model) {
  StepOptions options;
  options.samples = 2;
  options.precision = Precision::pure_bf16;
  options.parameters["layers"] = 2;
  if (model == "deepseek-v3") options.parameters["dense"] = 1;
  if (model == "bert") options.parameters["vocabulary"] = 30592;  // a multiple of 128
  if (model == "gpt") options.parameters["vocabulary"] = 50304;
  return options;
}

// A divided weight is a rank's share of the whole weight; every other weight is whole.
TEST_P(DividedModels, RanksTogetherHaveTheModelsParameters) {
  const auto model = load_model(GetParam());
  StepOptions options = small(GetParam());
  const TrainingStep whole = build_step(*model, options);
  std::map<std::string, std::int64_t> counts;
  for (const Layer& layer : whole.layers) {
    for (const Parameter& parameter : layer.parameters) counts[parameter.name] = parameter.count;
  }
  for (const std::int64_t ranks : {2, 4}) {
    for (const bool sequence : {false, true}) {
      if (sequence && GetParam() == std::string("vit")) continue;  // 197 tokens
      options.parallel.tensor.size = ranks;
      options.parallel.tensor.sequence = sequence;
      const TrainingStep part = build_step(*model, options);
      std::set<std::string> names;
      for (const Layer& layer : part.layers) {
        EXPECT_TRUE(names.insert(layer.name).second) << layer.name;
      }
      std::size_t seen = 0;
      std::int64_t cut = 0;
      for (const Layer& layer : part.layers) {
        for (const Parameter& parameter : layer.parameters) {
          ++seen;
          const std::int64_t count = counts[parameter.name];
          if (parameter.count != count) {
            ++cut;
            EXPECT_EQ(parameter.count * ranks, count) << parameter.name;
          }
        }
      }
      EXPECT_EQ(seen, counts.size());
      EXPECT_GT(cut, 8);
    }
  }
}

double product_flops(const std::vector<Layer>& layers, const std::string& except) {
  double sum = 0;
  for (const Layer& layer : layers) {
    if (layer.kind == except || layer.name.find("heads.head") == 0 || layer.kind == "conv" ||
        layer.name.find("transform") != std::string::npos || layer.name.ends_with(".gate") ||
        layer.name.ends_with("_a_proj") || layer.name.ends_with("k_rotary_proj")) {
      continue;
    }
    for (const Kernel& kernel : layer.forward) sum += is_product(kernel) ? kernel.flops : 0;
    for (const Kernel& kernel : layer.backward) sum += is_product(kernel) ? kernel.flops : 0;
  }
  return sum;
}

// Ranks share the products evenly. Some products stay whole by the model's plan: patches, BERT's
// transform, classifiers, routers, and projections to latent keys.
TEST_P(DividedModels, RanksShareTheProductsEvenly) {
  const auto model = load_model(GetParam());
  StepOptions options = small(GetParam());
  const double whole = product_flops(build_step(*model, options).layers, "experts");
  for (const bool fused : {false, true}) {
    options.fused_attention = fused;
    StepOptions alone = options;
    alone.parallel = {};
    const double whole_of_kind = product_flops(build_step(*model, alone).layers, "experts");
    options.parallel.tensor.size = 4;
    const double part = product_flops(build_step(*model, options).layers, "experts");
    EXPECT_EQ(part * 4, whole_of_kind);
    EXPECT_GT(part * 4, whole / 2);
  }
}

// Exchanges belong to the blocks in which they run. A rank's share is therefore cut into stages
// like the whole model, with one activation between two stages; with sequence parallelism a rank
// sends its part of the activation.
TEST_P(DividedModels, RanksSharesAreCutIntoStages) {
  if (GetParam() == std::string("t5")) return;  // the decoder reads the end of the encoder
  const auto model = load_model(GetParam());
  StepOptions options = small(GetParam());
  const auto crossing = [&](const TrainingStep& step) {
    const std::vector<ModelPart> parts = cut(step, even_cuts(step, {}, 2), true);
    EXPECT_EQ(parts.size(), 2u);
    EXPECT_EQ(parts[0].step.layers.back().kind, "send");
    return parts[0].step.layers.back().output_bytes;
  };
  const double whole = crossing(build_step(*model, options));
  options.parallel.tensor.size = 2;
  EXPECT_EQ(crossing(build_step(*model, options)), whole);
  if (GetParam() == std::string("vit")) return;  // 197 tokens
  options.parallel.tensor.sequence = true;
  EXPECT_EQ(crossing(build_step(*model, options)), whole / 2);
  options.parallel.tensor.copies = false;
  options.parallel.tensor.keep_gathered = false;
  EXPECT_EQ(crossing(build_step(*model, options)), whole / 2);
}

INSTANTIATE_TEST_SUITE_P(Zoo, DividedModels, testing::ValuesIn(divided_models),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(TensorParallel, OfOneRankChangesNothing) {
  StepOptions options = oracle_options();
  const TrainingStep plain = build_step(*load_model("llama"), options);
  options.parallel.tensor = megatron_options().parallel.tensor;
  options.parallel.tensor.size = 1;
  options.parallel.tensor.sequence = true;
  const TrainingStep one = build_step(*load_model("llama"), options);
  ASSERT_EQ(one.layers.size(), plain.layers.size());
  EXPECT_EQ(saved_bytes(one), saved_bytes(plain));
  EXPECT_EQ(one.parameter_count, plain.parameter_count);
  EXPECT_EQ(one.forward_flops, plain.forward_flops);
  EXPECT_TRUE(one.whole_layers);
  options.parallel.tensor.size = 2;
  EXPECT_FALSE(build_step(*load_model("llama"), options).whole_layers);
}

// With sequence parallelism norms see a part of the tokens, and the bias of a row-parallel product
// is added to a part of the sum's tokens, so their gradients are summed over the ranks (fact H18).
TEST(TensorParallel, MarksParametersWhoseGradientsAreSummands) {
  StepOptions options = small("gpt");
  const auto marked = [&](bool sequence) {
    options.parallel.tensor.size = 2;
    options.parallel.tensor.sequence = sequence;
    std::set<std::string> names;
    for (const Layer& layer : build_step(*load_model("gpt"), options).layers) {
      for (const Parameter& parameter : layer.parameters) {
        if (parameter.partial_over_tensor) names.insert(parameter.name);
      }
    }
    return names;
  };
  EXPECT_TRUE(marked(false).empty());
  std::set<std::string> expected{"ln_f.weight", "ln_f.bias"};
  for (const std::string block : {"h.0.", "h.1."}) {
    for (const char* name : {"ln_1.weight", "ln_1.bias", "ln_2.weight", "ln_2.bias",
                             "attn.c_proj.bias", "mlp.c_proj.bias"}) {
      expected.insert(block + name);
    }
  }
  EXPECT_EQ(marked(true), expected);
}

// Bytes that one layer keeps for backward.
double saved_of_layer(const StepOptions& options) {
  StepOptions two = options;
  two.parameters["layers"] = 2;
  return saved_bytes(build_step(*load_model("megatron-gpt"), two)) -
         saved_bytes(build_step(*load_model("megatron-gpt"), options));
}

// Korthikanti et al. 2022, table 2 (fact H25): of s b h (34 + 5 a s / h) bytes, tensor ranks keep s
// b h * 10 each and share the rest; with sequence parallelism they share all. The paper leaves out
// two values of four bytes for each row of a norm.
TEST(TensorParallel, KeepsTheActivationsOfKorthikantiEtAl) {
  const std::int64_t s = 512, b = 3, h = 1024, a = 16;
  for (const std::int64_t t : {1, 2, 8}) {
    StepOptions options;
    options.samples = b;
    options.sequence = s;
    options.precision = Precision::pure_bf16;
    options.parameters = {{"layers", 1}, {"hidden", h}, {"heads", a}, {"sequence", s}};
    options.fused_attention = false;
    options.parallel = megatron_options().parallel;
    options.parallel.tensor.size = t;
    const auto sbh = static_cast<double>(s * b * h);
    const auto scores = static_cast<double>(5 * a * s * s * b);
    const auto rows = static_cast<double>(s * b);
    const auto ranks = static_cast<double>(t);
    EXPECT_EQ(saved_of_layer(options), sbh * (10 + 24 / ranks) + scores / ranks + 16 * rows);
    options.parallel.tensor.sequence = true;
    EXPECT_EQ(saved_of_layer(options), (sbh * 34 + scores + 16 * rows) / ranks);
  }
}

// For any options, a rank of a larger group has no more parameters, keeps no more bytes and
// computes less. Sequence parallelism keeps fewer bytes still. Exchanged bytes are whole numbers.
RC_GTEST_PROP(TensorParallel, MoreRanksHaveLess, ()) {
  const std::string name = *rc::gen::elementOf(
      std::vector<std::string>{"llama", "gpt", "megatron-gpt", "gemma", "t5", "bert", "qwen3-moe"});
  const auto model = load_model(name);
  StepOptions options = small(name);
  options.samples = *rc::gen::inRange(1, 4);
  options.sequence = 8 * *rc::gen::inRange(1, 30);
  options.precision = *rc::gen::element(Precision::fp32, Precision::amp_bf16, Precision::pure_bf16,
                                        Precision::master_bf16_fp32_gradients);
  options.fused_attention = *rc::gen::arbitrary<bool>();
  options.activation_checkpointing = *rc::gen::arbitrary<bool>();
  options.recompute =
      *rc::gen::element(Recompute::blocks, Recompute::operators, Recompute::attention);
  TensorOptions& tensor = options.parallel.tensor;
  tensor.keep_gathered = *rc::gen::arbitrary<bool>();
  tensor.shared_exchanges = *rc::gen::arbitrary<bool>();
  tensor.split_loss = *rc::gen::arbitrary<bool>();
  tensor.copies = *rc::gen::arbitrary<bool>();
  tensor.overlap = *rc::gen::element(TensorOverlap::none, TensorOverlap::backward);
  TrainingStep fewer = build_step(*model, options);
  for (const std::int64_t ranks : {2, 4}) {
    tensor.size = ranks;
    tensor.sequence = false;
    const TrainingStep more = build_step(*model, options);
    tensor.sequence = true;
    const TrainingStep parts = build_step(*model, options);
    RC_ASSERT(more.parameter_count < fewer.parameter_count);
    RC_ASSERT(parts.parameter_count == more.parameter_count);
    RC_ASSERT(more.forward_flops < fewer.forward_flops);
    RC_ASSERT(more.forward_flops >= parts.forward_flops);
    if (tensor.split_loss && tensor.keep_gathered && !tensor.copies) {
      RC_ASSERT(saved_bytes(more) <= saved_bytes(fewer));
      RC_ASSERT(saved_bytes(parts) <= saved_bytes(more));
    }
    for (const Layer& layer : parts.layers) {
      for (const AxisExchange& exchange : layer.forward_exchanges) RC_ASSERT(exchange.bytes > 0);
      for (const AxisExchange& exchange : layer.backward_exchanges) RC_ASSERT(exchange.bytes > 0);
    }
    fewer = more;
  }
}

std::string message_of(const std::string& model, const StepOptions& options) {
  try {
    build_step(*load_model(model), options);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(TensorParallel, RefusesModelsAndDegreesThatDoNotFit) {
  StepOptions options;
  options.parallel.where = {"job.yaml", 7, 3};
  options.parallel.tensor.size = 2;
  EXPECT_THAT(message_of("resnet18", options),
              HasSubstr("job.yaml:7:3: parallel.tensor: model 'resnet18' does not say how"));
  EXPECT_THAT(message_of("gpt2", options), HasSubstr("model_parameters: {vocabulary: 50304}"));
  options.parallel.tensor.size = 3;
  options.parameters["vocabulary"] = 30000;
  EXPECT_THAT(message_of("llama", options), HasSubstr("cannot share 4096 outputs evenly"));
  options.parallel.tensor.size = 16;
  options.parameters["vocabulary"] = 32000;
  EXPECT_THAT(message_of("llama3-8b", options),
              HasSubstr("16 GPUs cannot share 8 attention heads evenly"));
  options = {};
  options.parallel.tensor.size = 2;
  options.parallel.tensor.sequence = true;
  EXPECT_THAT(message_of("vit_b_16", options),
              HasSubstr("parallel.tensor.sequence: encoder.layers.encoder_layer_0.ln_1: 2 GPUs "
                        "cannot share 197 tokens evenly"));
}

// If there are fewer key heads than ranks, Megatron-LM gathers the output of the fused projection,
// (heads + 2 kv_heads) x size features, and each rank takes its heads. Backward scatters the sum of
// the gradients (fact H30).
TEST(TensorParallel, RanksShareKeyHeadsAsMegatronDoes) {
  StepOptions options = oracle_options();
  options.precision = Precision::pure_bf16;
  options.parallel.tensor = megatron_options().parallel.tensor;
  options.parallel.tensor.size = 8;  // the model has 4 key heads
  const TrainingStep step = build_step(*load_model("llama"), options);
  double gathered = 0, scattered = 0;
  for (const Layer& layer : step.layers) {
    if (layer.block != "model.layers.1") continue;
    for (const AxisExchange& exchange : layer.forward_exchanges) {
      if (exchange.kind == ExchangeKind::all_gather) gathered += exchange.bytes;
    }
    for (const AxisExchange& exchange : layer.backward_exchanges) {
      if (exchange.kind == ExchangeKind::reduce_scatter) scattered += exchange.bytes;
    }
  }
  EXPECT_EQ(gathered, 2.0 * 1024 * (16 + 2 * 4) * 64);
  EXPECT_EQ(scattered, gathered);
  const Layer& attention = find_layer(step, "model.layers.1.self_attn.attention");
  EXPECT_EQ(attribute(attention, "heads"), 2);
  EXPECT_EQ(attribute(attention, "kv_heads"), 1);
  EXPECT_EQ(find_layer(step, "model.layers.1.self_attn.k_proj").parameters[0].count,
            1024 * 256 / 8);
}

TEST(TensorParallel, PlansNameLayersByPatterns) {
  const std::string head =
      "input: {tokens: 8}\nlayers:\n  - embedding: {rows: 8, features: 8}\n"
      "    name: table\n  - linear: 8\n    name: a.b.up\n  - linear: 8\n"
      "    name: a.down\n  - cross_entropy\n";
  StepOptions options;
  options.parallel.tensor.size = 2;
  const TrainingStep step = build_text(
      head + "tensor_parallel: {table: vocabulary, \"*.up\": column, \"a*n\": row}\n", options);
  EXPECT_EQ(find_layer(step, "table").parameters[0].shape, (std::vector<std::int64_t>{4, 8}));
  EXPECT_EQ(find_layer(step, "a.b.up").parameters[0].shape, (std::vector<std::int64_t>{4, 8}));
  EXPECT_EQ(find_layer(step, "a.down").parameters[0].shape, (std::vector<std::int64_t>{8, 4}));
  const auto error = [&](const std::string& plan) {
    try {
      build_text(head + "tensor_parallel: " + plan + "\n", options);
    } catch (const ConfigError& problem) {
      return std::string(problem.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(error("{\"*.up\": colum}"), HasSubstr("did you mean 'column'"));
  EXPECT_THAT(error("[column]"), HasSubstr("needs a map"));
  EXPECT_THAT(error("{\"*.up\": vocabulary}"), HasSubstr("this is a product"));
  EXPECT_THAT(error("{table: row}"), HasSubstr("this is an embedding"));
  EXPECT_THAT(error("{\"*.up\": row}"), HasSubstr("a row product follows a column product"));
}

}  // namespace
}  // namespace lockstep::tensor_test
