// Are a sweep's rows the answers of `run`, for any number of workers, and is every point without an
// answer a row with its reason?
#include "sweep/sweep.hpp"

#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "points/predict.hpp"
#include "sweep_files.hpp"

namespace lockstep::sweep_test {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

class Sweep : public testing::Test {
 protected:
  std::string swept(const std::vector<std::string>& settings, const SweepOptions& options = {},
                    const std::string& text = small_scenario, std::size_t n = 1,
                    std::size_t k = 0) {
    const std::string scenario = folder_.write("s.yaml", text);
    InputFiles files;
    const Grid grid(scenario, settings, files);
    const SweepPlan plan = plan_sweep(grid, scenario, 0, 1, {});
    RowsFile rows(folder_.file("out"), plan.digest, shard_rows(plan, k, n));
    EXPECT_TRUE(run_sweep(plan, files, rows, options));
    rows.finish(false);
    const std::string result = folder_.read("out");
    std::filesystem::remove(folder_.file("out"));
    return result;
  }
  static std::vector<Json> rows_of(const std::string& text) {
    std::vector<Json> rows;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) rows.push_back(Json::parse(line));
    return rows;
  }
  TestFolder folder_;
};

const std::vector<std::string> some{"batch.per_gpu=4..64*2", "gpus=1,2,3,16",
                                    "strategies.ddp.bucket_size=1MiB,25MiB"};

TEST_F(Sweep, RowsAreTheAnswersOfARun) {
  const auto rows = rows_of(swept({"batch.per_gpu=8,16"}));
  ASSERT_EQ(rows.size(), 8U);
  for (const std::int64_t batch : {8, 16}) {
    Scenario scenario = read_scenario_text(small_scenario, "s.yaml");
    scenario.batch.per_gpu = batch;
    for (const Prediction& p : predict_each(scenario, expand(scenario)).predictions) {
      int found = 0;
      for (const Json& row : rows) {
        if (row["strategy"] != p.strategy || row["gpus"] != p.gpus) continue;
        if (row["set"]["batch.per_gpu"] != batch) continue;
        ++found;
        EXPECT_EQ(row["step_s"], p.step_seconds);
        EXPECT_EQ(row["step_high_s"], p.step_interval.high);
        EXPECT_EQ(row["device_bytes"], p.memory.device);
        EXPECT_EQ(row["samples_per_s"], p.samples_per_second);
      }
      EXPECT_EQ(found, 1);
    }
  }
}

// Every mesh of a grid has a row; a mesh that does not divide has its reason there.
TEST_F(Sweep, MeshesAreRowsOrSayWhatDoesNotDivide) {
  const std::string text =
      "name: m\nmodel: gpt\nmodel_parameters: {layers: 6, hidden: 256, heads: 4, sequence: 128, "
      "vocabulary: 51200}\nbatch: {global: 16, micro: 1}\nprecision: amp-bf16\nplatform: "
      "dgx-a100-80gb\ngpus: 16\nstrategies: [ddp]\nsimulation: {steps: 4}\n";
  const auto rows =
      rows_of(swept({"parallel.tensor=1,2,4,8", "parallel.pipeline.stages=1,2,4,8"}, {}, text));
  ASSERT_EQ(rows.size(), 16U);
  for (const Json& row : rows) {
    const std::int64_t tensor = row["set"]["parallel.tensor"];
    const std::int64_t stages = row["set"]["parallel.pipeline.stages"];
    const bool divides = tensor <= 4 && stages <= 6 && tensor * stages <= 16;
    EXPECT_EQ(row["kind"], divides ? "answer" : "refused") << row;
    if (divides) {
      EXPECT_EQ(row["tp"], tensor);
      EXPECT_EQ(row["pp"], stages);
      EXPECT_EQ(row["dp"], 16 / (tensor * stages));
      Scenario scenario = read_scenario_text(text, "s.yaml");
      scenario.parallel.tensor.size = tensor;
      scenario.parallel.pipeline.stages = stages;
      const Prediction p = predict_each(scenario, expand(scenario)).predictions.at(0);
      EXPECT_EQ(row["step_s"], p.step_seconds);
    } else {
      const std::string reason = row["reason"];
      const char* says = tensor * stages > 16 ? "whole replicas" : tensor == 8 ? "heads" : "blocks";
      EXPECT_THAT(reason, HasSubstr(says));
    }
  }
}

// A grid with more points than can be simulated is refused; a sample of its points is accepted.
TEST_F(Sweep, AGridTooLargeToSimulateIsDrawnFrom) {
  const std::string scenario = folder_.write("s.yaml", small_scenario);
  InputFiles files;
  const Grid grid(scenario, {"simulation.seed=1..100000", "batch.per_gpu=1..100000"}, files);
  EXPECT_THAT(refusal([&] { plan_sweep(grid, scenario, 0, 1, {}); }),
              HasSubstr("40000000000 points are more than can be simulated, 100000000"));
  EXPECT_THAT(refusal([&] { plan_sweep(grid, scenario, std::size_t{1} << 40, 1, {}); }),
              HasSubstr("--sample"));
  EXPECT_EQ(plan_sweep(grid, scenario, 5, 1, {}).points.size(), 5U);
}

