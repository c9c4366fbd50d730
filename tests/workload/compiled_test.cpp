// Do compiled steps keep their products and parameters, keep the same values for backward as
// AOTAutograd's own partitioner (calibrate/oracle/compile), and launch the right number of kernels?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "build.hpp"
#include "core/data.hpp"
#include "workload/minimum_cut.hpp"

namespace lockstep::compiled_test {
namespace {

using Json = nlohmann::json;

StepOptions half_precision(Compile compile) {
  StepOptions options;
  options.precision = Precision::pure_bf16;
  options.samples = 2;
  options.sequence = 512;
  options.compile = compile;
  return options;
}

TrainingStep llama(const StepOptions& changed) {
  StepOptions options = changed;
  options.parameters = {{"layers", 2}};
  return build_step(*load_model("llama3.2-1b"), options);
}

double products(const TrainingStep& step) {
  double flops = 0;
  for (const Layer& layer : step.layers) {
    for (const auto* list : {&layer.forward, &layer.backward}) {
      for (const Kernel& kernel : *list) flops += is_product(kernel) ? kernel.flops : 0;
    }
  }
  return flops;
}

TEST(MinimumCut, TakesTheCheapestSeparation) {
  // The graph has the paths 0 -> 1 -> 3 and 0 -> 2 -> 3; the value of node 3 is needed.
  CutGraph graph;
  graph.nodes = {{5, true, false, {}},
                 {1, false, false, {0}},
                 {2, false, false, {0}},
                 {4, false, true, {1, 2}}};
  EXPECT_THAT(minimum_cut(graph), testing::ElementsAre(false, true, true, false));
  graph.nodes[3].weight = 2.5;
  EXPECT_THAT(minimum_cut(graph), testing::ElementsAre(false, false, false, true));
  graph.nodes[0].weight = 1;
  EXPECT_THAT(minimum_cut(graph), testing::ElementsAre(true, false, false, false));
}

TEST(MinimumCut, IsNearestToTheSinks) {
  CutGraph graph;
  graph.nodes = {{1, true, false, {}}, {1, false, false, {0}}, {1, false, true, {1}}};
  EXPECT_THAT(minimum_cut(graph), testing::ElementsAre(false, false, true));
}

TEST(Compiled, ProductsAndParametersStay) {
  const TrainingStep eager = llama(half_precision(Compile::none));
  for (const Compile compile : {Compile::blocks, Compile::whole}) {
    const TrainingStep step = llama(half_precision(compile));
    ASSERT_EQ(step.layers.size(), eager.layers.size());
    EXPECT_EQ(products(step), products(eager));
    EXPECT_EQ(step.parameter_count, eager.parameter_count);
    EXPECT_EQ(step.forward_flops, eager.forward_flops);
    EXPECT_LT(saved_bytes(step), saved_bytes(eager));
  }
}

// The 14 kernels of a block are: norm, three products, two rotations, attention, product; sum with
// norm, two products, gated activation, product; sum.
TEST(Compiled, AChainIsOneKernel) {
  const TrainingStep step = llama(half_precision(Compile::blocks));
  std::vector<int> counts(2, 0);
  for (const Layer& layer : step.layers) {
    if (layer.block == "model.layers.0") {
      counts[0] += launches(layer.forward);
      EXPECT_TRUE(layer.compiled) << layer.name;
    }
    if (layer.block == "model.layers.1") counts[1] += launches(layer.forward);
  }
  EXPECT_THAT(counts, testing::ElementsAre(14, 14));
  // The gated activation reads the outputs of two products and writes one tensor.
  const Layer& gate = find_layer(step, "model.layers.0.mlp.multiply");
  const double inner = 2.0 * 2 * 512 * 8192;
  ASSERT_EQ(launches(gate.forward), 1);
  EXPECT_EQ(gate.forward.back().bytes_read, 2 * inner);
  EXPECT_EQ(gate.forward.back().bytes_written, inner);
  const Layer& activation = find_layer(step, "model.layers.0.mlp.act_fn");
  EXPECT_EQ(activation.output_bytes, 0);
  EXPECT_EQ(launches(activation.forward), 0);
  // Its backward reads the gradient and both products' outputs, and writes both gradients.
  ASSERT_EQ(launches(activation.backward), 1);
  EXPECT_EQ(activation.backward.front().bytes_read, 3 * inner);
  EXPECT_EQ(activation.backward.front().bytes_written, 2 * inner);
}

TEST(Compiled, KeepsWhatTheBlockNeeds) {
  StepOptions options = half_precision(Compile::blocks);
  options.samples = 1;
  options.sequence = 1024;
  const TrainingStep step = llama(options);
  std::set<int> seen;
  double kept = 0;
  for (const Layer& layer : step.layers) {
    if (layer.block != "model.layers.0") continue;
    for (const SavedTensor& saved : layer.saved) {
      const bool inside =
          saved.produced_by >= 0 && step.layers[saved.produced_by].block == "model.layers.0";
      if (inside && seen.insert(saved.storage).second) kept += saved.bytes;
    }
  }
  EXPECT_NEAR(kept / 1048576, 70.13, 0.01);
}

TEST(FusedKernels, JoinAGatedActivation) {
  StepOptions options = half_precision(Compile::none);
  options.fused_kernels = true;
  const TrainingStep step = llama(options), eager = llama(half_precision(Compile::none));
  EXPECT_EQ(products(step), products(eager));
  EXPECT_LT(saved_bytes(step), saved_bytes(eager));
  EXPECT_EQ(find_layer(step, "model.layers.0.mlp.act_fn").output_bytes, 0);
  const Layer& norm = find_layer(step, "model.layers.0.input_layernorm");
  EXPECT_EQ(launches(norm.forward), 1);
  EXPECT_GT(norm.output_bytes, 0);
  EXPECT_FALSE(norm.compiled);
}

StepOptions options_of(const Json& job) {
  StepOptions options;
  options.samples = job["batch"];
  for (const Precision precision : {Precision::fp32, Precision::amp_bf16, Precision::pure_bf16}) {
    if (enum_name(precision) == job["precision"]) options.precision = precision;
  }
  options.compile = job["compile"] == "whole" ? Compile::whole : Compile::blocks;
  if (job.contains("layers")) {
    options.parameters["layers"] = job["layers"];
    options.sequence = job.value("sequence", 1024);
    const std::string model = job["model"];
    if (model.starts_with("gpt")) options.parameters["dropout"] = 1;
  }
  return options;
}

// Bytes that each compiled graph keeps for backward, in order.
std::vector<double> kept_by_graph(const TrainingStep& step, Compile compile) {
  std::vector<double> graphs;
  std::set<int> seen;
  std::string block;
  int first = 0;
  for (std::size_t i = 0; i < step.layers.size(); ++i) {
    const Layer& layer = step.layers[i];
    if (compile == Compile::blocks && layer.block.empty()) continue;
    if (graphs.empty() || (compile == Compile::blocks && layer.block != block)) {
      graphs.push_back(0);
      first = static_cast<int>(i);
    }
    block = layer.block;
    for (const SavedTensor& saved : layer.saved) {
      const bool inside = saved.produced_by >= (compile == Compile::whole ? 0 : first);
      if (inside && seen.insert(saved.storage).second) graphs.back() += saved.bytes;
    }
  }
  return graphs;
}

TEST(Compiled, KeepsWhatAotAutogradKeeps) {
  std::ifstream file(data_folder("calibrate/oracle/compile") + "/genuine.jsonl");
  int cases = 0, near = 0;
  for (std::string line; std::getline(file, line);) {
    const Json job = Json::parse(line);
    if (job.contains("error")) continue;
    ++cases;
    const StepOptions options = options_of(job);
    const TrainingStep step = build_step(*load_model(job["model"]), options);
    // Equal blocks share one graph.
    const double ours = kept_by_graph(step, options.compile).front();
    const double theirs = job["saved"].front();
    const double error = ours / theirs - 1;
    EXPECT_LT(std::abs(error), 0.1) << line << " " << ours << " " << error;
    if (std::abs(error) <= 0.03) ++near;
    if (std::getenv("LOCKSTEP_SHOW")) std::printf("%+.4f %s\n", error, line.c_str());
  }
  EXPECT_GE(cases, 30);
  EXPECT_GE(near, 0.95 * cases);
}

}  // namespace
}  // namespace lockstep::compiled_test
