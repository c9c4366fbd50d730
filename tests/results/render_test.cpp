// Do the renderings show the record, byte for byte? golden/ has the expected bytes; run the tests
// with LOCKSTEP_WRITE_GOLDEN=1 to write them anew, and read the difference.
#include "results/render.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "results/fields.hpp"
#include "results/staleness.hpp"
#include "sample_record.hpp"

namespace lockstep::render_test {
namespace {

void expect_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(GOLDEN_FOLDER) + "/" + name;
  if (std::getenv("LOCKSTEP_WRITE_GOLDEN") != nullptr) std::ofstream(path) << text;
  std::ostringstream golden;
  golden << std::ifstream(path).rdbuf();
  EXPECT_EQ(text, golden.str());
}

std::string json_without_version(const auto& record) {
  std::string text = render_json(record);
  const std::string version = std::string("\"program_version\": \"") + LOCKSTEP_VERSION + '"';
  return text.replace(text.find(version), version.size(), "\"program_version\": \"V\"");
}

TEST(Render, TextIsAsReviewed) {
  expect_golden("record.txt", render_text(sample_record()));
  expect_golden("real.txt", render_text(real_record()));
}
TEST(Render, JsonIsAsReviewed) {
  expect_golden("record.json", json_without_version(sample_record()));
  expect_golden("real.json", json_without_version(real_record()));
}
TEST(Render, CsvIsAsReviewed) {
  expect_golden("record.csv", render_csv(sample_record()));
  expect_golden("real.csv", render_csv(real_record()));
}

TEST(Render, CsvNamesEachColumnOnce) {
  const std::string csv = render_csv(sample_record());
  std::istringstream header(csv.substr(0, csv.find('\n')));
  std::set<std::string> names;
  for (std::string name; std::getline(header, name, ',');) {
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_GT(names.size(), 50u);
}

// A figure that was not measured is absent in every rendering, not zero and not a prediction.
TEST(Render, RealTrainingClaimsNothingThatWasNotMeasured) {
  const auto run = nlohmann::json::parse(render_json(real_record()))["runs"][0];
  for (const char* simulated :
       {"mfu", "gpu_utilisation", "split_seconds", "traffic", "provenance", "bottleneck", "fits",
        "scaling_efficiency", "total_seconds", "simulated_steps", "dollars", "nodes"}) {
    EXPECT_FALSE(run.contains(simulated)) << simulated;
  }
  EXPECT_FALSE(run["memory"].contains("reserved_bytes"));
  EXPECT_FALSE(nlohmann::json::parse(render_json(real_record())).contains("predictions"));
  const std::string text = render_text(real_record());
  for (const char* word : {"busy", "MFU", "cost", "Costs", "fits", "GPU", "scaling"}) {
    EXPECT_THAT(text, testing::Not(testing::HasSubstr(word)));
  }
}

TEST(Render, JsonNamesItsSchemaVersionFirst) {
  const auto document = nlohmann::ordered_json::parse(render_json(sample_record()));
  EXPECT_EQ(document.begin().key(), "schema_version");
  EXPECT_EQ(document["schema_version"], result_schema_version);
}

TEST(Render, JsonOfRealTrainingReadsBack) {
  RealRecord record = real_record();
  record.runs[0].losses.back() = std::nan("");
  RealRecord back;
  static_cast<RecordHead&>(back) = record;
  back.runs = runs_of_json(render_json(record));
  ASSERT_EQ(back.runs.size(), 2u);
  EXPECT_EQ(render_json(back), render_json(record));
  EXPECT_ANY_THROW(runs_of_json("{}"));
}

TEST(Render, JsonKeepsEveryBitOfANumber) {
  ResultRecord record = sample_record();
  record.predictions[0].step_seconds = 0.1 + 0.2;
  record.predictions[0].memory.device = 1.0 / 3.0;
  const auto document = nlohmann::json::parse(render_json(record));
  EXPECT_EQ(document["predictions"][0]["step_seconds"].get<double>(), 0.1 + 0.2);
  EXPECT_EQ(document["predictions"][0]["memory"]["device_bytes"].get<double>(), 1.0 / 3.0);
}

TEST(Render, JsonOfWhatIsNoNumberOrNoUtf8IsStillJson) {
  ResultRecord record = sample_record();
  record.predictions[0].mfu = std::numeric_limits<double>::quiet_NaN();
  record.scenario = "broken \xff byte";
  const auto document = nlohmann::json::parse(render_json(record));
  EXPECT_TRUE(document["predictions"][0]["mfu"].is_null());
}

// Splits one CSV line by RFC 4180.
std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> list(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      list.back() += line[++i];
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (line[i] == ',' && !quoted) {
      list.emplace_back();
    } else {
      list.back() += line[i];
    }
  }
  return list;
}

TEST(Render, CsvCellsReadBack) {
  std::istringstream lines(render_csv(sample_record()));
  std::string line;
  std::vector<std::vector<std::string>> rows;
  while (std::getline(lines, line)) rows.push_back(cells(line));
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[1].size(), rows[0].size());
  EXPECT_EQ(rows[2].size(), rows[0].size());
  const auto at = [&](std::size_t row, const std::string& column) {
    const auto found = std::find(rows[0].begin(), rows[0].end(), column);
    EXPECT_NE(found, rows[0].end()) << column;
    return rows[row].at(static_cast<std::size_t>(found - rows[0].begin()));
  };
  EXPECT_EQ(at(2, "strategy"), "async, \"two\" servers");
  EXPECT_EQ(at(1, "step_s"), "0.125");
  EXPECT_EQ(at(2, "fits"), "false");
  EXPECT_EQ(at(2, "precision"), "fp32");
  EXPECT_EQ(at(1, "staleness_mean"), "");
  EXPECT_EQ(at(2, "staleness_mean"), "14.5");
}

