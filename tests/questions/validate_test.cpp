// Are errors and baselines computed as documented? The expected figures are worked out by hand.
#include "questions/validate.hpp"

#include <nlohmann/json.hpp>

#include "scenario/helpers.hpp"

namespace lockstep::validate_test {
namespace {

ValidationRow made_up(const std::string& group, double predicted, double measured) {
  ValidationRow row;
  row.group = group;
  row.scenario = "s";
  row.strategy = "ddp";
  row.quantity = "step_s";
  row.predicted = predicted;
  row.measured = measured;
  row.interval = {0.9 * predicted, 1.1 * predicted};
  return row;
}

TEST(Validate, ErrorsAreRelativeToTheMeasurement) {
  EXPECT_DOUBLE_EQ(relative_error(1.2, 1.0), 1.2 / 1.0 - 1);
  EXPECT_DOUBLE_EQ(relative_error(0.5, 1.0), -0.5);
}

TEST(Validate, SummariesByHand) {
  // The errors are 10 %, -20 %, 5 % and 0 %; a calibration row has 50 %.
  std::vector<ValidationRow> rows{made_up("a", 1.1, 1), made_up("a", 0.8, 1), made_up("a", 1.05, 1),
                                  made_up("b", 1, 1), made_up("a", 1.5, 1)};
  rows[4].calibration = true;
  rows[0].perfect_scaling = 1.3;
  rows[1].perfect_scaling = 0.9;
  rows[0].fixed_utilisation = 0.5;
  const auto summaries = summarise_errors(rows);
  ASSERT_EQ(summaries.size(), 4U);
  EXPECT_EQ(summaries[0].group, "a");
  EXPECT_EQ(summaries[0].rows, 3U);
  EXPECT_NEAR(summaries[0].median, 0.10, 1e-12);
  EXPECT_NEAR(summaries[0].mean, (0.10 + 0.20 + 0.05) / 3, 1e-12);
  EXPECT_NEAR(summaries[0].worst, 0.20, 1e-12);
  EXPECT_GT(summaries[0].p90, 0.10);
  EXPECT_LE(summaries[0].p90, 0.20);
  EXPECT_NEAR(*summaries[0].perfect_scaling_mean, (0.3 + 0.1) / 2, 1e-12);
  EXPECT_NEAR(*summaries[0].fixed_utilisation_mean, 0.5, 1e-12);
  EXPECT_NEAR(summaries[0].inside, 2.0 / 3, 1e-12);  // 1 lies in 0.99..1.21 and in 0.945..1.155
  EXPECT_EQ(summaries[1].group, "b");
  EXPECT_FALSE(summaries[1].perfect_scaling_mean.has_value());
  EXPECT_EQ(summaries[2].group, "a (calibration)");
  EXPECT_EQ(summaries[3].group, "all tests of prediction");
  EXPECT_EQ(summaries[3].rows, 4U);
  EXPECT_NEAR(summaries[3].worst, 0.20, 1e-12);
}

TEST(Validate, BaselinesByHand) {
  // ResNet-18 with 16 samples per GPU in fp32. Perfect scaling keeps the 160 samples/s measured on
  // one GPU: 32 samples take 0.1 s on two GPUs, and 128 on eight.
  const Scenario s = scenario_of(
      "gpus: [1, 2, 8]\nmeasured:\n"
      "- {gpus: 2, step_time: 125 ms}\n"
      "- {gpus: 1, samples_per_second: 160}\n"
      "- {gpus: 8, step_time: 200 ms, peak_allocated: 1 GB}\n");
  const auto rows = validate_scenario(s, {});
  ASSERT_EQ(rows.size(), 4U);  // the last row has a time and a memory
  EXPECT_DOUBLE_EQ(*rows[0].perfect_scaling, 0.1);
  EXPECT_FALSE(rows[1].perfect_scaling.has_value());
  EXPECT_DOUBLE_EQ(*rows[2].perfect_scaling, 0.1);
  EXPECT_DOUBLE_EQ(rows[1].measured, 0.1);
  EXPECT_EQ(rows[3].quantity, "allocated_bytes");
  EXPECT_EQ(rows[3].measured, 1e9);
  EXPECT_FALSE(rows[3].fixed_utilisation.has_value());
  const auto points = expand(s);
  // The FLOP baseline assumes 40 % of the A100's fp32 peak of 19.5 TFLOP/s, or of its TF32 peak if
  // convolutions use it.
  const double flops = points[0].model_flops;
  const double peak = peak_flops(points[0].job.machine.device, math_mode(points[0].precision));
  EXPECT_DOUBLE_EQ(*rows[0].fixed_utilisation, flops / (0.4 * peak));
  for (const auto& row : rows) {
    EXPECT_FALSE(row.calibration);
    EXPECT_GT(row.predicted, 0);
    EXPECT_EQ(row.scenario, "test");
    EXPECT_FALSE(row.group.empty());  // the group is the folder's name, also for a bare file name
  }
}

TEST(Validate, AnchoredRowsAreNoTests) {
  const Scenario s = scenario_of(
      "gpus: [1, 2]\nanchor: [{gpus: 1, step_time: 30 ms}]\nmeasured:\n"
      "- {gpus: 1, step_time: 30 ms}\n- {gpus: 2, step_time: 31 ms}\n");
  const auto rows = validate_scenario(s, {});
  EXPECT_TRUE(rows[0].calibration);
  EXPECT_NEAR(relative_error(rows[0].predicted, rows[0].measured), 0, 1e-6);
  EXPECT_FALSE(rows[1].calibration);
}

// A claim that a job fits is right or wrong, without an error in percent.
TEST(Validate, ClaimsThatAJobFits) {
  const auto rows = validate_scenario(
      scenario_of("measured:\n- {gpus: 1, fits: true}\n- {gpus: 1, fits: false}\n"), {});
  ASSERT_EQ(rows.size(), 2U);
  for (const ValidationRow& row : rows) {
    EXPECT_EQ(row.quantity, "fits");
    EXPECT_EQ(row.predicted, 1);
  }
  EXPECT_EQ(error_of(rows[0]), 0);
  EXPECT_EQ(error_of(rows[1]), 1);
  EXPECT_TRUE(summarise_errors(rows).empty());
}

TEST(Validate, JsonHoldsEveryRow) {
  const std::vector<ValidationRow> rows{made_up("a", 1.1, 1), made_up("b", 1, 2)};
  const auto json = nlohmann::json::parse(validation_json(rows, summarise_errors(rows)));
  EXPECT_EQ(json["schema_version"], 1);
  ASSERT_EQ(json["rows"].size(), 2U);
  EXPECT_DOUBLE_EQ(json["rows"][1]["error"].get<double>(), -0.5);
  EXPECT_EQ(json["summaries"].size(), 3U);
}

TEST(Validate, TablesHaveOneLinePerRow) {
  const std::vector<ValidationRow> rows{made_up("a", 1.1, 1), made_up("b", 1, 2)};
  const auto lines = [](const std::string& text) {
    return std::count(text.begin(), text.end(), '\n');
  };
  EXPECT_EQ(lines(validation_table(rows).csv()), 3);
  EXPECT_EQ(lines(summary_table(summarise_errors(rows)).csv()), 4);
}

}  // namespace
}  // namespace lockstep::validate_test
