// Which keys does a pattern of a key table cover, and how are their values translated?
#include "training_configs/key_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::key_table_test {
namespace {

TEST(KeyPatterns, CoverPartsAndRests) {
  EXPECT_TRUE(key_matches("a.b", "a.b"));
  EXPECT_FALSE(key_matches("a.b", "a.bc"));
  EXPECT_FALSE(key_matches("a.b", "a"));
  EXPECT_FALSE(key_matches("a.b", "a.b.c"));
  EXPECT_TRUE(key_matches("a.*", "a.b"));
  EXPECT_TRUE(key_matches("a.**", "a.b.c"));
  EXPECT_TRUE(key_matches("a.**", "a"));
  EXPECT_TRUE(key_matches("lr_*", "lr_scheduler_kwargs.min_lr"));
  EXPECT_TRUE(key_matches("*_rate", "learning_rate"));
  EXPECT_FALSE(key_matches("*_rate", "learning_rate.x"));
  EXPECT_TRUE(key_matches("list.key", "list[].key"));
  EXPECT_TRUE(key_matches("a.*.c", "a.b.c"));
  EXPECT_FALSE(key_matches("a.*.c", "a.b.d"));
}

constexpr const char* table_text = R"(
format: Example
keys:
  micro: micro
  kind: {sets: kind, words: {Old: new, off: "", bad: "!is not modelled", slow: "~is priced as fast"}}
  groups.name: {sets: name, first: true}
without_effect:
  - because: it is printed
    keys: [print*, _**]
refused:
  - because: it is rare
    keys: [rare]
    unless: ["false"]
)";

struct Stated {
  Facts facts;
  std::vector<KeyAccount> accounts;
};

Stated stated(const std::string& config) {
  Stated result;
  state_keys(key_table(table_text, "table"), Node::parse_text(config, "config.yaml"), "",
             result.facts, result.accounts);
  return result;
}

TEST(KeyTables, StateFactsWithTheirPlaces) {
  Stated result = stated("print_every: 5\nmicro: 4\n");
  EXPECT_EQ(result.facts.count("micro"), 4);
  ASSERT_EQ(result.accounts.size(), 2U);
  EXPECT_EQ(result.accounts[0].fate, KeyFate::without_effect);
  EXPECT_EQ(result.accounts[0].meaning, "it is printed");
  EXPECT_EQ(result.accounts[1].fate, KeyFate::mapped);
  EXPECT_EQ(result.accounts[1].where.line, 2);
}

TEST(KeyTables, TranslateWords) {
  EXPECT_EQ(stated("kind: OLD").facts.text("kind"), "new");
  EXPECT_EQ(stated("kind: other").facts.text("kind"), "other");
  EXPECT_FALSE(stated("kind: off").facts.has("kind"));
  EXPECT_EQ(stated("kind: bad").accounts[0].fate, KeyFate::refused);
  EXPECT_EQ(stated("kind: bad").accounts[0].meaning, "is not modelled");
  EXPECT_EQ(stated("kind: slow").accounts[0].fate, KeyFate::approximated);
}

TEST(KeyTables, RefuseButForIdleValues) {
  EXPECT_EQ(stated("rare: true").accounts[0].fate, KeyFate::refused);
  EXPECT_EQ(stated("rare: False").accounts[0].fate, KeyFate::without_effect);
  EXPECT_EQ(stated("rare: ~").accounts[0].fate, KeyFate::without_effect);
}

TEST(KeyTables, AskForWhatAnotherFileDecides) {
  EXPECT_EQ(stated("micro: auto").accounts[0].fate, KeyFate::asked);
  EXPECT_EQ(stated("micro: \"${trainer.micro}\"").accounts[0].fate, KeyFate::asked);
}

TEST(KeyTables, LeaveUnknownKeysUnknown) {
  EXPECT_EQ(stated("surprise: 1").accounts[0].fate, KeyFate::unknown);
  EXPECT_EQ(stated("_note: text").accounts[0].fate, KeyFate::without_effect);
}

TEST(KeyTables, TakeTheFirstOfAListsElements) {
  Stated result = stated("groups: [{name: a}, {name: a}, {name: b}]");
  EXPECT_EQ(result.facts.text("name"), "a");
  EXPECT_EQ(result.accounts[1].fate, KeyFate::mapped);
  EXPECT_EQ(result.accounts[2].fate, KeyFate::approximated);
}

TEST(Facts, RefuseContradictions) {
  Facts facts;
  facts.set("micro", {"4", {"a.yaml", 1, 1}, "micro_batch"});
  EXPECT_NO_THROW(facts.set("micro", {"4.0", {"b.yaml", 2, 1}, "batch"}));
  try {
    facts.set("micro", {"8", {"b.yaml", 2, 1}, "batch"});
    FAIL() << "no contradiction was found";
  } catch (const ConfigError& error) {
    EXPECT_EQ(
        to_string(error.diagnostics()[0]),
        "b.yaml:2:1: batch: '8' contradicts micro_batch, which is '4'; that stands in a.yaml:1");
  }
}

TEST(Facts, ReadNumbersAsConfigsWriteThem) {
  EXPECT_EQ(number_in("5e8"), 5e8);
  EXPECT_EQ(number_in("500_000"), 5e5);
  EXPECT_EQ(number_in("1.5B"), 1.5e9);
  EXPECT_EQ(number_in("16.0"), 16);
  EXPECT_FALSE(number_in("16 GB"));
  EXPECT_FALSE(number_in("nan"));
  EXPECT_FALSE(number_in(""));
  EXPECT_EQ(flag_in("True"), true);
  EXPECT_EQ(flag_in("NO"), false);
  EXPECT_FALSE(flag_in("maybe"));
}

}  // namespace
}  // namespace lockstep::key_table_test
