// Do diagnostics have their format, and does the hint suggest the intended word?
#include "core/errors.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <utility>

namespace lockstep::errors_test {
namespace {

using testing::HasSubstr;
using testing::Not;

Diagnostic diagnostic(Location where, std::string field, std::string message, std::string hint) {
  Diagnostic result;
  result.where = std::move(where);
  result.field = std::move(field);
  result.message = std::move(message);
  result.hint = std::move(hint);
  return result;
}

TEST(Errors, HoldPlaceFieldMessageAndHint) {
  const Diagnostic full = diagnostic({"a.yaml", 3, 7}, "net.latency", "is negative", "write 3 us");
  const Diagnostic bare = diagnostic({}, "x", "is odd", "");
  EXPECT_EQ(to_string(full), "a.yaml:3:7: net.latency: is negative; write 3 us");
  EXPECT_EQ(to_string(diagnostic({"a.yaml", 0, 0}, "", "is empty", "")), "a.yaml: is empty");
  EXPECT_EQ(to_string(bare), "x: is odd");
  EXPECT_STREQ(ConfigError(std::vector{full, bare}).what(),
               "a.yaml:3:7: net.latency: is negative; write 3 us\nx: is odd");
}

TEST(Errors, SuggestOnlyWhatIsClose) {
  EXPECT_EQ(allowed_hint("bandwith", {"latency", "bandwidth"}),
            "allowed: latency, bandwidth; did you mean 'bandwidth'?");
  EXPECT_EQ(allowed_hint("dpd", {"ddp", "fsdp"}), "allowed: ddp, fsdp; did you mean 'ddp'?");
  EXPECT_EQ(allowed_hint("quantum", {"ddp", "fsdp"}), "allowed: ddp, fsdp");
  EXPECT_EQ(allowed_hint("", {"ddp"}), "allowed: ddp");
  // A difference of case counts as one typing error, for any number of letters.
  EXPECT_EQ(allowed_hint("nic", {"NVLink", "NIC"}), "allowed: NVLink, NIC; did you mean 'NIC'?");
  EXPECT_EQ(allowed_hint("NIC", {"NIC"}), "allowed: NIC");
  EXPECT_EQ(allowed_hint("x", {}), "");
}

TEST(Errors, LongListsAreCutToTheNearest) {
  std::vector<std::string> names;
  for (int i = 10; i < 60; ++i) names.push_back("model" + std::to_string(i));
  const std::string hint = allowed_hint("model59x", names);
  EXPECT_THAT(hint, HasSubstr("model59, "));
  EXPECT_THAT(hint, HasSubstr(", and 38 more; did you mean 'model59'?"));
  EXPECT_LT(hint.find("model19"), hint.find("model51"));  // sorted, not by nearness
  EXPECT_EQ(std::count(hint.begin(), hint.end(), ','), 12);
}

TEST(Errors, QuotedTextIsCutBetweenCharacters) {
  EXPECT_EQ(in_quotes("short"), "'short'");
  const std::string two_bytes = "\xc3\xa9";
  std::string text = "x";
  for (int i = 0; i < 50; ++i) text += two_bytes;
  const std::string cut = in_quotes(text);
  EXPECT_EQ(cut.size(), 1 + 59 + 4U);  // 60 bytes would split a character
  EXPECT_THAT(cut, HasSubstr(two_bytes + "...'"));
  EXPECT_THAT(in_quotes("a\x1b[31mb"), Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace lockstep::errors_test
