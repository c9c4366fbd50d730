// Does the expanded export read back to an equal value, for any value?
#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>

#include "core/describe.hpp"
#include "sample_types.hpp"

namespace lockstep::export_test {
namespace {

using sample::Entry;
using sample::Kind;
using sample::Memory;
using sample::Noise;
using sample::Plain;
using sample::Sample;

TEST(Export, ReadsLikeAHandWrittenFile) {
  Sample s;
  s.memory.size = 80 * 1073741824.0;
  s.memories = {{1e9, 2e12}};
  s.kinds = {Plain{}, Noise{0.02}};
  s.entries = {{Noise{0.1}, "loud", {}}};
  s.sources = {{"peak", "data sheet: page 3"}};
  EXPECT_EQ(emit_yaml(s), R"(enabled: true
count: 3
samples: 50000
ratio: 0.5
share: 2%
latency: 1 us
name: unnamed
colour: green
memory:
  size: 80 GiB
sizes: []
gpus: [1]
words: []
memories:
  - size: 1 GB
    bandwidth: 2 TB/s
sources:
  peak: "data sheet: page 3"
tiers: {}
kind:
  plain:
    fast: true
kinds:
  - plain:
      fast: true
  - noise:
      sigma: 2%
entries:
  - noise:
      sigma: 0.1
    label: loud
)");
}

double any_number(double low, double high) {
  const auto value = std::bit_cast<double>(
      *rc::gen::resize(rc::kNominalSize, rc::gen::arbitrary<std::uint64_t>()));
  return std::isfinite(value) && value >= low && value <= high
             ? value
             : low + (high - low) * (*rc::gen::inRange(0, 1 << 30) / double(1 << 30));
}

std::string any_text() {
  static const std::vector<std::string> pieces{"a",    "Z",        "0",
                                               " ",    "  ",       ":",
                                               ": ",   "#",        " #",
                                               "-",    "- ",       "?",
                                               ",",    "[",        "]",
                                               "{",    "}",        "'",
                                               "\"",   "\\",       "\n",
                                               "\t",   "&",        "*",
                                               "!",    "|",        ">",
                                               "%",    "@",        "`",
                                               "~",    ".",        "/",
                                               "=",    "<<",       "null",
                                               "true", "\xc3\xa9", "\xe2\x80\xa8",
                                               "...",  "---"};
  std::string text;
  for (const auto& piece :
       *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(pieces))) {
    text += piece;
  }
  return text;
}

Memory any_memory() {
  Memory m;
  m.size = any_number(1, 1e15);
  if (*rc::gen::arbitrary<bool>()) m.bandwidth = any_number(1e9, 1e300);
  return m;
}

Kind any_kind() {
  if (*rc::gen::arbitrary<bool>()) return Plain{*rc::gen::arbitrary<bool>()};
  return Noise{any_number(0, 1)};
}

RC_GTEST_PROP(Export, ReadsBackToAnEqualValue, ()) {
  Sample s;
  s.enabled = *rc::gen::arbitrary<bool>();
  s.count = *rc::gen::inRange(1, 101);
  s.samples = *rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 53);
  s.ratio = any_number(-1e308, 1);
  s.share = any_number(0, 1);
  s.latency = any_number(0, 60);
  s.name = any_text();
  s.colour = static_cast<Colour>(*rc::gen::inRange(0, 3));
  s.memory = any_memory();
  s.gpus = {*rc::gen::inRange(1, 5000), 2};
  for (int i = *rc::gen::inRange(0, 4); i > 0; --i) {
    s.sizes.push_back(any_number(0, 1e300));
    s.words.push_back(any_text());
    s.memories.push_back(any_memory());
    s.sources[any_text()] = any_text();
    s.tiers[any_text()] = any_memory();
    s.kinds.push_back(any_kind());
    s.entries.push_back({any_kind(), any_text(), {}});
  }
  s.kind = any_kind();
  if (*rc::gen::arbitrary<bool>()) s.spare = any_memory();
  const std::string text = emit_yaml(s);
  RC_LOG() << text;
  RC_ASSERT(read_text<Sample>(text, "export.yaml") == s);
  RC_ASSERT(emit_yaml(read_text<Sample>(text, "export.yaml")) == text);
}

TEST(Export, DocsTableHasEveryFieldOnce) {
  const std::string table = markdown_fields<Sample>();
  EXPECT_THAT(table, testing::HasSubstr("| `count` | whole number | 3 | 1 to 100 | How many. |"));
  EXPECT_THAT(table, testing::HasSubstr("| `memory.size` | bytes"));
  EXPECT_THAT(table, testing::HasSubstr("| required | 1 B to 1000 TB | Capacity \\| usable. |"));
  EXPECT_THAT(table, testing::HasSubstr("| `entries[].noise.sigma` |"));
  EXPECT_THAT(table, testing::HasSubstr("| `tiers.*.bandwidth` |"));
}

}  // namespace
}  // namespace lockstep::export_test
