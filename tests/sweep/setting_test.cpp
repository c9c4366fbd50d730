// Does --set have the values that its text says, and is a mistake reported at its place?
#include "sweep/setting.hpp"

#include <gmock/gmock.h>

#include "sweep_files.hpp"

namespace lockstep::setting_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> texts(const std::string& setting) {
  return parse_setting(setting).texts;
}
std::string wrong(const std::string& setting) {
  return refusal([&] { parse_setting(setting); });
}

TEST(Setting, ValuesAreSeparatedByCommas) {
  EXPECT_THAT(texts("gpus=1, 2,4"), ElementsAre("1", "2", "4"));
  EXPECT_THAT(texts("platform=p4d.24xlarge,./my.yaml"), ElementsAre("p4d.24xlarge", "./my.yaml"));
}

TEST(Setting, RangesCountAddAndMultiply) {
  EXPECT_THAT(texts("gpus=1..4"), ElementsAre("1", "2", "3", "4"));
  EXPECT_THAT(texts("gpus=1,2,4..32*2"), ElementsAre("1", "2", "4", "8", "16", "32"));
  EXPECT_THAT(texts("gpus=4..33*2"), ElementsAre("4", "8", "16", "32"));
  EXPECT_THAT(texts("batch.global=64..128+24"), ElementsAre("64", "88", "112"));
  EXPECT_THAT(texts("x=0.1..0.3+0.1"), ElementsAre("0.1", "0.2", "0.3"));
  EXPECT_THAT(texts("x=-1..1"), ElementsAre("-1", "0", "1"));
  EXPECT_THAT(texts("x=7..7"), ElementsAre("7"));
}

TEST(Setting, RangesHaveUnits) {
  EXPECT_THAT(texts("s=1MiB..4MiB*2"), ElementsAre("1MiB", "2MiB", "4MiB"));
  EXPECT_THAT(texts("s=1..3 MiB+1 MiB"), ElementsAre("1 MiB", "2 MiB", "3 MiB"));
  EXPECT_THAT(texts("s=10%..20%+5%"), ElementsAre("10%", "15%", "20%"));
}

TEST(Setting, FlowValuesKeepTheirCommas) {
  const Setting setting = parse_setting("input.image=[3, 224, 224],[3,32,32]");
  EXPECT_THAT(setting.texts, ElementsAre("[3, 224, 224]", "[3,32,32]"));
  EXPECT_EQ(setting.values[0].elements()[1].scalar(), "224");
  EXPECT_THAT(texts("strategies=ddp,{fsdp: {version: 2}, label: two},fsdp"),
              ElementsAre("ddp", "{fsdp: {version: 2}, label: two}", "fsdp"));
}

// For a field that is a list, a list of GPUs or strategies means the same to --set as in a file:
// its elements are the values.
TEST(Setting, AListOfAFieldThatListsIsItsValues) {
  EXPECT_EQ(parse_setting("gpus=[8,16]").texts, parse_setting("gpus=8,16").texts);
  EXPECT_EQ(parse_setting("gpus= [ 1..4 ] ").texts, parse_setting("gpus=1..4").texts);
  EXPECT_EQ(parse_setting("strategies=[ddp, {fsdp: {version: 2}}]").texts,
            parse_setting("strategies=ddp,{fsdp: {version: 2}}").texts);
  EXPECT_EQ(parse_setting("gpus=[8,1x]").values[1].where().column, 9);
  EXPECT_EQ(parse_setting("input.image=[3,32,32]").texts.size(), 1U);
}

TEST(Setting, ListsMayBeLong) {
  std::string list = "gpus=1";
  for (int i = 2; i <= 500; ++i) list += "," + std::to_string(i);
  EXPECT_EQ(texts(list).size(), 500U);
  EXPECT_EQ(texts(list).back(), "500");
}

TEST(Setting, QuotedTextsAreTaken) {
  const Setting setting = parse_setting(R"(name="a, b",'1..3',"say \"x, y\"")");
  ASSERT_EQ(setting.values.size(), 3U);
  EXPECT_EQ(setting.values[0].scalar(), "a, b");
  EXPECT_EQ(setting.values[1].scalar(), "1..3");
  EXPECT_EQ(setting.values[2].scalar(), "say \"x, y\"");
}

