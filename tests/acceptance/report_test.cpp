// Does the acceptance report set each real run beside its prediction, name each missing result, and
// judge the bars by the right errors? The results are made up so that every error is a round
// figure.
#include "acceptance/report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace lockstep::acceptance_report_test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr double mebibyte = 1024 * 1024;

struct Figures {
  double step, allocated, reserved;  // seconds, MiB
};

RealRun real(const Figures& figures) {
  RealRun run;
  run.step_seconds = figures.step;
  run.step_interval = {0.9 * figures.step, 1.1 * figures.step};
  run.memory = {figures.allocated * mebibyte, figures.reserved * mebibyte};
  run.losses = {7, 6.5};
  return run;
}

Prediction predicted(const Figures& figures, const ProvenanceShare& from) {
  Prediction p;
  p.median_step_seconds = figures.step;
  p.memory.allocated = figures.allocated * mebibyte;
  p.memory.reserved = figures.reserved * mebibyte;
  p.provenance = from;
  return p;
}

// Results of an interrupted acceptance run, with errors that are easy to see.
Findings partial_findings() {
  AcceptanceOptions options;
  options.models = {"resnet50", "gpt2", "resnet101"};
  options.precisions = {"fp32"};
  Findings findings;
  findings.on_gpu = true;
  findings.plan = chosen_units(options, scope_of(options));
  findings.progress.machine = "NVIDIA H100 80GB HBM3";
  findings.profile.device = "h100-sxm5-80gb";
  findings.profile.settings = {{"layers_device", "cuda:0"}};
  const auto done = [&](const std::string& name) {
    findings.progress.note({name, UnitState::done, 1});
  };
  for (const char* name : {"probes-device", "calibrate-resnet50-fp32"}) done(name);
  const auto trained = [&](const std::string& name, const Figures& figures) {
    done(name);
    findings.real[name] = real(figures);
  };
  const ProvenanceShare measured{0.7, 0.3, 0}, modelled{0, 0, 1};
  trained("step-calibrated-resnet50-fp32-8", {0.010, 1000, 1200});
  trained("step-between-resnet50-fp32-16", {0.020, 2000, 2400});
  trained("step-beyond-resnet50-fp32-48", {0.050, 6000, 7000});
  trained("step-other-resnet101-fp32-16", {0.040, 3000, 3500});
  trained("step-between-gpt2-fp32-16", {0.100, 8000, 9000});  // without a prediction
  trained("ranks-ddp-resnet50-2", {0.2, 1000, 1200});
  auto& made = findings.predicted.made;
  made["step-calibrated-resnet50-fp32-8"] = predicted({0.0102, 1000, 1200}, measured);
  made["step-between-resnet50-fp32-16"] = predicted({0.0202, 2020, 2640}, measured);  // 1, 1, 10 %
  made["step-beyond-resnet50-fp32-48"] = predicted({0.048, 6180, 6440}, modelled);    // -4, 3, -8 %
  made["step-other-resnet101-fp32-16"] = predicted({0.050, 3000, 3500}, modelled);    // 25, 0, 0 %
  findings.progress.note({"step-beyond-gpt2-fp32-48", UnitState::failed, 9});
  findings.logs["step-beyond-gpt2-fp32-48"] = "rank 0 is out of memory: `cuda:0`\n";
  findings.progress.note({"ranks-fsdp-resnet50-2", UnitState::cut, 9});
  return findings;
}

