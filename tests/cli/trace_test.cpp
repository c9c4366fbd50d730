// Does `run --trace` write the requested trace, leave the answer unchanged, and report mistakes?
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "process.hpp"

namespace lockstep::trace_test {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

std::string scenario() {
  return test_folder().write(
      "traced.yaml", scenario_text("gpus: [2, 4]\nstrategies: [ddp, {fsdp: {version: 2}}]\n"));
}

std::string beside(const std::string& file, const std::string& name) {
  return (std::filesystem::path(file).parent_path() / name).string();
}

std::set<std::string> names_of(const std::string& file, const std::string& kind) {
  std::set<std::string> names;
  const Json document = Json::parse(std::ifstream(file));
  for (const Json& event : document["traceEvents"]) {
    if (event["name"] == kind) names.insert(event["args"]["name"]);
  }
  return names;
}

TEST(RunTrace, IsWrittenBesideTheAnswer) {
  const std::string file = scenario(), trace = beside(file, "trace.json");
  const Outcome plain = lockstep({"run", file});
  const Outcome traced = lockstep({"run", file, "--trace", trace});
  EXPECT_EQ(traced.code, 0);
  EXPECT_EQ(traced.out, plain.out);
  EXPECT_THAT(traced.err, HasSubstr("trace: " + trace));
  // a track for each strategy, on the most GPUs
  EXPECT_THAT(names_of(trace, "process_name"),
              testing::IsSupersetOf({"ddp on 4 GPUs: rank 0", "fsdp on 4 GPUs: rank 0"}));
  std::set<std::string> steps;  // the steps of the first rank
  const Json document = Json::parse(std::ifstream(trace));
  for (const Json& event : document["traceEvents"]) {
    const std::string name = event["name"];
    if (name.starts_with("ProfilerStep#") && event["pid"] == 1) steps.insert(name);
  }
  EXPECT_EQ(steps.size(), 3u);
}

TEST(RunTrace, ShowsWhatWasAskedFor) {
  const std::string file = scenario(), trace = beside(file, "some.json");
  EXPECT_EQ(lockstep({"run", file, "--trace", trace, "--trace-strategy", "fsdp", "--trace-gpus",
                      "2", "--trace-ranks", "1", "--trace-steps", "0"})
                .code,
            0);
  EXPECT_EQ(names_of(trace, "process_name"),
            (std::set<std::string>{"fsdp on 2 GPUs: rank 1", "fsdp on 2 GPUs: links"}));
  int steps = 0;
  const Json document = Json::parse(std::ifstream(trace));
  for (const Json& event : document["traceEvents"]) {
    steps += event["name"] == "ProfilerStep#0";
  }
  EXPECT_EQ(steps, 1);
}

TEST(RunTrace, NamesEveryOptimizer) {
  const std::vector<std::pair<std::string, std::string>> classes{
      {"sgd", "SGD"},         {"adam", "Adam"}, {"adamw", "AdamW"},
      {"rmsprop", "RMSprop"}, {"lion", "Lion"}, {"lamb", "Lamb"}};
  for (const auto& [name, expected] : classes) {
    const std::string file = test_folder().write(
        "optimizer.yaml",
        scenario_text("gpus: 1\nstrategies: [ddp]\noptimizer: {name: " + name + "}\n"));
    const std::string trace = beside(file, name + ".json");
    const Outcome outcome = lockstep({"run", file, "--trace", trace});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const Json document = Json::parse(std::ifstream(trace));
    const Json& events = document["traceEvents"];
    EXPECT_TRUE(std::any_of(events.begin(), events.end(), [&](const Json& event) {
      return event["name"] == "Optimizer.step#" + expected + ".step";
    })) << name;
  }
}

TEST(RunTrace, AFolderHasAFileForEachRank) {
  const std::string file = scenario(), folder = beside(file, "traces/");
  EXPECT_EQ(lockstep({"run", file, "--trace", folder, "--trace-ranks", "0,3"}).code, 0);
  for (const char* name : {"ddp-4/rank-0", "ddp-4/rank-3", "fsdp-4/rank-0", "fsdp-4/rank-3"}) {
    EXPECT_TRUE(std::filesystem::exists(folder + name + ".json.gz")) << name;
  }
}

TEST(RunTrace, ChakraTracesAreReplayed) {
  const std::string file = scenario(), folder = beside(file, "chakra/");
  EXPECT_EQ(lockstep({"run", file, "--trace", folder, "--trace-format", "chakra", "--trace-ranks",
                      "0,3", "--trace-strategy", "ddp"})
                .code,
            0);
  const std::string first = folder + "ddp-4/chakra.0.et", other = folder + "ddp-4/chakra.3.et";
  const Outcome recorded = lockstep({"replay", first, other});
  EXPECT_EQ(recorded.code, 0) << recorded.err;
  EXPECT_THAT(recorded.out,
              testing::MatchesRegex(first + ": step .* ms; computing .*; communication .*\n" +
                                    other + ": step .*\n"));
  const Outcome elsewhere =
      lockstep({"replay", first, "--platform", "p4d.24xlarge", "--gpus", "16"});
  EXPECT_EQ(elsewhere.code, 0) << elsewhere.err;
  EXPECT_NE(elsewhere.out, recorded.out.substr(0, elsewhere.out.size()));
}

// Rank 0 sends over a slow link and is still in its second step when the others end their third, so
// it has no trace of the requested step.
TEST(RunTrace, ARankThatDoesNotComeToTheStepHasNoChakraTrace) {
  const std::string file = test_folder().write(
      "slow_rank.yaml",
      scenario_text("model: mlp\nplatform: h100-pcie-x8\ngpus: [4]\nbatch: {per_gpu: 8}\n"
                    "strategies: [parameter_server: {consistency: async, placement: gpu}]\n"
                    "stragglers: {slow_ranks: [{rank: 0, factor: 1.5}], "
                    "slow_links: [{link: PCIe, node: 0, speed: 0.1}]}\n"));
  const std::string folder = beside(file, "slow_rank/");
  const Outcome outcome = lockstep({"run", file, "--trace", folder, "--trace-format", "chakra"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  std::vector<std::string> written;
  for (int rank = 0; rank < 4; ++rank) {
    const std::string trace = folder + "parameter_server-4/chakra." + std::to_string(rank) + ".et";
    const bool exists = std::filesystem::exists(trace);
    if (exists) written.push_back(trace);
    EXPECT_THAT(outcome.err, HasSubstr(exists ? "trace: " + trace
                                              : "no trace: parameter_server on 4 GPUs: rank " +
                                                    std::to_string(rank) +
                                                    " is slower and does not come to the end of "
                                                    "step 1"));
  }
  EXPECT_GT(written.size(), 0u);
  EXPECT_LT(written.size(), 4u);
  for (const std::string& trace : written) EXPECT_EQ(lockstep({"replay", trace}).code, 0);
}

TEST(Replay, MessagesLastAsRecordedAndItSaysSo) {
  const std::string file = test_folder().write(
      "messages.yaml", scenario_text("gpus: [2]\nstrategies: [parameter_server]\n"));
  const std::string folder = beside(file, "messages/");
  EXPECT_EQ(lockstep({"run", file, "--trace", folder, "--trace-format", "chakra"}).code, 0);
  const std::string trace = folder + "parameter_server-2/chakra.0.et";
  EXPECT_EQ(lockstep({"replay", trace}).err, "");
  const Outcome elsewhere =
      lockstep({"replay", trace, "--platform", "p4d.24xlarge", "--gpus", "2"});
  EXPECT_EQ(elsewhere.err,
            "note: " + trace + ": 2 messages last as recorded, not as on the platform\n");
}

TEST(Replay, SaysWhatIsWrong) {
  const auto refused = [](const std::vector<std::string>& more, const std::string& words) {
    std::vector<std::string> all{"replay"};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = lockstep(all);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr(words));
  };
  const std::string text = test_folder().write("text.et", "hello");
  refused({text}, "text.et: byte ");
  refused({"none.et"}, "none.et: cannot be read");
  refused({text, "--platform", "dgx-a100-80gb"}, "--gpus");
  refused({text, "--gpus", "8"}, "--platform");
  refused({text, "--platform", "dgx-a100-80gb", "--gpus", "2000"},
          "--gpus: 2000 GPUs, but dgx-a100-80gb has at most 1024");
}

TEST(RunTrace, WritesTheSameBytesEveryTime) {
  const std::string file = scenario();
  const auto bytes = [&](const std::string& jobs) {
    const std::string trace = beside(file, "again.json");
    lockstep({"run", file, "--trace", trace, "-j", jobs});
    std::ostringstream text;
    text << std::ifstream(trace).rdbuf();
    return text.str();
  };
  const std::string once = bytes("1");
  EXPECT_NE(once, "");
  EXPECT_EQ(bytes("1"), once);
  EXPECT_EQ(bytes("4"), once);
}

TEST(RunTrace, SaysWhatIsWrong) {
  const std::string file = scenario(), trace = beside(file, "never.json");
  const auto tried = [&](std::vector<std::string> more, int code, const std::string& words) {
    std::vector<std::string> all{"run", file};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = lockstep(all);
    EXPECT_EQ(outcome.code, code) << testing::PrintToString(more);
    EXPECT_THAT(outcome.err, HasSubstr(words));
    EXPECT_EQ(outcome.out, "");
    EXPECT_FALSE(std::filesystem::exists(trace));
  };
  tried({"--trace", trace, "--trace-strategy", "fdsp"}, 2, "did you mean 'fsdp'?");
  tried({"--trace", trace, "--trace-gpus", "3"}, 2, "allowed: 2, 4");
  tried({"--trace", trace, "--trace-ranks", "4"}, 2, "there is no rank 4 of 4 GPUs");
  tried({"--trace", trace, "--trace-steps", "5-3"}, 2, "'5-3' is no step");
  tried({"--trace-ranks", "0"}, 2, "--trace");
  tried({"--trace", trace, "--trace-format", "chakra"}, 2,
        "has a file for each rank: name a folder");
  tried({"--trace", trace, "--trace-format", "chakr"}, 2, "--trace-format");
  tried({"--trace", "/nowhere/trace.json"}, 74, "/nowhere/trace.json: No such file or directory");
  tried({"--trace", "/proc/traces/"}, 74, "/proc/traces");
}

TEST(RunTrace, AFullDiskIsSaid) {
  const Outcome outcome = lockstep({"run", scenario(), "--trace", "/dev/full"});
  EXPECT_EQ(outcome.code, 74);
  EXPECT_THAT(outcome.err, HasSubstr("/dev/full: No space left on device"));
}

}  // namespace
}  // namespace lockstep::trace_test