TEST(Setting, MistakesAreToldAtTheirPlace) {
  EXPECT_THAT(wrong("gpus"), HasSubstr("--set gpus:1:1: has no '='; write PATH="));
  EXPECT_THAT(wrong("=3"), HasSubstr("--set =3:1:1: a name is missing"));
  EXPECT_THAT(wrong("a..b=3"), HasSubstr(":1:3: a..b: a name is missing"));
  EXPECT_THAT(wrong("a[x]=3"), HasSubstr(":1:2: a[x]: a place in a list is a number"));
  EXPECT_THAT(wrong("a[0]b=3"), HasSubstr(":1:5: a[0]b: a dot is missing"));
  EXPECT_THAT(wrong("gpus=1,,2"), HasSubstr(":1:8: gpus: a value is missing"));
  EXPECT_THAT(wrong("gpus="), HasSubstr(":1:6: gpus: a value is missing"));
  EXPECT_THAT(wrong("gpus=4..1"), HasSubstr(":1:6: gpus: the range is empty"));
  EXPECT_THAT(wrong("gpus=1..x"), HasSubstr("the end of the range is no number: 'x'"));
  EXPECT_THAT(wrong("gpus=1..8*1"), HasSubstr("a factor is more than 1"));
  EXPECT_THAT(wrong("gpus=0..8*2"), HasSubstr("begins above 0"));
  EXPECT_THAT(wrong("gpus=0..8+0"), HasSubstr("a step is more than 0"));
  EXPECT_THAT(wrong("s=1KiB..1MiB*2"), HasSubstr("mixes units: 'KiB' and 'MiB'"));
  EXPECT_THAT(wrong("s=1MiB..8MiB*2MiB"), HasSubstr("a factor has no unit"));
  EXPECT_THAT(wrong("gpus=1..1000000000"), HasSubstr("more than 1000000 values"));
  EXPECT_THAT(wrong("name=\"a"), HasSubstr("a quoted text is not closed"));
  EXPECT_THAT(wrong("x=[1,2"), HasSubstr("--set x=[1,2:1:"));
}

std::string put_into(const std::string& yaml, const std::string& setting) {
  const Setting parsed = parse_setting(setting);
  Node node = put(Node::parse_text(yaml, "file"), parsed, parsed.values.front());
  std::string path;
  for (const PathStep& step : parsed.steps) {
    node = step.index ? node.elements().at(*step.index) : *node.find(step.key);
  }
  return node.scalar();
}

TEST(Setting, IsPutWhereItsPathLeads) {
  EXPECT_EQ(put_into("a: {b: 1, c: 2}", "a.b=7"), "7");
  EXPECT_EQ(put_into("a: {c: 2}", "a.b=7"), "7");
  EXPECT_EQ(put_into("z: 1", "a.b.c=7"), "7");
  EXPECT_EQ(put_into("l: [1, {x: 2}]", "l[1].x=7"), "7");
  EXPECT_EQ(put_into("l: [ddp]", "l[0].ddp.size=7"), "7");
  EXPECT_EQ(put_into("l: [ddp: ]", "l[0].ddp.size=7"), "7");
}

TEST(Setting, APathThatLeadsNowhereIsRefused) {
  EXPECT_THAT(refusal([] { put_into("a: 5", "a.b=7"); }),
              HasSubstr("--set a.b=7:1:3: a.b: 'a' is '5' in the file, which has no 'b'"));
  EXPECT_THAT(refusal([] { put_into("l: [1, 2]", "l[2]=7"); }),
              HasSubstr("--set l[2]=7:1:2: l[2]: there is no [2]: the list has 2 elements"));
  EXPECT_THAT(refusal([] { put_into("l: {a: 1}", "l[0]=7"); }), HasSubstr("is a map in the file"));
}

}  // namespace
}  // namespace lockstep::setting_test
