// Does a file's text become its values?
#include <gtest/gtest.h>

#include <fstream>

#include "core/describe.hpp"
#include "sample_types.hpp"
#include "test_folder.hpp"

namespace lockstep::read_test {
namespace {

using sample::Noise;
using sample::Plain;
using sample::Sample;

Sample read_sample(const std::string& text) {
  return read_text<Sample>("memory: {size: 1 GB}\n" + text, "sample.yaml");
}

TEST(Read, FieldsAndDefaults) {
  const auto s = read_sample(R"(
enabled: false
count: 7
samples: 1.2M
latency: 3 us
colour: dark_blue
sizes: [1 KiB, 2 MB]
gpus: 4
words: [a, "b, c", 'd']
memories:
  - size: 1 GB
  - {size: 2 GB, bandwidth: 1 TB/s}
spare: {size: 3 GB}
sources: {peak: data sheet, clock: "[1]"}
tiers:
  l2: {size: 40 MiB}
)");
  EXPECT_FALSE(s.enabled);
  EXPECT_EQ(s.count, 7);
  EXPECT_EQ(s.samples, 1200000);
  EXPECT_EQ(s.latency, 3e-6);
  EXPECT_EQ(s.colour, Colour::dark_blue);
  EXPECT_EQ(s.sizes, (std::vector<double>{1024, 2e6}));
  EXPECT_EQ(s.gpus, std::vector<int>{4});
  EXPECT_EQ(s.words, (std::vector<std::string>{"a", "b, c", "d"}));
  ASSERT_EQ(s.memories.size(), 2U);
  EXPECT_FALSE(s.memories[0].bandwidth);
  EXPECT_EQ(s.memories[1].bandwidth, 1e12);
  EXPECT_EQ(s.spare->size, 3e9);
  EXPECT_EQ(s.sources.at("clock"), "[1]");
  EXPECT_EQ(s.tiers.at("l2").size, 40 * 1048576.0);
  EXPECT_EQ(s.ratio, 0.5);  // not in the text
  EXPECT_EQ(s.name, "unnamed");
}

TEST(Read, VariantsAsBareWordOrMap) {
  const auto s = read_sample(R"(
kind: plain
kinds: [plain, plain: {fast: false}, noise: {sigma: 2%}]
entries:
  - plain
  - plain:
    label: bare, with a label
  - noise: {sigma: 0.5}
    label: loud
)");
  EXPECT_EQ(s.kind, sample::Kind(Plain{}));
  EXPECT_EQ(s.kinds, (std::vector<sample::Kind>{Plain{}, Plain{false}, Noise{0.02}}));
  ASSERT_EQ(s.entries.size(), 3U);
  EXPECT_EQ(s.entries[1].label, "bare, with a label");
  EXPECT_EQ(s.entries[2].kind, sample::Kind(Noise{0.5}));
  EXPECT_EQ(s.entries[2].where.line, 9);
  EXPECT_EQ(s.entries[2].where.column, 5);
}

TEST(Read, LocationsOfFields) {
  const auto s = read_sample("");
  EXPECT_EQ(s.memory_place.line, 1);
  EXPECT_EQ(s.memory_place.column, 9);
  EXPECT_EQ(s.memory_place.file, "sample.yaml");
  EXPECT_EQ(s.absent_place.line, 1);  // an absent field has the place of its map
  EXPECT_EQ(s.absent_place.column, 1);
}

TEST(Read, TextsStayTexts) {
  // YAML 1.1 readers turn these texts into booleans, numbers, dates and nulls.
  for (const char* text : {"no", "on", "y", "true", "0x10", "1e3", "012", "1_000", "12:30:45",
                           "2024-01-01", ".inf", ".nan", "1.0", "~x", "nullable"}) {
    EXPECT_EQ(read_sample(std::string("name: ") + text).name, text);
  }
  EXPECT_EQ(read_sample("name: \"null\"").name, "null");
  EXPECT_EQ(read_sample("name: '~'").name, "~");
  EXPECT_EQ(read_sample("name: ''").name, "");
  EXPECT_EQ(read_sample("name: !!str null").name, "null");
  EXPECT_EQ(read_sample("name: >-\n  two\n  lines").name, "two lines");
}

TEST(Read, NumbersAreDecimal) {
  EXPECT_EQ(read_sample("count: 1e1").count, 10);
  EXPECT_EQ(read_sample("count: 010").count, 10);  // not octal
  EXPECT_EQ(read_sample("count: 10.0").count, 10);
  EXPECT_EQ(read_sample("count: \"10\"").count, 10);
  EXPECT_EQ(read_sample("samples: 9007199254740992").samples, 9007199254740992);
  EXPECT_EQ(read_sample("share: 5%").share, 0.05);
}

TEST(Read, NullMeansAbsentWhereAValueIsOptional) {
  EXPECT_FALSE(read_sample("spare: ~").spare);
  EXPECT_FALSE(read_sample("spare:").spare);
}

TEST(Read, AliasesRepeatValues) {
  const auto s = read_sample("memories: [&m {size: 5 GB}, *m]\nspare: *m");
  EXPECT_EQ(s.memories[1].size, 5e9);
  EXPECT_EQ(s.spare->size, 5e9);
}

TEST(Read, FilesToo) {
  const std::string path = test_folder().write(
      // a byte order mark and CR LF, as Windows writes
      "sample.yaml", "\xEF\xBB\xBFmemory: {size: 1 GB}\r\ncount: 9\r\n");
  EXPECT_EQ(read_file<Sample>(path).count, 9);
}

struct Raw {
  Node body;
};
template <class Visitor>
void describe(Visitor& v, Raw& r) {
  v.field("body", r.body, "Anything.");
}

TEST(Read, RawNodesAreKept) {
  const auto raw = read_text<Raw>("body:\n  - 1\n  - {a: b}\n", "raw.yaml");
  ASSERT_EQ(raw.body.elements().size(), 2U);
  EXPECT_EQ(raw.body.elements()[1].find("a")->path(), "body[1].a");
}

}  // namespace
}  // namespace lockstep::read_test
