// Is every mistake in a file reported, at its place, in words that help?
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "core/describe.hpp"
#include "sample_types.hpp"

namespace lockstep::read_errors_test {
namespace {

using sample::Sample;
using testing::HasSubstr;

std::string errors_of(const std::string& text) {
  try {
    read_text<Sample>(text, "f.yaml");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

struct Case {
  const char* text;                // the lines after the required `memory: {size: 1 GB}` of line 1
  std::vector<const char*> parts;  // each part must be in the message
};

TEST(ReadErrors, Table) {
  const std::vector<Case> cases{
      // unknown keys
      {"coutn: 3", {"f.yaml:2:1: coutn: unknown key; allowed: ", "did you mean 'count'?"}},
      {"spare: {size: 1 GB, bandwith: 1 GB/s}",
       {"f.yaml:2:21: spare.bandwith: unknown key; allowed: size, bandwidth; did you mean "
        "'bandwidth'?"}},
      {"memories:\n  - size: 1 GB\n    speed: 2\n",
       {"f.yaml:4:5: memories[0].speed: unknown key; allowed: size, bandwidth"}},
      {"1: 2", {"f.yaml:2:1: 1: unknown key"}},
      // missing
      {"spare: {}", {"f.yaml:2:8: spare.size: missing; required: Capacity"}},
      {"tiers: {l1: {}}", {"f.yaml:2:13: tiers.l1.size: missing"}},
      {"kind: noise", {"f.yaml:2:7: kind.sigma: missing"}},
      {"kind: {noise: }", {"kind.noise.sigma: missing"}},
      {"entries: [noise]", {"f.yaml:2:11: entries[0].sigma: missing"}},
      // keys without a value
      {"count:", {"f.yaml:2:1: count: has no value"}},
      {"count: ~", {"f.yaml:2:1: count: has no value"}},
      {"name: null", {"f.yaml:2:1: name: has no value"}},
      {"sources: {peak: }", {"sources.peak: must be a text, not nothing"}},
      // wrong kinds of values
      {"count: [1]", {"f.yaml:2:8: count: must be a whole number, not a list"}},
      {"count: {a: 1}", {"count: must be a whole number, not a map"}},
      {"name: [a]", {"name: must be a text, not a list"}},
      {"latency: {a: 1}", {"latency: must be a time, for example 3.4 us"}},
      {"enabled: [true]", {"enabled: must be true or false, not a list"}},
      {"colour: [red]", {"colour: must be one of red, green, dark_blue, not a list"}},
      {"spare: big", {"f.yaml:2:8: spare: must be a map, not 'big'; keys: size, bandwidth"}},
      {"spare: [1]", {"spare: must be a map, not a list"}},
      {"sizes: 1 GB", {"sizes: must be a list, not '1 GB'"}},
      {"words: {a: b}", {"words: must be a list, not a map"}},
      {"sources: x", {"sources: must be a map, not 'x'"}},
      // wrong values
      {"enabled: yes", {"f.yaml:2:10: enabled: 'yes' is neither true nor false"}},
      {"enabled: True", {"allowed: true, false"}},
      {"enabled: 1", {"'1' is neither true nor false"}},
      {"colour: gren", {"colour: unknown value 'gren'; allowed: ", "did you mean 'green'?"}},
      {"count: 2.5", {"count: '2.5' is not a whole number"}},
      {"count: 3000000000", {"count: '3000000000' is out of range"}},
      {"count: 0", {"f.yaml:2:8: count: '0' is out of range; allowed: 1 to 100"}},
      {"count: 101", {"'101' is out of range; allowed: 1 to 100"}},
      {"count: 1k", {"unknown unit 'k' in '1k'; a plain number is expected"}},
      {"count: 0x10", {"unknown unit 'x10'"}},
      {"count: three", {"'three' is not a number"}},
      {"samples: 1e19", {"'1e19' is not a whole number"}},
      {"samples: -5", {"'-5' is out of range; allowed: at least 0"}},
      {"ratio: 1.5", {"'1.5' is out of range; allowed: at most 1"}},
      {"ratio: .nan", {"'.nan' is not a number"}},
      {"ratio: .inf", {"'.inf' is not a number"}},
      {"ratio: 1e999", {"too large or too small"}},
      {"latency: 5", {"f.yaml:2:10: latency: '5' needs a unit, for example 3.4 us"}},
      {"latency: 5 GB", {"latency: unknown unit 'GB' in '5 GB'; allowed units: ns, us"}},
      {"latency: -1 us", {"'-1 us' is out of range; allowed: 0 s to 60 s"}},
      {"latency: 2 h", {"'2 h' is out of range; allowed: 0 s to 60 s"}},
      {"share: 101%", {"'101%' is out of range; allowed: 0 to 1"}},
      {"sizes: [1 GB, 80]", {"f.yaml:2:15: sizes[1]: '80' needs a unit, for example 80 GiB"}},
      {"sizes: [1 B, 1 B, 1 B, 1 B, 1 B]", {"sizes: has 5 elements; allowed: 0 to 4"}},
      {"gpus: []", {"gpus: has 0 elements; at least 1 needed"}},
      {"gpus: 0", {"f.yaml:2:7: gpus: '0' is out of range; allowed: at least 1"}},
      // variants
      {"kind: nois",
       {"f.yaml:2:7: kind: unknown name 'nois'; allowed: plain, noise; did you mean"}},
      {"kind: {nois: {}}", {"kind: unknown name 'nois'"}},
      {"kind: {plain: {}, noise: {sigma: 1}}", {"kind: must be one of plain, noise"}},
      {"kind: [plain]", {"kind: must be one of plain, noise"}},
      {"kind: {noise: {sigma: 2}}", {"kind.noise.sigma: '2' is out of range; allowed: 0 to 1"}},
      {"kind: {plain: {fats: true}}", {"kind.plain.fats: unknown key", "did you mean 'fast'?"}},
      {"kind: {plain: true}", {"kind.plain: must be a map, not 'true'; keys: fast"}},
      {"kinds: [~]", {"kinds[0]: must be one of plain, noise"}},
      {"entries: [{label: x}]", {"f.yaml:2:11: entries[0]: needs one of: plain, noise"}},
      {"entries: [{plain: {}, noise: {sigma: 1}}]",
       {"f.yaml:2:23: entries[0].noise: 'plain' and 'noise' exclude each other"}},
      {"entries: [{plan: {}}]", {"entries[0].plan: unknown key", "did you mean 'plain'?"}},
      {"entries: [plane]", {"f.yaml:2:11: entries[0]: unknown name 'plane'"}},
      // fields that contradict each other
      {"spare: {size: 1 TB, bandwidth: 1 kB/s}",
       {"f.yaml:2:32: spare.bandwidth: is too low for the size; raise it"}},
  };
  for (const auto& test : cases) {
    const std::string message = errors_of(std::string("memory: {size: 1 GB}\n") + test.text);
    for (const char* part : test.parts) EXPECT_THAT(message, HasSubstr(part)) << test.text;
    EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), test.parts.empty() ? 1 : 0)
        << "more than the one mistake is reported for " << test.text << ":\n"
        << message;
  }
}

TEST(ReadErrors, AllOfAFileAtOnceInTheOrderOfTheText) {
  EXPECT_THAT(errors_of("coumt: 1\ncount: 0\nmemory:\n  bandwidth: 5\nlatency: fast\nspare: 1\n"
                        "words: 2\n"),
              testing::MatchesRegex("f.yaml:1:1: coumt: unknown key; allowed: [^\n]*; did you mean "
                                    "'count'[?]\nf.yaml:2:8: count: .*"));
  EXPECT_EQ(
      errors_of("memory:\n  bandwith: 5\n  bandwidth: fast\nlatency: 5 GB\ncount: 0\n"),
      "f.yaml:2:3: memory.size: missing; required: Capacity | usable.\n"
      "f.yaml:2:3: memory.bandwith: unknown key; allowed: size, bandwidth; did you mean "
      "'bandwidth'?\n"
      "f.yaml:3:14: memory.bandwidth: 'fast' is not a data rate, write for example 2039 GB/s\n"
      "f.yaml:4:10: latency: unknown unit 'GB' in '5 GB'; allowed units: ns, us, ms, s, min, "
      "h, d\n"
      "f.yaml:5:8: count: '0' is out of range; allowed: 1 to 100");
}

TEST(ReadErrors, ChecksRunWhereTheirOwnFieldsAreRight) {
  // The mistake in `count` does not hide the one in `memory`; a wrong size hides the check on it.
  const std::string both = errors_of("count: 0\nmemory: {size: 1 TB, bandwidth: 1 kB/s}");
  EXPECT_THAT(both, HasSubstr("count: '0' is out of range"));
  EXPECT_THAT(both, HasSubstr("memory.bandwidth: is too low"));
  EXPECT_EQ(errors_of("memory: {size: 1, bandwidth: 1 kB/s}").find("too low"), std::string::npos);
}

TEST(ReadErrors, TheWholeDocument) {
  EXPECT_THAT(errors_of("{}"), HasSubstr("f.yaml:1:1: memory: missing"));
  EXPECT_THAT(errors_of("just a text"), HasSubstr("f.yaml:1:1: must be a map, not 'just a text'"));
  EXPECT_THAT(errors_of("- 1\n- 2"), HasSubstr("f.yaml:1:1: must be a map, not a list"));
}

}  // namespace
}  // namespace lockstep::read_errors_test
