// Does the search over meshes keep its promises: bounds below every simulation, the best mesh
// found, limits kept?
#include <gmock/gmock.h>

#include <set>

#include "core/statistics.hpp"
#include "points/measured.hpp"
#include "points/points.hpp"
#include "recommend_fixture.hpp"
#include "sweep/candidates.hpp"
#include "sweep/judge.hpp"
#include "sweep/mesh_bounds.hpp"

namespace lockstep::recommend_test {
namespace {

using testing::HasSubstr;

class RecommendMeshes : public Recommend {};

const char* transformer =
    "name: t\nmodel: gpt\nmodel_parameters: {layers: 10, hidden: 2048, heads: 16, sequence: 2048, "
    "vocabulary: 51200}\ndataset: {tokens: 1B}\nbatch: {global: 16}\nprecision: amp-bf16\n"
    "optimizer: {name: adamw}\ngradient_clipping: 1\nplatform: dgx-a100-80gb\ngpus: [8]\n"
    "simulation: {steps: 4}\nstrategies: [ddp]\n";
const std::string few_meshes =
    "recommend: {parallel: {tensor: [1, 2], pipeline: [1, 2, 4], chunks: 2, micro: 2, "
    "schedule: [gpipe, 1f1b, interleaved, zb1p, zbv]}}\n";

// The bounds of a mesh lie below its simulated figures, and close enough to rule meshes out.
TEST_F(RecommendMeshes, NoMeshNeedsLessThanItsBounds) {
  const std::string mixture =
      "name: t\nmodel: mixtral\nmodel_parameters: {layers: 4, hidden: 2048, heads: 16, kv_heads: "
      "4, "
      "mlp: 4096, experts: 4, sequence: 2048}\ndataset: {tokens: 1B}\nbatch: {global: 16}\n"
      "precision: amp-bf16\noptimizer: {name: adamw}\nplatform: dgx-h100\ngpus: [8]\n"
      "simulation: {steps: 4}\nstrategies: [ddp]\nrecommend: {parallel: {tensor: [1, 2], context: "
      "[1, 2], expert: [1, 4], pipeline: [1, 2], schedule: 1f1b, micro: 2}}\n";
  for (const std::string& text :
       {transformer + few_meshes, mixture, "recipe: megatron\n" + (transformer + few_meshes)}) {
    const std::string file = folder_.write("s.yaml", text);
    InputFiles files;
    Workloads workloads;
    MeshBounds bounds(files);
    std::size_t simulated = 0;
    double nearest = 0, fullest = 0;
    for (const Candidate& c : candidates_of(read_scenario(file), {}, files).meshes) {
      const Scenario job = scenario_of(c);
      const MeshBound bound = bounds.of(job);
      if (!bound.refused.empty()) {
        EXPECT_NE(refusal([&] { expand(job, files.of(job), workloads); }), "") << c.strategy;
        continue;
      }
      Point point = expand(job, files.of(job), workloads).front();
      const StrategyResult result = point.strategy->simulate(point.job);
      const double total = steps_of_run(job, point) * mean(result.step_seconds);
      const double bytes = point.strategy->memory(point.job).device;
      EXPECT_LE(bound.total, total * (1 + 1e-9)) << c.strategy << " " << c.micro;
      EXPECT_LE(bound.bytes, bytes) << c.strategy << " " << c.micro;
      nearest = std::max(nearest, bound.total / total);
      fullest = std::max(fullest, bound.bytes / bytes);
      ++simulated;
    }
    EXPECT_GT(simulated, 30U);
    EXPECT_GT(nearest, 0.5);
    EXPECT_GT(fullest, 0.1);
  }
}

// With equal stages of equal work, a step of m micro-batches takes at least (m + p - 1) / m times
// the work of one stage.
TEST_F(RecommendMeshes, TheBoundOfAPipelineHasItsBubble) {
  std::string text = transformer;
  text +=
      "recommend: {parallel: {tensor: 1, pipeline: [1, 4], schedule: [1f1b, zb1p], micro: 1}}\n";
  const std::string file = folder_.write("s.yaml", text);
  InputFiles files;
  MeshBounds bounds(files);
  std::size_t seen = 0;
  for (const Candidate& c : candidates_of(read_scenario(file), {}, files).meshes) {
    const Scenario job = scenario_of(c);
    Workloads workloads;
    const Point point = expand(job, files.of(job), workloads).front();
    const double even = point.compute_seconds * steps_of_run(job, point);
    const double bubble = c.parallel.pipeline.schedule == PipelineSchedule::one_f_one_b ? 3.0 : 0.0;
    // The last stage also has the head, so the bound may exceed that of equal stages; half of the
    // bubble is certain.
    EXPECT_GE(bounds.of(job).total, even * (1 + 0.5 * bubble / c.accumulation)) << c.strategy;
    ++seen;
  }
  EXPECT_GT(seen, 5U);
}

// Token slices fill stages that whole micro-batches leave idle, so their bound must not contain the
// bubble.
TEST_F(RecommendMeshes, TheBoundOfTokenSlicesHasNoBubble) {
  const std::string file = folder_.write(
      "s.yaml", std::string(transformer) +
                    "parallel: {pipeline: {stages: 4, schedule: gpipe, slices: 16}}\n");
  InputFiles files;
  Workloads workloads;
  const Scenario job = read_scenario(file);
  const Point point = expand(job, files.of(job), workloads).front();
  const StrategyResult result = point.strategy->simulate(point.job);
  const MeshBound bound = MeshBounds(files).of(job);
  EXPECT_LE(bound.total, steps_of_run(job, point) * mean(result.step_seconds));
  EXPECT_LE(bound.bytes, point.strategy->memory(point.job).device);
}

// The search finds the same best mesh as a simulation of every mesh.
TEST_F(RecommendMeshes, TheBestMeshIsTheBestOfAll) {
  const std::string text = transformer + few_meshes + "price_per_gpu_hour: 1 USD/h\n";
  const Recommendation found = answer({}, text);
  const MeshCounts& counts = found.meshes;
  EXPECT_EQ(counts.looked_at, counts.refused + counts.ruled_out + counts.simulated);
  EXPECT_GT(counts.ruled_out, 0U);
  EXPECT_GT(counts.refused, 0U);
  const std::string file = folder_.file("s.yaml");
  InputFiles files;
  Judge judge(files, {});
  double fastest = least(found, RankBy::time);
  double smallest = std::numeric_limits<double>::infinity();
  const Candidates all = candidates_of(read_scenario(file), {}, files);
  for (const Candidate& c : all.meshes) {
    const Judgement judged = judge.judge(scenario_of(c), Judge::never, [](double) {});
    if (!judged.verdict) continue;
    EXPECT_GE(judged.verdict->total, 0.99 * fastest) << c.strategy;
    smallest = std::min(smallest, judged.verdict->device);
  }
  EXPECT_EQ(counts.looked_at, all.meshes.size() + all.refused);
  const Recommendation small = answer({.by = RankBy::memory}, text);
  EXPECT_LE(least(small, RankBy::memory), smallest);
  std::size_t left_out = 0;
  for (const auto& [why, count] : found.left_out) left_out += count;
  EXPECT_EQ(left_out + found.ranked.size(), found.candidates);
}

// In a search by memory the bounds rule out almost nothing, so the limit of simulations ends the
// search.
TEST_F(RecommendMeshes, AtMostTwentyFourAreSimulatedOnAsManyGpus) {
  const Recommendation found = answer({.by = RankBy::memory}, transformer);
  EXPECT_EQ(found.meshes.simulated, 24U);
  const auto beyond = found.left_out.find(
      "a mesh that is not among the 24 whose bounds promise most on as many GPUs");
  ASSERT_NE(beyond, found.left_out.end());
  EXPECT_GT(beyond->second, 24U);
}

// A mesh is a setting that a sweep accepts, with the same global batch.
TEST_F(RecommendMeshes, AMeshIsASweepOfOnePoint) {
  const Recommendation found = answer({.by = RankBy::memory}, transformer + few_meshes);
  std::size_t seen = 0;
  for (const Candidate& c : found.ranked) {
    if (c.mesh.empty() || ++seen > 4) continue;
    const auto rows = swept(c.settings);
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_NEAR(rows[0]["step_s"], c.verdict.step, 1e-8 * c.verdict.step) << c.strategy;
    EXPECT_EQ(rows[0]["global_batch"], 16);
    EXPECT_EQ(c.family, "mesh");
  }
  EXPECT_GT(seen, 0U);
}

// If the scenario has a mesh of its own, the search does not change it.
TEST_F(RecommendMeshes, AMeshOfTheScenarioStays) {
  const Recommendation found =
      answer({}, std::string(transformer) + "parallel: {tensor: 2, pipeline: 2}\n");
  ASSERT_FALSE(found.ranked.empty());
  for (const Candidate& c : found.ranked) {
    EXPECT_EQ(c.mesh, "tp2 pp2 1f1b");
    EXPECT_EQ(c.micro * c.accumulation, 16 / 2);
  }
}

// A model too large for data parallelism gets a mesh, and the user's limits are kept.
TEST_F(RecommendMeshes, ModelsThatAreTooLargeGetAMesh) {
  const std::string text =
      "name: t\nrecipe: megatron\nmodel: llama3-70b\ninput: {sequence: 4096}\ndataset: {tokens: "
      "1T}\nbatch: {global: 64}\nplatform: dgx-a100-80gb\ngpus: [32]\nsimulation: {steps: 4}\n"
      "strategies: [ddp]\nrecommend: {parallel: {tensor: [4, 8], pipeline: [2, 4], schedule: 1f1b, "
      "micro: 1}}\n";
  const Recommendation found = answer({}, text);
  std::set<std::string> meshes;
  for (const Candidate& c : found.ranked) meshes.insert(c.mesh);
  meshes.erase("");
  ASSERT_FALSE(meshes.empty());
  for (const std::string& mesh : meshes) {
    EXPECT_THAT(mesh, testing::MatchesRegex("tp[48] pp[24] 1f1b"));
  }
  EXPECT_THAT(recommendation_text(found, "s.yaml"), HasSubstr("Meshes: "));
}

}  // namespace
}  // namespace lockstep::recommend_test
