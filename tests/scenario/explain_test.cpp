// Is every second of the step attributed, do sensitivities point the right way, do differences add
// up?
#include "scenario/explain.hpp"

#include "helpers.hpp"

namespace lockstep {
namespace {

double sum(const Attribution& parts) {
  double total = 0;
  for (const auto& [what, seconds] : parts) total += seconds;
  return total;
}

struct Explained {
  Scenario scenario;
  std::vector<Point> points;
  std::vector<StrategyResult> results;
  std::vector<Prediction> predictions;
};

Explained explained(const std::string& more) {
  Explained e;
  e.scenario = scenario_of(more);
  e.points = expand(e.scenario);
  e.results = simulate(e.points);
  for (std::size_t i = 0; i < e.points.size(); ++i) {
    e.predictions.push_back(summarise_point(e.scenario, e.points[i], e.results[i]));
  }
  return e;
}

const char* three_strategies =
    "gpus: [1, 8]\nstrategies: [ddp, fsdp, parameter_server]\nplatform: g5.48xlarge\n"
    "stragglers: {per_rank: 3%}\n";

TEST(Explain, TheAttributionAddsUpToTheStep) {
  const Explained e = explained(three_strategies);
  for (std::size_t i = 0; i < e.points.size(); ++i) {
    const Attribution parts = attribute(e.predictions[i], e.points[i]);
    const double step = mean(e.results[i].step_seconds);
    EXPECT_NEAR(sum(parts), step, 1e-9 * step) << e.points[i].label << e.points[i].job.gpus;
    for (const auto& [what, seconds] : parts) EXPECT_GE(seconds, -1e-12) << what;
  }
}

TEST(Explain, DifferencesAddUp) {
  const Explained e = explained(three_strategies);
  for (std::size_t i = 1; i < e.points.size(); ++i) {
    const Prediction &a = e.predictions[0], &b = e.predictions[i];
    double before = 0, after = 0;
    for (const auto& part : difference(a, e.points[0], b, e.points[i])) {
      before += part.before;
      after += part.after;
    }
    EXPECT_NEAR(before, a.gpus / a.samples_per_second, 1e-12);
    EXPECT_NEAR(after, b.gpus / b.samples_per_second, 1e-9 * after);
  }
}

std::map<std::string, double> sensitivity_map(const Explained& e, std::size_t i) {
  std::map<std::string, double> map;
  for (const auto& s : sensitivities(e.scenario, e.points[i], {}, {})) map[s.input] = s.step_change;
  return map;
}

TEST(Explain, MoreOfAnythingGoodIsNotSlower) {
  const Explained e = explained("gpus: [1, 16]\nplatform: dgx-a100-80gb-25gbe\n");
  auto one = sensitivity_map(e, 0), many = sensitivity_map(e, 1);
  for (const auto* map : {&one, &many}) {
    for (const auto& [input, change] : *map) {
      const bool good =
          input.find("bandwidth") != std::string::npos || input.find("FLOP/s") != std::string::npos;
      const bool bad = input.find("floor") != std::string::npos ||
                       input.find("dispatch") != std::string::npos ||
                       input.find("latency") != std::string::npos;
      if (good) {
        EXPECT_LT(change, 0) << input;
      }
      if (bad) {
        EXPECT_GT(change, 0) << input;
      }
      EXPECT_GT(change, -0.5) << input;  // 10 % of one input, or a batch twice as large
    }
  }
  EXPECT_EQ(one.count("NIC bandwidth +10 %"), 0U);   // one GPU uses no network
  ASSERT_EQ(many.count("NIC bandwidth +10 %"), 1U);  // 25 GbE between two nodes hurts
  EXPECT_LT(many["NIC bandwidth +10 %"], -0.005);
}

TEST(Explain, MostSensitiveFirst) {
  const Explained e = explained("gpus: 8\n");
  double last = 1e9;
  for (const auto& s : sensitivities(e.scenario, e.points[0], {}, {})) {
    EXPECT_LE(std::abs(s.step_change), last);
    last = std::abs(s.step_change);
  }
}

TEST(Explain, DeviceTimeByKindIsAllOfTheDevicesTime) {
  const Explained e = explained("model: gpt2\nbatch: {micro: 2}\n");
  const Point& point = e.points[0];
  double device = 0;
  for (std::size_t i = 0; i < point.step->layers.size(); ++i) {
    const LayerCost cost = point.job.costs->layer(*point.step, i);
    device += cost.forward.busy + cost.backward.busy;
  }
  EXPECT_NEAR(sum(device_time_by_kind(point)), device, 1e-12);
}

}  // namespace
}  // namespace lockstep
