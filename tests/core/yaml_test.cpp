// Is a YAML text read into located nodes, and is every hostile or broken text refused with a place?
#include "core/yaml.hpp"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "test_folder.hpp"

namespace lockstep::yaml_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string error_of(const std::string& text) {
  try {
    Node::parse_text(text, "f.yaml");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

std::string error_of_file(const std::string& path) {
  try {
    Node::parse_file(path);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

std::string repeated(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

std::string place(const Location& where) {
  return std::to_string(where.line) + ":" + std::to_string(where.column);
}

TEST(Yaml, NodesKnowTheirPlaceAndPath) {
  const Node root = Node::parse_text("a: 1\nb:\n  - x: 2\n    y: [p, 'q']\n", "f.yaml");
  EXPECT_EQ(place(root.where()), "1:1");
  const Node b = *root.find("b");
  EXPECT_EQ(place(b.where()), "3:3");
  EXPECT_EQ(place(root.key_location("b")), "2:1");
  const Node q = b.elements()[0].find("y")->elements()[1];
  EXPECT_EQ(q.path(), "b[0].y[1]");
  EXPECT_EQ(q.scalar(), "q");
  EXPECT_TRUE(q.quoted());
  EXPECT_EQ(q.where().line, 4);
  EXPECT_EQ(root.entries()[1].first, "b");
  EXPECT_FALSE(root.find("c"));
}

TEST(Yaml, OnlyPlainNullsAreNull) {
  const Node root =
      Node::parse_text("a: ~\nb: null\nc:\nd: '~'\ne: \"null\"\nf: ''\ng: Null\nh: nil\n", "f");
  for (const char* key : {"a", "b", "c", "g"}) {
    EXPECT_EQ(root.find(key)->kind(), Node::Kind::null) << key;
  }
  for (const char* key : {"d", "e", "f", "h"}) {
    EXPECT_EQ(root.find(key)->kind(), Node::Kind::scalar) << key;
  }
}

TEST(Yaml, WhatIsWrittenReadsBackTheSame) {
  const char* text = R"(name: "null"
empty: ~
text: 'it''s: "quoted", # no comment'
folded: >-
  two
  lines
number: 1.5 GB/s
list: [1, two, [3], {a: b}]
strategies:
  - ddp
  - fsdp: {wrap: {policy: block}}
    label: "2 %"
nothing: {}
)";
  const Node node = Node::parse_text(text, "a.yaml");
  const std::string written = document_text(node);
  EXPECT_EQ(written, R"(name: "null"
empty: ~
text: "it's: \"quoted\", # no comment"
folded: "two lines"
number: 1.5 GB/s
list:
  - 1
  - two
  - [3]
  - {a: b}
strategies:
  - ddp
  - {fsdp: {wrap: {policy: block}}, label: "2 %"}
nothing: {}
)");
  EXPECT_EQ(document_text(Node::parse_text(written, "b.yaml")), written);
}

TEST(Yaml, BrokenTextsAreRefusedWithAPlace) {
  const std::vector<std::pair<std::string, const char*>> cases{
      {"", "f.yaml: is empty"},
      {"  \n# only a comment\n", "f.yaml: is empty"},
      {"---\n", "f.yaml: is empty"},
      {"~", "f.yaml: is empty"},
      {"a: 1\n---\nb: 2\n", "f.yaml:3:1: holds a second YAML document"},
      {"a: 1\n...\nb: 2\n", "f.yaml:3:1: holds a second YAML document"},
      {"a: [1,\n", "f.yaml:2:1: not valid YAML: end of sequence flow not found"},
      {"a: 'x\n", "f.yaml:2:1: not valid YAML: a quoted text is not closed"},
      {"a: \"x\nb: 2\n", "not valid YAML: a quoted text is not closed"},
      {"a:\n\tb: 1\n", "line 2 is indented with a tab; use spaces"},
      {"a: b: c\n", "f.yaml:1:5: not valid YAML: illegal map value"},
      {"a: *nope\n", "f.yaml:1:4: not valid YAML: the referenced anchor is not defined"},
      {"a: &x [*x]\n", "f.yaml:1:8: an alias inside its own anchor"},
      {"<<: {a: 1}\n", "f.yaml:1:1: merge keys ('<<') are not supported"},
      {"? [a, b]\n: 1\n", "f.yaml:1:3: a key must be a plain word"},
      {"~: 1\n", "f.yaml:1:1: a key must be a plain word"},
      {"a: @x\n", "f.yaml:1:4: not valid YAML: unknown token"},
      {"}\n", "f.yaml:1:1: not valid YAML: illegal flow end"},
      {std::string("a: 1\0b", 6), "f.yaml:1:5: byte 0x00 does not belong in a YAML text"},
      {"ok: 1\na: \x7f", "f.yaml:2:4: byte 0x7f does not belong"},
      {"a: \xff\xfe\n", "f.yaml:1:4: byte 0xff does not belong"},
      {"a: \xc0\xaf\n", "f.yaml:1:4: byte 0xc0 does not belong"},
      {"a: \xed\xa0\x80\n", "f.yaml:1:4: byte 0xed does not belong"},
      {"a: \xe2\x82", "f.yaml:1:4: byte 0xe2 does not belong"},
      {std::string("\xff\xfe") + std::string("a\0:\0 \0b\0", 8), "byte 0xff does not belong"},
      {"a: \"\\x00\"\n", "f.yaml:1:4: holds a control character"},
      {"a: \"\\e[2J\"\n", "f.yaml:1:4: holds a control character"},
      {"\"a\\x07\": 1\n", "f.yaml:1:1: holds a control character"},
  };
  for (const auto& [text, part] : cases) EXPECT_THAT(error_of(text), HasSubstr(part)) << text;
}

TEST(Yaml, AllDuplicateKeysAtOnce) {
  EXPECT_EQ(error_of("a: 1\na: 2\nb: {c: 1, c: 2}\n"),
            "f.yaml:2:1: the key 'a' stands twice in this map; the first is in line 1\n"
            "f.yaml:3:11: the key 'c' stands twice in this map; the first is in line 3");
}

TEST(Yaml, DeepNestingIsRefusedBeforeItHurts) {
  std::string staircase;
  for (int i = 0; i < 390; ++i) staircase += repeated(" ", i) + "a:\n";
  for (const std::string& text :
       {repeated("[", 200000), repeated("{", 200000), repeated("- ", 200000),
        repeated("? ", 200000), repeated("{a: ", 100000), staircase}) {
    EXPECT_THAT(error_of(text), HasSubstr("nested too deeply")) << text.substr(0, 20);
  }
  // A bracket count that quoted brackets fool must not matter.
  EXPECT_THAT(error_of(repeated("[\"]\", ", 200000)), StartsWith("f.yaml:1:"));
  EXPECT_EQ(error_of("a: " + repeated("[", 60) + repeated("]", 60)), "no error");
}

TEST(Yaml, AliasBombsAreRefused) {
  std::string wide = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]\n";
  for (int i = 1; i < 30; ++i) {
    const std::string alias = "*a" + std::to_string(i - 1);
    wide += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + alias;
    for (int j = 0; j < 8; ++j) wide += ", " + alias;
    wide += "]\n";
  }
  EXPECT_THAT(error_of(wide), HasSubstr("expands to too many values"));
  std::string deep = "a0: &a0 [1]\n";
  for (int i = 1; i < 200; ++i) {
    deep += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) +
            "]\n";
  }
  EXPECT_THAT(error_of(deep), HasSubstr("nested too deeply"));
}

TEST(Yaml, SizeLimits) {
  std::string keys;
  for (int i = 0; i < 2001; ++i) keys += "k" + std::to_string(i) + ": 1\n";
  EXPECT_THAT(error_of(keys), HasSubstr("f.yaml:2001:1: more than 2000 keys in one map"));
  EXPECT_THAT(error_of(std::string(5 << 20, '#')), HasSubstr("larger than 4 MiB"));
  EXPECT_THAT(error_of("[" + repeated("1,", 200000) + "1]"), HasSubstr("too many values"));
}

TEST(Yaml, UnreadableFiles) {
  EXPECT_EQ(error_of_file("/nonexistent/a.yaml"),
            "/nonexistent/a.yaml: cannot be read: No such file or directory");
  EXPECT_THAT(error_of_file(test_folder().path()), HasSubstr("is a folder, not a file"));
  const std::string binary = test_folder().write("program",
                                                 "\x7f"
                                                 "ELF\x02\x01\x01");
  EXPECT_THAT(error_of_file(binary), HasSubstr(":1:1: byte 0x7f"));
}

// Every text gives a tree or a ConfigError, never another exception, crash or hang.
RC_GTEST_PROP(Yaml, AnyTextIsReadOrRefused, ()) {
  static const std::vector<std::string> pieces{
      "a",  "b",  ": ", ":",   "- ",  "-",  "? ", "\n", "\n  ", "\n    ", " ",  "[",
      "]",  "{",  "}",  ",",   "'",   "\"", "#",  "&x", "*x",   "!t ",    "!!", "|",
      ">-", "\t", "\\", "...", "---", "<<", "%Y", "~",  "@",    "\r",     "1",  "\xc3\xa9"};
  const auto chosen = *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(pieces));
  std::string text;
  for (const auto& piece : chosen) text += piece;
  try {
    Node::parse_text(text, "f.yaml");
  } catch (const ConfigError& error) {
    const int lines = static_cast<int>(std::count(text.begin(), text.end(), '\n')) + 1;
    for (const auto& diagnostic : error.diagnostics()) {
      RC_ASSERT(diagnostic.where.line <= lines);
      RC_ASSERT(!diagnostic.message.empty());
    }
  }
}

}  // namespace
}  // namespace lockstep::yaml_test