TEST(AcceptanceReport, PutsPredictionsBesideRealRuns) {
  const std::string text = acceptance_report(partial_findings());
  for (const char* part :
       {"# Acceptance on h100-sxm5-80gb\n\nNVIDIA H100 80GB HBM3.\n",
        "- name: layers_device\n    value: \"cuda:0\"\n",
        "| calibrated | resnet50 | fp32 | 8 | 10.00 ms | 10.20 ms | +2.0 % | 1000 MiB | +0.0 % | "
        "1.172 GiB | +0.0 % | 70 % measured, 30 % interpolated |\n| between |",
        "| between | gpt2 | fp32 | 16 | 100.0 ms | - | - | 7.812 GiB | - | 8.789 GiB | - | "
        "no prediction |",
        "| 48 | 50.00 ms | 48.00 ms | -4.0 % |", "| 100 % modelled |\n\n###",
        "| ddp-25MiB | resnet50 | 2 | 200.0 ms | 180.0 ms to 220.0 ms | - | - | - | - | 6.5000 "
        "|"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(AcceptanceReport, BarsAreMediansOfWhatWasNotCalibrated) {
  const std::string text = acceptance_report(partial_findings());
  for (const char* row :
       {"| step | 2.0 % | 1.0 % | 4.0 % | 25.0 % | 4.0 % | 5 % | reached | 3 of 5 |",
        "| allocated | 0.0 % | 1.0 % | 3.0 % | 0.0 % | 1.0 % | 2 % | reached | 3 of 5 |",
        "| reserved | 0.0 % | 10.0 % | 8.0 % | 0.0 % | 8.0 % | 5 % | **missed** | 3 of 5 |"}) {
    EXPECT_THAT(text, HasSubstr(row));
  }
}

// A run without a prediction must be named as such and must not appear among the compared runs.
TEST(AcceptanceReport, SaysWhatIsMissingAndWhy) {
  const std::string text = acceptance_report(partial_findings());
  EXPECT_THAT(text, HasSubstr("## What did not run\n\n"
                              "- Failed: step-beyond-gpt2-fp32-48: `rank 0 is out of memory: "
                              "'cuda:0'`\n"
                              "- Without a prediction: step-between-gpt2-fp32-16\n"
                              "- Not run yet, "));
  EXPECT_THAT(text, HasSubstr("ranks-fsdp-resnet50-2 (cut off), "));
  EXPECT_THAT(text, Not(HasSubstr("Without a prediction: ranks-ddp")));
}

TEST(AcceptanceReport, OfNothing) {
  const std::string text = acceptance_report({});
  EXPECT_THAT(text, HasSubstr("No profile was written."));
  EXPECT_THAT(text, HasSubstr("| not measured | 0 of 0 |"));
}

TEST(AcceptanceReport, HasItsFiguresAsJson) {
  const auto json = nlohmann::json::parse(acceptance_json(partial_findings()));
  EXPECT_EQ(json.at("runs").size(), 6u);
  EXPECT_EQ(json.at("runs")[1].at("unit"), "step-between-resnet50-fp32-16");
  EXPECT_EQ(json.at("runs")[1].at("predicted").at("step_seconds"), 0.0202);
  EXPECT_FALSE(json.at("runs")[2].contains("predicted"));
  EXPECT_NEAR(json.at("bars")[0].at("median_error").get<double>(), 0.04, 1e-12);
  EXPECT_EQ(json.at("bars")[2].at("planned"), 5);
  EXPECT_EQ(json.at("failed"), nlohmann::json{"step-beyond-gpt2-fp32-48"});
  EXPECT_EQ(json.at("without_prediction"), nlohmann::json{"step-between-gpt2-fp32-16"});
}

TEST(AcceptancePlan, EstimatesGrowWithModelBatchAndRanks) {
  AcceptanceOptions options;
  options.precisions = {"fp32"};
  options.models = {"resnet50", "convnext_large"};
  const AcceptanceScope scope = scope_of(options);
  const std::vector<Unit> units = chosen_units(options, scope);
  const std::vector<double> seconds = estimated_seconds(units, scope, true);
  const auto of = [&](const std::string& name) {
    for (std::size_t i = 0; i < units.size(); ++i) {
      if (units[i].name == name) return seconds[i];
    }
    return std::numeric_limits<double>::quiet_NaN();
  };
  EXPECT_GT(of("probes-device"), 60);
  EXPECT_GT(of("calibrate-resnet50-fp32"), 2 * scope.layers_seconds);
  EXPECT_GT(of("step-beyond-resnet50-fp32-48"), of("step-between-resnet50-fp32-16"));
  EXPECT_GT(of("step-between-convnext_large-fp32-16"), of("step-between-resnet50-fp32-16"));
  EXPECT_GT(of("ranks-ddp-resnet50-4"), of("ranks-ddp-resnet50-2"));
}

}  // namespace
}  // namespace lockstep::acceptance_report_test
