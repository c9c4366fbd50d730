// Does the JSON schema accept and refuse the same files as the reader?
#include <gtest/gtest.h>

#include <string>

#include "core/describe.hpp"
#include "sample_types.hpp"
#include "schema/accepts.hpp"

namespace lockstep::schema_test {
namespace {

using sample::Sample;

bool editor_accepts(const std::string& yaml) {
  return schema_accepts(json_schema<Sample>("sample"), Node::parse_text(yaml, "f.yaml"));
}

bool reader_accepts(const std::string& yaml) {
  try {
    read_text<Sample>(yaml, "f.yaml");
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

TEST(Schema, AcceptsWhatTheReaderAccepts) {
  Sample full;
  full.memory = {1e9, 1e12};
  full.sizes = {1, 2e9};
  full.words = {"a", "2024"};
  full.memories = {{1, {}}};
  full.spare = {{2, {}}};
  full.tiers = {{"x", {3, {}}}};
  full.kinds = {sample::Plain{}, sample::Noise{0.3}};
  full.entries = {{sample::Noise{0.3}, "x", {}}};
  for (const std::string& yaml :
       {emit_yaml(full), std::string("memory: {size: 1 GB}"),
        std::string("memory: {size: 1 GB}\nkind: plain\nentries: [plain, {plain: , label: x}]"),
        std::string("memory: {size: 1.5GiB}\nkinds: [plain, noise: {sigma: 0.5}]\ngpus: 4"),
        std::string("memory: {size: 1 GB}\nname: 2024\nsamples: 125M\nshare: 5 %\ncount: 1e1"),
        std::string("memory: {size: +1 GB}\nname: \"x\"\ncount: \"3\"\nratio: '5e-1'")}) {
    EXPECT_TRUE(reader_accepts(yaml)) << yaml;
    EXPECT_TRUE(editor_accepts(yaml)) << yaml;
  }
}

TEST(Schema, RefusesWhatTheReaderRefuses) {
  for (const char* field : {"coutn: 3",
                            "count: 0",
                            "count: 101",
                            "count: x",
                            "count: 2.5",
                            "enabled: yes",
                            "colour: blue",
                            "latency: 5",
                            "latency: 5 GB",
                            "latency: -5 us",
                            "count: '3 x'",
                            "spare: {}",
                            "spare: {size: 1 GB, x: 1}",
                            "sizes: [80]",
                            "sizes: [1 B, 1 B, 1 B, 1 B, 1 B]",
                            "gpus: []",
                            "gpus: 0",
                            "kind: loud",
                            "kind: {loud: {}}",
                            "kind: {noise: {}}",
                            "kind: {noise: {sigma: 2}}",
                            "words: {a: b}",
                            "sources: x",
                            "entries: [{label: x}]",
                            "entries: [{plain: {}, noise: {sigma: 1}}]",
                            "ratio: 1.5"}) {
    const std::string yaml = std::string("memory: {size: 1 GB}\n") + field;
    EXPECT_FALSE(reader_accepts(yaml)) << yaml;
    EXPECT_FALSE(editor_accepts(yaml)) << yaml;
  }
  EXPECT_FALSE(editor_accepts("count: 3"));  // memory is required
}

TEST(Schema, DescribesFields) {
  const auto schema = json_schema<Sample>("sample");
  EXPECT_EQ(schema["$schema"], "http://json-schema.org/draft-07/schema#");
  EXPECT_EQ(schema["title"], "sample");
  EXPECT_EQ(schema["required"], nlohmann::ordered_json({"memory"}));
  const auto& latency = schema["properties"]["latency"];
  EXPECT_EQ(latency["default"], "1 us");
  EXPECT_EQ(latency["description"],
            "A time. Written as a time, for example 3.4 us (units: ns, us, ms, s, min, h, d). "
            "Allowed: 0 s to 60 s.");
  EXPECT_EQ(schema["properties"]["gpus"]["default"], nlohmann::ordered_json::array({1}));
  EXPECT_EQ(schema["properties"]["count"]["default"], 3);
  EXPECT_EQ(schema["properties"]["ratio"]["default"], 0.5);
  EXPECT_EQ(schema["properties"]["colour"]["default"], "green");
}

}  // namespace
}  // namespace lockstep::schema_test
