// Does the JSON that verbs print satisfy the schema that `lockstep schema` prints?
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "process.hpp"
#include "schema/accepts.hpp"
#include "source_dir.hpp"

namespace lockstep::printed_schemas_test {
namespace {

const std::string root = LOCKSTEP_SOURCE_DIR "/";

struct Printed {
  const char* schema;
  std::vector<std::string> words;
};

std::vector<Printed> printed() {
  const std::string small = scenario_text("gpus: [1, 2]\nstrategies: [ddp, fsdp]\n");
  const std::string file = test_folder().write("printed.yaml", small);
  const std::string log = root + "tests/training_logs/data/nanotron_2gpu_2025.log";
  return {
      {"check", {"check", file, "--json"}},
      {"fits", {"fits", file, "--json"}},
      {"fits", {"fits", root + "scenarios/does_not_fit.yaml", "--json"}},
      {"explain", {"explain", file, "--json"}},
      {"explain", {"explain", file, file, "--json"}},
      {"compare", {"compare", file, "--json"}},
      {"schedule", {"cluster", root + "scenarios/cluster/gang_or_elastic.yaml", "--json"}},
      {"imported-config",
       {"import-config", root + "tests/training_configs/data/axolotl/hsdp4x2_tp2.yaml", "--json"}},
      {"log", {"diagnose", log, "--json"}},
      {"log", {"diagnose", log, "--scenario", file, "--gpus", "2", "--strategy", "ddp", "--json"}},
      {"log", {"import-metrics", log, "--json"}},
      {"missing", {"missing", file, "--json"}},
      {"memory", {"export", file, "--memory"}},
  };
}

// Violations of the schema, one per line.
std::string faults(const std::string& schema, const std::string& document) {
  return schema_faults(nlohmann::json::parse(schema), nlohmann::json::parse(document));
}

TEST(PrintedSchemas, AcceptWhatVerbsPrint) {
  for (const Printed& each : printed()) {
    const Outcome schema = lockstep({"schema", each.schema});
    ASSERT_EQ(schema.code, 0) << schema.err;
    const Outcome outcome = lockstep(each.words);
    ASSERT_TRUE(outcome.code == 0 || outcome.code == 3) << each.words[0] << ": " << outcome.err;
    EXPECT_EQ(faults(schema.out, outcome.out), "") << each.words[0];
  }
}

TEST(PrintedSchemas, RefuseOtherDocuments) {
  const std::string schema = lockstep({"schema", "missing"}).out;
  EXPECT_NE(faults(schema, "{\"layers\": []}"), "");
  EXPECT_NE(faults(schema, "{\"layers\": [], \"commands\": [1]}"), "");
  EXPECT_NE(faults(schema, "{\"layers\": [], \"commands\": [], \"more\": 1}"), "");
  EXPECT_EQ(faults(schema, "{\"layers\": [], \"commands\": []}"), "");
}

TEST(PrintedSchemas, HaveTablesOfTheirFields) {
  const Outcome table = lockstep({"schema", "check", "--fields"});
  EXPECT_EQ(table.code, 0);
  EXPECT_THAT(table.out, testing::HasSubstr("| `[].points[].device_bytes` | number |"));
}

}  // namespace
}  // namespace lockstep::printed_schemas_test
