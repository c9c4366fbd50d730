// A folder with a scenario, its recommendation, and the rows of a sweep with the same settings.
// Used by tests of recommendations.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "sweep/recommend.hpp"
#include "sweep/sweep.hpp"
#include "sweep_files.hpp"

namespace lockstep::recommend_test {

using Json = nlohmann::json;

inline constexpr const char* training_run =
    "name: run\n"
    "model: resnet18\n"
    "dataset: {samples: 1.28M, epochs: 90}\n"
    "batch: {global: 64}\n"
    "precision: tf32\n"
    "platform: g5.12xlarge\n"
    "gpus: [1, 2, 4]\n"
    "simulation: {steps: 8}\n"
    "strategies: [ddp]\n";

// The least value among all candidates that meet every limit. The first candidate may have a larger
// value if it is simpler to run.
inline double least(const Recommendation& found, RankBy by) {
  double value = std::numeric_limits<double>::infinity();
  for (const Candidate& c : found.ranked) value = std::min(value, measure(c, by));
  return value;
}

class Recommend : public testing::Test {
 protected:
  Recommendation answer(const RecommendOptions& options, const std::string& text = training_run) {
    return recommend(folder_.write("s.yaml", text), options);
  }
  // The rows of a sweep with these settings.
  std::vector<Json> swept(const std::vector<std::string>& settings) {
    const std::string file = folder_.file("s.yaml");
    InputFiles files;
    const Grid grid(file, settings, files);
    const SweepPlan plan = plan_sweep(grid, file, 0, 1, {});
    RowsFile rows(folder_.file("out"), plan.digest, shard_rows(plan, 0, 1));
    EXPECT_TRUE(run_sweep(plan, files, rows, {}));
    rows.finish(false);
    std::istringstream lines(folder_.read("out"));
    std::filesystem::remove(folder_.file("out"));
    std::vector<Json> list;
    for (std::string line; std::getline(lines, line);) list.push_back(Json::parse(line));
    return list;
  }
  TestFolder folder_;
};

}  // namespace lockstep::recommend_test