TEST_F(Sweep, AnyNumberOfWorkersGivesTheSameBytes) {
  const std::string one = swept(some, {.workers = 1});
  EXPECT_EQ(rows_of(one).size(), 60U);
  for (const int workers : {2, 5}) EXPECT_EQ(swept(some, {.workers = workers}), one);
}

TEST_F(Sweep, ShardsAreTheWholeTakenApart) {
  const std::string whole = swept(some);
  std::map<int, std::string> lines;
  for (std::size_t k = 0; k < 7; ++k) {
    for (const Json& row : rows_of(swept(some, {}, small_scenario, 7, k))) {
      EXPECT_TRUE(lines.emplace(row["row"], row.dump()).second);
    }
  }
  const auto rows = rows_of(whole);
  ASSERT_EQ(lines.size(), rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i)
    EXPECT_EQ(lines[static_cast<int>(i)], rows[i].dump());
}

// Points that run on SimGrid give the same rows as on the loop: each has a process of its own.
TEST_F(Sweep, SimGridPointsAreLikeOthers) {
  const std::vector<std::string> settings{"simulation.engine=loop,simgrid", "batch.per_gpu=8,16"};
  const auto rows = rows_of(swept(settings, {.workers = 2}));
  ASSERT_EQ(rows.size(), 16U);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i]["set"]["simulation.engine"] == "simgrid") continue;
    const Json& same = rows[i + 4];  // the engine is the outer axis
    EXPECT_EQ(same["set"]["simulation.engine"], "simgrid");
    EXPECT_EQ(same["gpus"], rows[i]["gpus"]);
    EXPECT_NEAR(same["step_s"], rows[i]["step_s"], 1e-9 * double(rows[i]["step_s"]));
  }
}

TEST_F(Sweep, ACombinationThatCannotBeIsARowWithItsReason) {
  const std::string text =
      "name: x\nmodel: resnet18\nplatform: dgx-a100-80gb\nstrategies: [ddp]\n"
      "simulation: {steps: 8}\n";
  const auto rows = rows_of(swept({"batch.global=8,9", "gpus=1,2,100000"}, {}, text));
  ASSERT_EQ(rows.size(), 6U);
  EXPECT_EQ(rows[1]["kind"], "answer");
  EXPECT_EQ(rows[2]["kind"], "refused");
  EXPECT_THAT(std::string(rows[2]["reason"]), HasSubstr("gpus: 100000 GPUs, but"));
  EXPECT_EQ(rows[4]["reason"], "batch: global batch 9 does not divide among 2 GPUs");
}

// A million steps with jitter take minutes, eight steps take milliseconds.
TEST_F(Sweep, APointThatTakesTooLongIsARowWithItsReason) {
  const std::string jitter =
      std::string(small_scenario) + "stragglers: {per_step: {lognormal: {sigma: 5%}}}\n";
  const auto rows = rows_of(swept({"strategies=ddp", "gpus=2", "simulation.steps=8,1000000,9"},
                                  {.workers = 2, .most_seconds = 0.6}, jitter));
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0]["kind"], "answer");
  EXPECT_EQ(rows[1]["kind"], "failed");
  EXPECT_EQ(rows[1]["reason"], "the simulation took longer than 0.6 s");
  EXPECT_EQ(rows[2]["kind"], "answer");
}

TEST_F(Sweep, AnAnchorScalesEveryPoint) {
  const std::string plain = small_scenario;
  const std::string anchored = plain + "anchor: [{strategy: ddp, gpus: 1, step_time: 100 ms}]\n";
  const auto before = rows_of(swept({"batch.per_gpu=16,32"}, {}, plain));
  const auto after = rows_of(swept({"batch.per_gpu=16,32"}, {}, anchored));
  EXPECT_NEAR(after[0]["step_s"], 0.1, 1e-3);
  const double factor = double(after[0]["step_s"]) / double(before[0]["step_s"]);
  EXPECT_NEAR(double(after[2]["step_s"]) / double(before[2]["step_s"]), factor, 0.1 * factor);
  EXPECT_THAT(refusal([&] { swept({"platform=dgx-h100"}, {}, anchored); }),
              HasSubstr("the scenario's anchor was measured with the file's own"));
}

TEST_F(Sweep, StopsWhenToldAndGoesOnLater) {
  const std::string scenario = folder_.write("s.yaml", small_scenario);
  const std::vector<std::string> settings{"batch.per_gpu=1..96"};
  const std::string whole = swept(settings);
  InputFiles files;
  const Grid grid(scenario, settings, files);
  const SweepPlan plan = plan_sweep(grid, scenario, 0, 1, {});
  std::atomic<bool> stop = false;
  SweepOptions options{.workers = 1};
  options.stop = &stop;
  options.progress = [&](std::size_t done, std::size_t, std::size_t) { stop = done > 10; };
  {
    RowsFile rows(folder_.file("out"), plan.digest, shard_rows(plan, 0, 1));
    EXPECT_FALSE(run_sweep(plan, files, rows, options));
    EXPECT_LT(rows.missing().size(), rows.size());
    EXPECT_FALSE(rows.missing().empty());
  }
  EXPECT_EQ(swept(settings), whole);
}

}  // namespace
}  // namespace lockstep::sweep_test
