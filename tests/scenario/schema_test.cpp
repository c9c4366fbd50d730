// Does the JSON schema that editors use accept what is shipped and refuse misspelt keys?
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

#include "core/yaml.hpp"
#include "helpers.hpp"

namespace lockstep {
namespace {

// What an editor makes of a YAML text before it validates: plain scalars get types.
nlohmann::json as_editors_see(const Node& node) {
  nlohmann::json json;
  switch (node.kind()) {
    case Node::Kind::null:
      break;
    case Node::Kind::sequence:
      json = nlohmann::json::array();
      for (const auto& element : node.elements()) json.push_back(as_editors_see(element));
      break;
    case Node::Kind::map:
      json = nlohmann::json::object();
      for (const auto& [key, value] : node.entries()) json[key] = as_editors_see(value);
      break;
    case Node::Kind::scalar: {
      const std::string& text = node.scalar();
      double number = 0;
      const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
      const bool whole = end.ec == std::errc{} && end.ptr == text.data() + text.size();
      if (!node.quoted() && (text == "true" || text == "false")) {
        json = text == "true";
      } else if (!node.quoted() && whole && number == std::floor(number)) {
        json = static_cast<std::int64_t>(number);
      } else if (!node.quoted() && whole) {
        json = number;
      } else {
        json = text;
      }
    }
  }
  return json;
}

bool accepts(const Node& document) {
  static const nlohmann::json text = nlohmann::json::parse(scenario_schema());
  valijson::Schema schema;
  valijson::SchemaParser(valijson::SchemaParser::kDraft7)
      .populateSchema(valijson::adapters::NlohmannJsonAdapter(text), schema);
  const nlohmann::json target = as_editors_see(document);
  return valijson::Validator().validate(schema, valijson::adapters::NlohmannJsonAdapter(target),
                                        nullptr);
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
}  // namespace lockstep
