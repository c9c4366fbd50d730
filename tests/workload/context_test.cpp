// Does a rank under context parallelism run the attention of genuine PyTorch (2.15,
// context_parallel of torch.distributed.tensor.experimental), and do the ranks together do the work
// of the whole?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mesh.hpp"

namespace lockstep::context_test {
namespace {

using testing::HasSubstr;

StepOptions half_precision(std::int64_t layers, std::int64_t sequence, std::int64_t ranks) {
  StepOptions options = oracle_options();
  options.precision = Precision::pure_bf16;
  options.parameters["layers"] = layers;
  options.sequence = sequence;
  options.parallel.context.size = ranks;
  return options;
}

// The lines of a step. PyTorch sends to the next rank by an all-to-all in which all other messages
// are empty.
Lines lines_of(const StepOptions& options) {
  Lines lines = StepLines(build_step(*load_model("llama"), options)).write();
  for (std::string& line : lines) {
    if (const auto at = line.find(" shift "); at != std::string::npos) {
      line.replace(at, 7, " all-to-all ");
    }
  }
  return lines;
}

TEST(ContextParallel, GathersKeysAsPyTorchDoes) {
  StepOptions options = half_precision(2, 4096, 2);
  options.parallel.context.exchange = ContextExchange::gather;
  EXPECT_EQ(lines_of(options), golden_lines("context_order_pytorch.txt",
                                            R"({"layers": 2, "sequence": 4096, "fsdp": )"
                                            R"(true, "cp": 2, "precision": "mixed"} rank 0)"));
}

TEST(ContextParallel, PassesKeysAroundAsPyTorchDoes) {
  StepOptions options = half_precision(1, 8192, 4);
  options.parallel.context.exchange = ContextExchange::ring;
  EXPECT_EQ(lines_of(options),
            golden_lines("context_order_pytorch.txt",
                         R"({"layers": 1, "sequence": 8192, "cp": 4, "precision": "pure-bf16", )"
                         R"("rotate": "alltoall"} rank 0)"));
}

TEST(ContextParallel, GoesWithTensorParallelismAsInPyTorch) {
  StepOptions options = half_precision(1, 4096, 2);
  options.parallel.context.exchange = ContextExchange::gather;
  options.parallel.tensor.size = 2;
  EXPECT_EQ(lines_of(options),
            golden_lines("context_order_pytorch.txt",
                         R"({"layers": 1, "sequence": 4096, "tp": 2, "dp": 2, "fsdp": true, )"
                         R"("cp": 2, "precision": "mixed"} rank 0)"));
}

// Every rank has the same share of the work and all parameters.
TEST(ContextParallel, RanksShareTheWorkEvenly) {
  for (const char* name : {"llama", "gpt", "bert"}) {
    StepOptions options;
    options.precision = Precision::pure_bf16;
    options.parameters["layers"] = 2;
    const auto model = load_model(name);
    const TrainingStep whole = build_step(*model, options);
    for (const ContextExchange exchange :
         {ContextExchange::ring, ContextExchange::gather, ContextExchange::all_to_all}) {
      options.parallel.context = {};
      options.parallel.context.size = 4;
      options.parallel.context.exchange = exchange;
      const TrainingStep part = build_step(*model, options);
      EXPECT_EQ(part.parameter_count, whole.parameter_count);
      EXPECT_EQ(part.forward_flops * 4, whole.forward_flops) << name;
      EXPECT_DOUBLE_EQ(part.backward_flops * 4, whole.backward_flops) << name;
      EXPECT_EQ(part.tokens, whole.tokens);
    }
  }
}

double attention_flops(const TrainingStep& step) {
  double sum = 0;
  for (const Layer& layer : step.layers) {
    for (const Kernel& kernel : layer.forward) {
      if (kernel.kind == KernelKind::attention) sum += kernel.flops;
    }
  }
  return sum;
}

// Without balance, the last of c pieces of the sequence sees all c - 1 pieces before it and half of
// its own. Its share of the causal triangle is (c - 1/2) / c^2 / (1/2) = (2c - 1) / c^2, instead of
// 1 / c.
TEST(ContextParallel, WithoutBalanceTheLastRankDoesMost) {
  for (const std::int64_t ranks : {2, 4, 8}) {
    StepOptions options = half_precision(1, 4096, 1);
    const double whole = attention_flops(build_step(*load_model("llama"), options));
    options.parallel.context.size = ranks;
    options.parallel.context.balance = ContextBalance::none;
    const auto c = static_cast<double>(ranks);
    EXPECT_DOUBLE_EQ(attention_flops(build_step(*load_model("llama"), options)),
                     whole * (2 * c - 1) / (c * c));
  }
}

double exchanged(const TrainingStep& step, bool backward) {
  double sum = 0;
  for (const Layer& layer : step.layers) {
    for (const AxisExchange& exchange :
         backward ? layer.backward_exchanges : layer.forward_exchanges) {
      EXPECT_EQ(exchange.axis, Axis::context);
      sum += exchange.bytes;
    }
  }
  return sum;
}

// Bytes of a layer and rank (facts H83, H86). Ring: forward moves the rank's K and V c - 1 times;
// backward as often, and the gradients of K and V c times in the same type. All-to-all: queries,
// keys, values and outputs once in each pass.
TEST(ContextParallel, SendsTheBytesOfTheClosedForms) {
  const double tokens = 4096, size = 64, heads = 16, kv_heads = 4;
  for (const std::int64_t ranks : {2, 4}) {
    const auto c = static_cast<double>(ranks);
    StepOptions options = half_precision(1, 4096, ranks);
    options.parallel.context.wide_gradients = false;
    const double keys = 2 * 2 * tokens / c * kv_heads * size;
    const TrainingStep ring = build_step(*load_model("llama"), options);
    EXPECT_EQ(exchanged(ring, false), (c - 1) * keys);
    EXPECT_EQ(exchanged(ring, true), (c - 1) * keys + c * keys);
    options.parallel.context.exchange = ContextExchange::all_to_all;
    const TrainingStep turned = build_step(*load_model("llama"), options);
    const double each_way = 2 * tokens / c * (2 * heads + 2 * kv_heads) * size;
    EXPECT_EQ(exchanged(turned, false), each_way);
    EXPECT_EQ(exchanged(turned, true), each_way);
  }
}

// For backward a rank keeps its own queries, keys, values, output and log-sum-exp (fact H83b), as
// one GPU with the rank's tokens would. With all-to-all the attention's output stays beside the
// exchanged one, which is the next product's input.
TEST(ContextParallel, KeepsOneRanksShareForBackward) {
  StepOptions options = half_precision(2, 4096, 1);
  const double whole = saved_bytes(build_step(*load_model("llama"), options));
  for (const ContextExchange exchange :
       {ContextExchange::ring, ContextExchange::gather, ContextExchange::all_to_all}) {
    options.parallel.context.size = 4;
    options.parallel.context.exchange = exchange;
    const double turned =
        exchange == ContextExchange::all_to_all ? 2 * 4096.0 * 1024 * 2 : 0;  // of two layers
    EXPECT_EQ(saved_bytes(build_step(*load_model("llama"), options)) * 4, whole + turned);
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

TEST(ContextParallel, RefusesWhatDoesNotFit) {
  StepOptions options = half_precision(1, 4100, 4);
  options.parallel.where = {"job.yaml", 7, 3};
  EXPECT_THAT(message_of("llama", options),
              HasSubstr("job.yaml:7:3: parallel.context: 4 GPUs cannot share 4100 tokens evenly; a "
                        "sequence that 8 divides"));
  options = half_precision(1, 4096, 8);
  options.parallel.context.exchange = ContextExchange::all_to_all;
  EXPECT_THAT(message_of("llama", options), HasSubstr("8 GPUs cannot share 4 heads"));
  options.parallel.context.exchange = ContextExchange::ring;
  options.fused_attention = false;
  EXPECT_THAT(message_of("llama", options), HasSubstr("plain attention writes the scores"));
  options = {};
  options.parallel.context.size = 2;
  EXPECT_THAT(message_of("resnet18", options), HasSubstr("reads images, not sequences"));
}

}  // namespace
}  // namespace lockstep::context_test
