// Do verbs accept the configs of training programs in place of a scenario?
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "process.hpp"
#include "source_dir.hpp"

namespace lockstep::import_config_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string config(const std::string& name) {
  return std::string(LOCKSTEP_SOURCE_DIR "/tests/training_configs/data/") + name;
}

TEST(ImportConfig, PrintsAScenarioThatRuns) {
  const Outcome printed =
      lockstep({"import-config", config("axolotl/hsdp4x2_tp2.yaml"), "--platform", "dgx-h100"});
  EXPECT_EQ(printed.code, 0) << printed.err;
  EXPECT_THAT(printed.out,
              AllOf(HasSubstr("model: llama3-8b  # base_model"), HasSubstr("gpus: 16")));
  EXPECT_THAT(printed.err, HasSubstr("30 keys: 15 mapped, 15 without effect"));
  const std::string file = test_folder().write("scenario.yaml", printed.out);
  const Outcome from_scenario = lockstep({"check", file, "--json"});
  const Outcome from_config = lockstep(
      {"check", "--from", config("axolotl/hsdp4x2_tp2.yaml"), "--platform", "dgx-h100", "--json"});
  const auto points = [](const Outcome& outcome) {
    return nlohmann::json::parse(outcome.out)[0]["points"];
  };
  EXPECT_EQ(points(from_scenario), points(from_config));
}

TEST(ImportConfig, AccountsForEachKeyInJson) {
  const Outcome outcome =
      lockstep({"import-config", config("deepspeed/gpt2_zero2_accumulation3.json"), "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const auto document = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(document["format"], "DeepSpeed");
  EXPECT_EQ(document["keys"].size(), 15U);
  EXPECT_EQ(document["keys"][0]["key"], "train_micro_batch_size_per_gpu");
  EXPECT_EQ(document["keys"][0]["fate"], "mapped");
  EXPECT_EQ(document["keys"][0]["meaning"], "batch.micro: 8");
  EXPECT_EQ(document["keys"][0]["line"], 2);
}

TEST(ImportConfig, SaysWhatIsAskedForOrRefused) {
  const Outcome asked =
      lockstep({"check", "--from", config("deepspeed/zero3_explicit_buckets.json")});
  EXPECT_EQ(asked.code, 2);
  EXPECT_EQ(asked.out, "");
  EXPECT_THAT(asked.err, AllOf(HasSubstr("model: no file states it; --model"),
                               HasSubstr("platform: no file states it; --platform")));
  const Outcome refused = lockstep({"import-config", config("llamafactory/gptq_lora.yaml")});
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.out, "");
  EXPECT_THAT(refused.err, HasSubstr("gptq_lora.yaml:9:1: lora_rank: a base that GPTQ or AWQ"));
  const Outcome unknown =
      lockstep({"import-config", config("deepspeed/gpt2_stage0.json"), "--format", "depspeed"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean 'deepspeed'?"));
}

TEST(ImportConfig, StandsInForOneScenario) {
  EXPECT_THAT(lockstep({"check"}).err,
              HasSubstr("scenario: is required; a scenario file, or --from CONFIG"));
  const Outcome both = lockstep({"run", "my.yaml", "--from", config("deepspeed/gpt2_stage0.json")});
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.err, HasSubstr("--from: stands in for a scenario file"));
}

TEST(ImportConfig, IsAskedByRunAndRecommend) {
  const std::vector<std::string> from{"--from", config("torchtitan_toml/llama3_8b.toml"),
                                      "--platform", "dgx-h100"};
  std::vector<std::string> words{"run"};
  words.insert(words.end(), from.begin(), from.end());
  const Outcome run = lockstep(words);
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("llama3_8b of torchtitan TOML"));
  words[0] = "recommend";
  words.insert(words.end(), {"--gpus", "8", "--set", "dataset={tokens: 1B}"});
  const Outcome recommended = lockstep(words);
  EXPECT_EQ(recommended.code, 0) << recommended.err;
}

}  // namespace
}  // namespace lockstep::import_config_test
