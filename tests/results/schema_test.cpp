// Does the published schema of the output accept every record, and nothing else?
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "results/render.hpp"
#include "sample_record.hpp"
#include "schema/accepts.hpp"

namespace lockstep::schema_test {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

TEST(ResultSchema, AcceptsRecordsThatUseEveryField) {
  EXPECT_EQ(schema_faults(Json::parse(result_schema()), Json::parse(render_json(sample_record()))),
            "");
  EXPECT_EQ(schema_faults(Json::parse(training_schema()), Json::parse(render_json(real_record()))),
            "");
}

TEST(ResultSchema, AcceptsTheLossOfATrainingThatDiverged) {
  RealRecord record = real_record();
  record.runs[0].losses.back() = std::nan("");
  EXPECT_EQ(schema_faults(Json::parse(training_schema()), Json::parse(render_json(record))), "");
}

TEST(ResultSchema, RefusesWhatNoRunPrints) {
  const Json schema = Json::parse(result_schema());
  const auto spoilt = [&](const char* pointer, const Json& value) {
    Json document = Json::parse(render_json(sample_record()));
    document[Json::json_pointer(pointer)] = value;
    return schema_faults(schema, document);
  };
  EXPECT_NE(spoilt("/predictions/0/step_seconds", "125 ms"), "");
  EXPECT_NE(spoilt("/predictions/0/gpus", 0), "");
  EXPECT_NE(spoilt("/predictions/0/split_seconds/unheard_of", 1), "");
  EXPECT_NE(spoilt("/predictions/1/staleness/histogram/14", -3), "");
  EXPECT_NE(spoilt("/predictions/0/step_interval_seconds", Json::array({1, 2, 3})), "");
  EXPECT_NE(spoilt("/runs", Json::array()), "");
  Json incomplete = Json::parse(render_json(sample_record()));
  incomplete["predictions"][0].erase("bottleneck");
  EXPECT_NE(schema_faults(schema, incomplete), "");
}

// Every field has a description, for readers of the schema and of the table.
TEST(ResultSchema, SaysWhatEveryFieldMeans) {
  for (const std::string& text : {result_schema(), training_schema()}) {
    EXPECT_THAT(text, testing::Not(HasSubstr("\"description\": \"\"")));
  }
  EXPECT_THAT(result_fields(),
              HasSubstr("| `predictions[].memory.device_bytes` | always | Reserved,"));
  EXPECT_THAT(result_fields(), HasSubstr("| `predictions[].staleness.p99` | always | 99th"));
  EXPECT_THAT(result_fields(), HasSubstr("| `predictions[].dollars` | where known | Price"));
  EXPECT_THAT(training_fields(), HasSubstr("| `runs[].phase_seconds.forward` |"));
}

}  // namespace
}  // namespace lockstep::schema_test
