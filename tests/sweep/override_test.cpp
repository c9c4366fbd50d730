// Does a setting change its field of a scenario, and nothing else?
#include "sweep/override.hpp"

#include <gmock/gmock.h>

#include "sweep_files.hpp"

namespace lockstep::override_test {
namespace {

using testing::HasSubstr;

const char* const text =
    "name: n\nbatch: {per_gpu: 8}\nmeasured: [{gpus: 1}]\n"
    "strategies: [ddp, fsdp: {version: 2}, ddp: {label: b}]\n";

Node changed(const std::vector<std::string>& settings) {
  return with_settings(Node::parse_text(text, "f.yaml"), settings);
}

TEST(Override, ReplacesAFieldAndDropsWhatWasMeasuredBefore) {
  const Node root = changed({"batch.per_gpu=16", "gpus=1,2"});
  EXPECT_EQ(root.find("batch")->find("per_gpu")->scalar(), "16");
  ASSERT_EQ(root.find("gpus")->elements().size(), 2U);
  EXPECT_EQ(root.find("gpus")->elements()[1].scalar(), "2");
  EXPECT_EQ(root.find("name")->scalar(), "n");
  EXPECT_FALSE(root.find("measured"));
}

// A single strategy may stand with and without brackets.
TEST(Override, OneStrategyIsAListOfOne) {
  const Node scenario = Node::parse_text("strategies: [ddp, fsdp]\n", "s.yaml");
  for (const char* setting :
       {"strategies=zero", "strategies=[zero]", "strategies=[ {zero: {}} ]"}) {
    const Node list = *with_settings(scenario, {setting}).find("strategies");
    ASSERT_EQ(list.kind(), Node::Kind::sequence) << setting;
    EXPECT_EQ(list.elements().size(), 1U) << setting;
  }
  EXPECT_TRUE(with_settings(scenario, {"strategies=[]"}).find("strategies")->elements().empty());
}

TEST(Override, WithoutSettingsTheScenarioIsAsItWas) {
  EXPECT_TRUE(changed({}).find("measured"));
}

TEST(Override, ReachesEveryEntryOfAStrategyOrOne) {
  const auto entries = changed({"strategies.ddp.bucket_size=1MiB", "strategies[1].label=x"})
                           .find("strategies")
                           ->elements();
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_EQ(entries[0].find("ddp")->find("bucket_size")->scalar(), "1MiB");
  EXPECT_EQ(entries[1].find("label")->scalar(), "x");
  EXPECT_EQ(entries[1].find("fsdp")->find("version")->scalar(), "2");
  EXPECT_EQ(entries[2].find("ddp")->find("bucket_size")->scalar(), "1MiB");
  EXPECT_EQ(entries[2].find("ddp")->find("label")->scalar(), "b");
}

TEST(Override, MistakesAreToldInTheSetting) {
  const auto wrong = [](const std::string& setting) {
    return refusal([&] { changed({setting}); });
  };
  EXPECT_THAT(wrong("strategies.fsd.version=1"), HasSubstr("no strategy is 'fsd'"));
  EXPECT_THAT(wrong("strategies[3].label=a"), HasSubstr("[0] to [2]"));
  EXPECT_THAT(wrong("strategies.ddp.label=a,b"), HasSubstr("takes one value; `lockstep sweep`"));
  EXPECT_THAT(wrong("name.x=1"), HasSubstr("--set name.x=1:1:6: name.x: "));
}

}  // namespace
}  // namespace lockstep::override_test
