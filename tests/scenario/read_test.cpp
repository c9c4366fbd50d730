// Is a scenario read as written, and written so that it reads back?
#include <filesystem>
#include <fstream>

#include "core/data.hpp"
#include "helpers.hpp"
#include "test_folder.hpp"

namespace lockstep::read_test {
namespace {

using testing::HasSubstr;

TEST(ReadScenario, DefaultsAreFilledIn) {
  const Scenario s = scenario_of("");
  EXPECT_EQ(s.gpus, std::vector<int>{1});
  EXPECT_EQ(s.precision, Precision::fp32);
  ASSERT_EQ(s.strategies.size(), 1U);
  EXPECT_EQ(s.strategies[0].label, "ddp");
  EXPECT_EQ(std::get<DdpOptions>(s.strategies[0].options).bucket_bytes, 25.0 * 1024 * 1024);
}

TEST(ReadScenario, LabelsNameStrategies) {
  const Scenario s = scenario_of(
      "strategies:\n- ddp\n- ddp: {bucket_size: 5 MiB}\n  label: small buckets\n- fsdp\n");
  EXPECT_EQ(s.strategies[0].label, "ddp");
  EXPECT_EQ(s.strategies[1].label, "small buckets");
  EXPECT_EQ(s.strategies[2].label, "fsdp");
  EXPECT_EQ(s.strategies[1].where.line, 8);
}

TEST(ReadScenario, WhatRefersToNothingIsRefusedWithItsPlace) {
  struct Case {
    const char* text;
    const char* message;
  };
  for (const auto& [text, message] : std::initializer_list<Case>{
           {"strategies: [ddp, ddp]\n", "two strategies are called 'ddp'"},
           {"measured: [{strategy: dpd, gpus: 1, step_time: 1 s}]\n", "did you mean 'ddp'?"},
           {"strategies: [ddp, fsdp]\nmeasured: [{gpus: 1, step_time: 1 s}]\n",
            "does not say which strategy"},
           {"strategies: [ddp, fsdp]\nanchor: [{gpus: 1, step_time: 1 s}]\n",
            "does not say which strategy"},
           {"gpus: [2, 2]\n", "names a count twice"},
           {"gpus: [2, 4]\nstragglers: {slow_ranks: [{rank: 4, factor: 2}]}\n",
            "there is no rank 4"},
       }) {
    const std::string what = refusal([&, more = text] { scenario_of(more); });
    EXPECT_THAT(what, HasSubstr(message)) << text;
    EXPECT_THAT(what, testing::MatchesRegex("test.yaml:[0-9]+:[0-9]+: .*")) << text;
  }
}

// A mistake's message points to the field that was meant.
TEST(ReadScenario, MistakesSayWhereTheFieldsAreAndWhatIsNotThereYet) {
  const auto wrong = [](const std::string& text) { return refusal([&] { scenario_of(text); }); };
  EXPECT_THAT(wrong("colour: red\n"),
              HasSubstr("more; `lockstep schema scenario --fields` has all"));
  EXPECT_THAT(wrong("lora: {rank: 16}\n"), HasSubstr("lora: LoRA is said by `adapters`"));
  EXPECT_THAT(wrong("fp8: true\n"), HasSubstr("products in fp8 are said by `low_precision`"));
  EXPECT_THAT(wrong("strategies: [{zero: {stage: 3}}]\n"), HasSubstr("stage 3 is `fsdp`"));
  EXPECT_THAT(wrong("strategies: [{zero: {stage: 4}}]\n"), testing::Not(HasSubstr("`fsdp`")));
}

TEST(ReadScenario, ExportReadsBackToTheSameBytes) {
  for (const auto& file : shipped_scenarios()) {
    const Scenario scenario = read_scenario(file);
    const std::string text = write_scenario(scenario);
    EXPECT_EQ(write_scenario(read_scenario_text(text, file)), text) << file;
  }
}

TEST(ReadScenario, ExportKeepsEveryPoint) {
  for (const auto& file : shipped_scenarios()) {
    const Scenario before = read_scenario(file);
    const Scenario after = read_scenario_text(write_scenario(before), file);
    const auto a = expand(before), b = expand(after);
    ASSERT_EQ(a.size(), b.size()) << file;
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].label, b[i].label) << file;
      EXPECT_EQ(before.strategies[a[i].entry].options.index(),
                after.strategies[b[i].entry].options.index())
          << file;
      EXPECT_EQ(a[i].global_batch, b[i].global_batch) << file;
      EXPECT_EQ(a[i].memory_bound_seconds, b[i].memory_bound_seconds) << file;
      EXPECT_EQ(a[i].precision, b[i].precision) << file;
    }
  }
}

TEST(ReadScenario, FilesBesideTheScenarioAreFound) {
  const auto write = [](const std::string& name, const std::string& text) {
    return test_folder().write("own/" + name, text);
  };
  write("my-model.yaml", "base: resnet18\ntitle: mine\n");
  std::filesystem::copy_file(data_folder("platforms/devices") + "/a10.yaml",
                             test_folder().file("own/my-device.yaml"));
  write("my-base.yaml", "base: dgx-a100-80gb\ndevice: ./my-device.yaml\n");
  write("my-platform.yaml", "base: my-base.yaml\ntitle: my machine\ngpus_per_node: 3\n");
  const std::string file =
      write("my-scenario.yaml", scenario_text("model: ./my-model.yaml\nplatform: my-platform.yaml\n"
                                              "gpus: 3\nbatch: {per_gpu: 1}\n"));
  const auto points = expand(read_scenario(file));
  ASSERT_EQ(points.size(), 1U);
  EXPECT_EQ(points[0].job.machine.title, "my machine");
  EXPECT_EQ(points[0].job.machine.gpus_per_node, 3);
  EXPECT_EQ(points[0].job.machine.device.name, "my-device");
}

}  // namespace
}  // namespace lockstep::read_test