TEST(Render, WhatCannotRunHasNoPriceAnywhere) {
  const ResultRecord record = sample_record();
  const auto json = nlohmann::json::parse(render_json(record));
  EXPECT_TRUE(json["predictions"][0].contains("dollars"));
  EXPECT_FALSE(json["predictions"][1].contains("dollars"));
  const std::string csv = render_csv(record);
  EXPECT_EQ(csv.substr(csv.size() - 2), ",\n");
  EXPECT_THAT(render_text(record),
              testing::HasSubstr("servers    16  100 .. 156 ms      -      -  1,000,000\n"));
  EXPECT_THAT(render_text(record), testing::HasSubstr("  does not fit; 8 of 16 workers do 100 %"));
}

TEST(Render, OneLineOfOriginsForRowsThatAreAlike) {
  ResultRecord record = sample_record();
  Prediction second = record.predictions[0], third = second;
  second.gpus = 2;
  third.strategy = "fsdp";
  record.predictions = {record.predictions[0], second, third};
  EXPECT_THAT(render_text(record), testing::HasSubstr("\nCosts: 50 % measured, 25 %"));
  record.predictions[2].provenance = {0, 0, 1};
  EXPECT_THAT(render_text(record),
              testing::AllOf(testing::HasSubstr("\nCosts of ddp on 1, 2 GPUs: 50 % measured, "),
                             testing::HasSubstr("\nCosts of fsdp on 1 GPU: 0 % measured, ")));
}

TEST(Render, APrecisionOfItsOwnIsSeen) {
  ResultRecord record = sample_record();
  EXPECT_THAT(render_text(record), testing::ContainsRegex("GPUs  precision +step"));
  record.predictions[1].precision = record.precision;
  EXPECT_THAT(render_text(record), testing::ContainsRegex("GPUs +step"));
}

TEST(Render, MemoryThatIsNearlyFullIsNoPlainYes) {
  ResultRecord record = sample_record();
  Prediction& p = record.predictions[0];
  const auto fits = [&](double capacity, int retries) {
    p.memory.capacity = capacity;
    p.memory.retries = retries;
    return render_text(record);
  };
  EXPECT_THAT(fits(4e9 + 100 * 1024 * 1024.0, 1),
              testing::HasSubstr("yes, barely (100 MiB free, 1 retry)"));
  EXPECT_THAT(fits(4.01e9, 0), testing::HasSubstr("yes, barely (9.54 MiB free)"));
  EXPECT_THAT(fits(4.2e9, 0), testing::Not(testing::HasSubstr("barely")));
}

TEST(WorkerSteps, OnlyStarvingWorkersAreWorthAWarning) {
  EXPECT_EQ(uneven_workers(worker_steps_of({{100, 16}})), "");
  EXPECT_EQ(uneven_workers(worker_steps_of({{50, 1}, {100, 15}})), "");  // one is half as fast
  EXPECT_EQ(uneven_workers(worker_steps_of({{2, 8}, {198, 8}})),
            "8 of 16 workers do 99 % of the steps");
  EXPECT_EQ(uneven_workers(worker_steps_of({})), "");
}

TEST(Render, TextHasNoTrailingBlanksAndNoControlCharacters) {
  const std::string text = render_text(sample_record());
  EXPECT_EQ(text.find(" \n"), std::string::npos);
  for (const char c : text) {
    EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20);
  }
}

TEST(Render, AnEmptyRecordRendersEverywhere) {
  ResultRecord record;
  record.scenario = "nothing";
  EXPECT_THAT(render_text(record), testing::StartsWith("nothing\n"));
  EXPECT_EQ(nlohmann::json::parse(render_json(record))["predictions"].size(), 0U);
  EXPECT_THAT(render_csv(record), testing::StartsWith("scenario,model,"));
}

// A real asynchronous run reports the mean of its steps, other runs the median; the prediction must
// use the same figure.
TEST(RealRun, IsComparedWithTheSameFigureOfThePrediction) {
  Prediction prediction;
  prediction.step_seconds = 2;
  prediction.median_step_seconds = 3;
  EXPECT_EQ(step_beside(prediction), 3);
  prediction.worker_steps.emplace();
  EXPECT_EQ(step_beside(prediction), 2);
}

}  // namespace
}  // namespace lockstep::render_test
