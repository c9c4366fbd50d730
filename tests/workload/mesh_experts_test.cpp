// Does a rank's mixture of experts under expert parallelism run as torchtitan's, with the volumes
// of closed forms? The golden file holds the router, exchanges and grouped products that torchtitan
// 0.3.0's own Qwen3-MoE runs inside its mixture (30B-A3B, balanced load).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "mesh.hpp"

namespace lockstep::mesh_experts_test {
namespace {

using testing::HasSubstr;

StepOptions qwen3() {
  StepOptions options;
  options.precision = Precision::pure_bf16;
  options.sequence = 4096;
  options.parameters = {{"layers", 1},   {"hidden", 2048},   {"heads", 32},
                        {"kv_heads", 4}, {"mlp", 768},       {"experts", 128},
                        {"top", 8},      {"head_size", 128}, {"vocabulary", 151936}};
  return options;
}

TrainingStep build(const StepOptions& options) {
  return build_step(*load_model("mixtral"), options);
}

bool in_mixture(const Layer& layer) {
  return layer.name.find("block_sparse_moe") != std::string::npos;
}

void write_layer(const Layer& layer, const std::vector<AxisExchange>& exchanges,
                 const std::vector<Kernel>& kernels, const std::string& pass, Lines& lines) {
  if (!in_mixture(layer)) return;
  for (const AxisExchange& exchange : exchanges) {
    EXPECT_EQ(exchange.axis, Axis::expert);
    EXPECT_EQ(exchange.kind, ExchangeKind::all_to_all);
    lines.push_back(fmt::format("{} all-to-all ep {:.0f}", pass, exchange.bytes));
  }
  for (const Kernel& kernel : kernels) {
    if (kernel.kind != KernelKind::gemm) continue;
    std::array sizes{kernel.m, kernel.n, kernel.k};
    if (layer.kind == "experts") {  // the rows of all groups together
      sizes[kernel.pass == Pass::weight_gradient ? 2 : 0] *= kernel.batch;
    }
    std::sort(sizes.begin(), sizes.end());
    const std::string kind =
        layer.kind == "experts" ? fmt::format("grouped {}", kernel.batch) : "matmul gate";
    lines.push_back(fmt::format("{} {} {}", pass, kind, fmt::join(sizes, " ")));
  }
}

Lines mixture_lines(const TrainingStep& step) {
  Lines lines;
  for (const Layer& layer : step.layers) {
    write_layer(layer, layer.forward_exchanges, layer.forward, "forward", lines);
  }
  for (auto layer = step.layers.rbegin(); layer != step.layers.rend(); ++layer) {
    write_layer(*layer, layer->backward_exchanges, layer->backward, "backward", lines);
  }
  return lines;
}

TEST(ExpertParallel, SendsTokensAsTorchtitanDoes) {
  StepOptions options = qwen3();
  options.parallel.expert.size = 2;
  EXPECT_EQ(mixture_lines(build(options)),
            golden_lines("expert_order_torchtitan.txt",
                         R"({"model": "qwen3", "flavor": "30B-A3B", "layers": 1, "dp": 4, )"
                         R"("ep": 2, "loss": "plain"} rank 0)"));
}

TEST(ExpertParallel, WithTensorParallelismSendsTokensAsTorchtitanDoes) {
  StepOptions options = qwen3();
  options.parallel.expert.size = 4;
  options.parallel.expert.tensor = 1;
  options.parallel.tensor.size = 2;
  options.parallel.tensor.sequence = true;
  EXPECT_EQ(mixture_lines(build(options)),
            golden_lines("expert_order_torchtitan.txt",
                         R"({"model": "qwen3", "flavor": "30B-A3B", "layers": 1, "tp": 2, )"
                         R"("dp": 4, "ep": 4, "loss": "plain"} rank 0)"));
}

double expert_parameters(const TrainingStep& step, bool experts) {
  double sum = 0;
  for (const Layer& layer : step.layers) {
    for (const Parameter& parameter : layer.parameters) {
      if (parameter.expert == experts) sum += static_cast<double>(parameter.count);
    }
  }
  return sum;
}

double product_flops(const TrainingStep& step) {
  return step.forward_flops + step.backward_flops;
}

// A rank of the expert axis has a share of the experts and all other parameters. With a balanced
// load it computes as many tokens as it sends.
TEST(ExpertParallel, RanksHaveTheirShareOfExperts) {
  StepOptions options = qwen3();
  const TrainingStep whole = build(options);
  EXPECT_EQ(expert_parameters(whole, true), 128.0 * 3 * 2048 * 768);
  for (const std::int64_t ranks : {2, 8}) {
    for (const ExpertDispatch dispatch : {ExpertDispatch::all_to_all, ExpertDispatch::gather}) {
      options.parallel.expert.size = ranks;
      options.parallel.expert.dispatch = dispatch;
      const TrainingStep part = build(options);
      EXPECT_EQ(expert_parameters(part, true) * static_cast<double>(ranks),
                expert_parameters(whole, true));
      EXPECT_EQ(expert_parameters(part, false), expert_parameters(whole, false));
      EXPECT_EQ(product_flops(part), product_flops(whole));
    }
  }
}

// Grouped products have the same parameters and FLOPs as one product per expert.
TEST(ExpertParallel, GroupedProductsAreThoseOfTheLoop) {
  const std::string start =
      "title: t\ninput: {tokens: 64}\nlayers:\n- embedding: {rows: 10, features: 16}\n  name: x\n"
      "- linear: 4\n  name: router\n- experts: {count: 4, inner: 32, top: 2";
  const std::string end = "}\n  from: [x, router]\n- linear: 10\n- cross_entropy\n";
  const TrainingStep loop = build_text(start + end);
  const TrainingStep grouped = build_text(start + ", grouped: true" + end);
  EXPECT_EQ(grouped.parameter_count, loop.parameter_count);
  EXPECT_EQ(product_flops(grouped), product_flops(loop));
}

double exchanged(const TrainingStep& step, Axis axis, bool backward, ExchangeKind kind) {
  double sum = 0;
  for (const Layer& layer : step.layers) {
    for (const AxisExchange& exchange :
         backward ? layer.backward_exchanges : layer.forward_exchanges) {
      if (in_mixture(layer) && exchange.axis == axis && exchange.kind == kind) {
        sum += exchange.bytes;
      }
    }
  }
  return sum;
}

constexpr double tokens = 4096, hidden = 2048, top = 8, experts = 128;

// Fact H94: each token travels once for each of its experts, there and back, in forward and
// backward.
TEST(ExpertParallel, SendsTheBytesOfTheClosedForms) {
  StepOptions options = qwen3();
  options.parallel.expert.size = 8;
  const TrainingStep step = build(options);
  const double once = 2 * tokens * top * hidden;
  EXPECT_EQ(exchanged(step, Axis::expert, false, ExchangeKind::all_to_all), 2 * once + 8 * experts);
  EXPECT_EQ(exchanged(step, Axis::expert, true, ExchangeKind::all_to_all), 2 * once);
  // Fact H93: a gather moves all tokens of all ranks, independently of their experts, with the
  // weights and the map of the experts.
  options.parallel.expert.dispatch = ExpertDispatch::gather;
  const TrainingStep gathers = build(options);
  const double all = 2 * 8 * tokens * hidden;
  EXPECT_EQ(exchanged(gathers, Axis::expert, false, ExchangeKind::all_gather),
            all + 5 * 8 * tokens * experts);
  EXPECT_EQ(exchanged(gathers, Axis::expert, false, ExchangeKind::reduce_scatter), all);
}

// Tensor ranks that share an expert gather all their tokens and add up their parts of the result
// (Megatron-LM).
TEST(ExpertParallel, ExpertsOfTensorRanksGatherTheirTokens) {
  StepOptions options = qwen3();
  options.parallel.expert.size = 4;
  options.parallel.tensor.size = 2;
  options.parallel.tensor.sequence = true;
  const TrainingStep step = build(options);
  const double once = 2 * tokens * top * hidden;  // both ranks' halves of the sequence
  EXPECT_EQ(exchanged(step, Axis::tensor, false, ExchangeKind::all_gather), once);
  EXPECT_EQ(exchanged(step, Axis::tensor, false, ExchangeKind::reduce_scatter), once);
  EXPECT_EQ(exchanged(step, Axis::tensor, true, ExchangeKind::all_gather), once);
  EXPECT_EQ(expert_parameters(step, true) * 8, experts * 3 * 2048 * 768);
}

double mixture_flops(const TrainingStep& step) {
  double sum = 0;
  for (const Layer& layer : step.layers) {
    if (layer.kind != "experts") continue;
    for (const Kernel& kernel : layer.forward) {
      if (kernel.kind == KernelKind::gemm) sum += kernel.flops;
    }
  }
  return sum;
}

bool host_waits(const TrainingStep& step) {
  for (const Layer& layer : step.layers) {
    for (const AxisExchange& exchange : layer.forward_exchanges) {
      if (exchange.host_waits) return true;
    }
  }
  return false;
}

// Without a capacity the fullest rank computes its larger share, and the host waits for the counts
// (fact H95). With a capacity all slots are sent and computed, filled or not (fact H96).
TEST(ExpertParallel, LoadAndCapacityChangeTheTokensOfARank) {
  StepOptions options = qwen3();
  options.parallel.expert.size = 8;
  const TrainingStep even = build(options);
  EXPECT_TRUE(host_waits(even));
  options.parallel.expert.imbalance = 1.5;
  EXPECT_EQ(mixture_flops(build(options)), 1.5 * mixture_flops(even));
  options.parallel.expert.imbalance = 1;
  options.parallel.expert.capacity = 1.25;
  const TrainingStep places = build(options);
  EXPECT_FALSE(host_waits(places));
  EXPECT_EQ(mixture_flops(places), 1.25 * mixture_flops(even));
  EXPECT_EQ(exchanged(places, Axis::expert, false, ExchangeKind::all_to_all),
            2 * 2 * experts * (tokens * top / experts * 1.25) * hidden);
}

// Zipf's experts are dealt to the ranks in turn: the first of eight ranks has numbers 1, 9, 17 and
// so on. Listed experts lie in rank order, and choices beyond an expert's capacity are dropped.
TEST(ExpertParallel, TheFullestRankFollowsFromTheLoadOfItsExperts) {
  StepOptions options = qwen3();
  options.parallel.expert.size = 8;
  const double even = mixture_flops(build(options));
  for (const double exponent : {0.3, 1.0, 2.0}) {
    double all = 0, first = 0;
    for (int k = 1; k <= 128; ++k) {
      all += std::pow(k, -exponent);
      if (k % 8 == 1) first += std::pow(k, -exponent);
    }
    options.parallel.expert.load = ZipfLoad{exponent};
    const TrainingStep step = build(options);
    EXPECT_NEAR(mixture_flops(step) / even, 8 * first / all, 1e-2) << exponent;
    EXPECT_NEAR(exchanged(step, Axis::expert, true, ExchangeKind::all_to_all),
                2 * 2 * tokens * top * hidden * 8 * first / all, 2 * 2 * hidden);
    EXPECT_EQ(step.dropped_tokens, 0);
  }
  ListedLoad listed;
  listed.shares.assign(128, 1);
  listed.shares[40] = 129;  // rank 2 has half of all and 15 of the other 255 choices
  options.parallel.expert.load = listed;
  EXPECT_NEAR(mixture_flops(build(options)) / even, 8 * (129 + 15) / 256.0, 1e-2);
  options.parallel.expert.capacity = 2;
  EXPECT_NEAR(build(options).dropped_tokens, 129 / 256.0 - 2 / 128.0, 1e-12);
}

// Megatron-LM runs the shared experts' first products beside the dispatch and the last one beside
// the combination.
TEST(ExpertParallel, SharedExpertsStandBesideTheExchangesOfTokens) {
  StepOptions options;
  options.precision = Precision::pure_bf16;
  options.sequence = 512;
  options.parameters = {{"layers", 2}};
  options.parallel.expert.size = 8;
  const TrainingStep apart = build_step(*load_model("deepseek-v2-lite"), options);
  options.parallel.expert.overlap = ExpertOverlap::shared;
  const TrainingStep beside = build_step(*load_model("deepseek-v2-lite"), options);
  std::vector<std::string> order;
  for (const Layer& layer : beside.layers) {
    const std::size_t at = layer.name.find("1.mlp.");
    if (at != std::string::npos) order.push_back(layer.name.substr(at + 6));
    for (const int input : layer.inputs) EXPECT_LT(input, &layer - beside.layers.data());
  }
  EXPECT_THAT(order, testing::ElementsAre("gate", "experts.route", "experts.dispatch",
                                          "shared_experts.gate_proj", "shared_experts.act_fn",
                                          "shared_experts.up_proj", "shared_experts.multiply",
                                          "experts.experts", "experts.combine",
                                          "shared_experts.down_proj", "experts.sum", "add"));
  EXPECT_EQ(beside.layers.size(), apart.layers.size());
  EXPECT_EQ(beside.parameter_count, apart.parameter_count);
  EXPECT_EQ(beside.forward_flops, apart.forward_flops);
  EXPECT_EQ(beside.backward_flops, apart.backward_flops);
}

std::string message_of(const StepOptions& options) {
  try {
    build(options);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(ExpertParallel, RefusesWhatDoesNotFit) {
  StepOptions options = qwen3();
  options.parallel.where = {"job.yaml", 7, 3};
  options.parallel.expert.size = 3;
  EXPECT_THAT(message_of(options), HasSubstr("job.yaml:7:3: parallel.expert: "));
  EXPECT_THAT(message_of(options), HasSubstr("3 GPUs cannot share 128 experts evenly"));
  options.parallel.expert.size = 4;
  options.parallel.tensor.size = 2;
  EXPECT_THAT(message_of(options), HasSubstr("tensor: {sequence: true}"));
  options.parallel.tensor.sequence = true;
  options.parallel.expert.tensor = 4;
  EXPECT_THAT(message_of(options), HasSubstr("4 GPUs cannot share an expert"));
  options = {};
  options.parallel.expert.size = 2;
  try {
    build_step(*load_model("llama"), options);
    ADD_FAILURE() << "a dense model has no experts";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("model 'llama' has no experts"));
  }
}

}  // namespace
}  // namespace lockstep::mesh_experts_test
