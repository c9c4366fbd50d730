// Does the JSON schema for editors accept the shipped files and refuse misspelt keys?
#include <nlohmann/json.hpp>

#include "core/yaml.hpp"
#include "helpers.hpp"
#include "schema/accepts.hpp"

namespace lockstep::schema_test {
namespace {

bool accepts(const Node& document) {
  static const nlohmann::json schema = nlohmann::json::parse(scenario_schema());
  return schema_accepts(schema, document);
}
bool accepts(const std::string& text) {
  return accepts(Node::parse_text(text, "test.yaml"));
}

TEST(ScenarioSchema, IsDraft07) {
  EXPECT_EQ(nlohmann::json::parse(scenario_schema())["$schema"],
            "http://json-schema.org/draft-07/schema#");
}

TEST(ScenarioSchema, AcceptsEveryShippedScenarioAndItsExport) {
  for (const auto& file : shipped_scenarios()) {
    EXPECT_TRUE(accepts(Node::parse_file(file))) << file;
    EXPECT_TRUE(accepts(write_scenario(read_scenario(file)))) << file;
  }
}

TEST(ScenarioSchema, AgreesWithTheReaderOnListsNumbersAndSigns) {
  for (const char* more :
       {"input: {image: []}\n", "input: {image: [3, 64, 64]}\n", "gpus: \"4\"\n", "gpus: [2e0]\n",
        "batch: {per_gpu: \"32\"}\n", "batch: {per_gpu: 3.2e1}\n"}) {
    EXPECT_TRUE(accepts(scenario_text(more))) << more;
    EXPECT_EQ(refusal([&] { scenario_of(more); }), "") << more;
  }
  for (const char* more :
       {"input: {image: [3, 64]}\n", "input: {image: [3, 64, 64, 64]}\n",
        "strategies: [ddp: {bucket_size: -1 MiB}]\n", "price_per_gpu_hour: -2 USD/h\n",
        "gpus: \"four\"\n", "activation_checkpointing: \"yes\"\n"}) {
    EXPECT_FALSE(accepts(scenario_text(more))) << more;
    EXPECT_NE(refusal([&] { scenario_of(more); }), "") << more;
  }
}

TEST(ScenarioSchema, RefusesMisspeltKeysAtEveryLevel) {
  ASSERT_TRUE(accepts(scenario_text("")));
  for (const char* more :
       {"gpu: 4\n", "Precision: fp32\n", "input: {img: [3, 32, 32]}\n", "batch: {perGpu: 4}\n",
        "dataset: {sample: 5}\n", "optimizer: {nam: sgd}\n", "strategies: [dpp]\n",
        "strategies:\n- ddp: {buckets: 1 MiB}\n", "strategies:\n- ddp: {}\n  lable: x\n",
        "strategies:\n- fsdp: {wrap: {polcy: none}}\n",
        "stragglers: {per_step: {lognormal: {sgma: 2%}}}\n",
        "stragglers: {slow_ranks: [{rnk: 1, factor: 2}]}\n", "simulation: {step: 4}\n",
        "measured: [{gpu: 1, step_time: 1 s}]\n", "anchor: [{gpus: 1, steptime: 1 s}]\n",
        "data_loading: {samples_per_sec: 4}\n"}) {
    EXPECT_FALSE(accepts(scenario_text(more))) << more;
    EXPECT_NE(refusal([&] { scenario_of(more); }), "") << more;
  }
}

}  // namespace
}  // namespace lockstep::schema_test
