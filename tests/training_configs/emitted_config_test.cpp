// Does a scenario that is written as a config and read back give the same prediction?
#include "training_configs/emitted_config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "core/errors.hpp"
#include "questions/run.hpp"
#include "test_folder.hpp"
#include "training_configs/imported_config.hpp"

namespace lockstep::emitted_config_test {
namespace {

using testing::HasSubstr;

const std::string head =
    "name: round trip\nmodel: llama3-8b\ninput: {sequence: 4096}\nplatform: dgx-h100\n"
    "dataset: {steps: 1000}\ngradient_clipping: 1\nsimulation: {steps: 4}\n";
const std::string adamw = "optimizer: {name: adamw, implementation: fused, weight_decay: 0.1}\n";

struct RoundTrip {
  const char* name;
  std::string scenario;              // the fields below `head`
  std::vector<std::string> formats;  // formats that together hold all fields
};

std::vector<RoundTrip> round_trips() {
  const std::string batch = "batch: {micro: 1, accumulation: 2}\n";
  return {
      {"deepspeed_stage_2",
       batch + adamw +
           "recipe: deepspeed\nprecision: master-bf16\ngpus: 16\nstrategies: [zero: {stage: 2, "
           "bucket_size: 200 MB, overlap: true}]\n",
       {"deepspeed"}},
      {"deepspeed_all_reduce",
       batch + adamw +
           "recipe: deepspeed\nprecision: master-bf16\ngpus: 8\nstrategies: [zero: {stage: 1, "
           "bucket_size: 200 MB, reduction: all-reduce, partition: elements}]\n",
       {"deepspeed"}},
      {"deepspeed_offload",
       batch + adamw +
           "recipe: deepspeed\nprecision: master-bf16\ngpus: 8\nstrategies: [zero: {stage: 2, "
           "offload: {optimizer: host, fraction: 0.5}}]\n",
       {"deepspeed"}},
      {"deepspeed_stage_3",
       batch + adamw +
           "recipe: deepspeed\nprecision: pure-fp16\ngpus: 16\nstrategies: [fsdp: {version: 2}]\n",
       {"deepspeed"}},
      {"deepspeed_stage_3_host",
       batch + adamw +
           "recipe: deepspeed\nprecision: master-bf16\ngpus: 8\nstrategies: [fsdp: {version: 2, "
           "offload: {optimizer: host, parameters: host}}]\n",
       {"deepspeed"}},
      {"deepspeed_stage_0",
       batch + adamw +
           "recipe: deepspeed\nprecision: master-bf16-fp32-gradients\ngpus: 8\nstrategies: [ddp: "
           "{bucket_size: 1 GB, first_bucket_size: 1 GB, overlap: false}]\n",
       {"deepspeed"}},
      {"accelerate_fsdp2",
       batch + adamw +
           "precision: amp-bf16\ngpus: 16\nactivation_checkpointing: true\nstrategies: [fsdp: "
           "{version: 2, wrap: {policy: block}}]\n",
       {"trainer", "accelerate"}},
      {"accelerate_fsdp1",
       batch + adamw +
           "precision: amp-bf16\ngpus: 8\nstrategies: [fsdp: {version: 1, sharding: shard_grad_op, "
           "wrap: {policy: block}, backward_prefetch: post}]\n",
       {"trainer", "accelerate"}},
      {"accelerate_hybrid_tensor",
       batch + adamw +
           "precision: amp-bf16\ngpus: 16\nparallel: {tensor: 2}\nstrategies: [fsdp: {version: 2, "
           "sharding: hybrid_shard, shard_group: 4, wrap: {policy: block}}]\n",
       {"trainer", "accelerate"}},
      {"trainer_ddp",
       batch + adamw +
           "precision: pure-bf16\ngpus: 8\nactivation_checkpointing: true\nstrategies: [ddp]\n",
       {"trainer", "accelerate"}},
      {"torchtitan_fsdp",
       "recipe: torchtitan\nbatch: {micro: 1, accumulation: 2}\ngpus: 64\nparallel: {tensor: "
       "8}\nstrategies: [fsdp: {wrap: {policy: block_and_ends}}]\n",
       {"torchtitan"}},
      {"torchtitan_hybrid",
       "recipe: torchtitan\nbatch: {micro: 2}\ngpus: 16\nrecompute: blocks\nstrategies: [fsdp: "
       "{sharding: hybrid_shard, shard_group: 8, wrap: {policy: block_and_ends}}]\n",
       {"torchtitan"}},
      {"torchtitan_pipeline",
       "recipe: torchtitan\nbatch: {micro: 1, accumulation: 8}\ngpus: 16\nparallel: {pipeline: "
       "{stages: 4, schedule: interleaved, chunks: 2}}\nstrategies: [fsdp: {sharding: "
       "shard_grad_op, wrap: {policy: block_and_ends}}]\n",
       {"torchtitan"}},
      {"torchtitan_ddp",
       "recipe: torchtitan\nmodel: llama3-8b\nbatch: {micro: 1}\ngpus: 4\nstrategies: [ddp]\n",
       {"torchtitan"}},
      {"megatron_zero",
       "recipe: megatron\nbatch: {micro: 1, accumulation: 16}\ngpus: 64\nactivation_checkpointing: "
       "true\nparallel: {tensor: 4, pipeline: {stages: 2, schedule: interleaved, chunks: "
       "2}}\nstrategies: [zero: {stage: 1, overlap: true, gather: with-forward}]\n",
       {"megatron"}},
      {"megatron_ddp",
       "recipe: megatron\nbatch: {micro: 1, accumulation: 4}\ngpus: 8\nactivation_checkpointing: "
       "true\nrecompute: attention\nparallel: {tensor: 8, context: 1}\nstrategies: [ddp: {overlap: "
       "true}]\n",
       {"megatron"}},
  };
}

Prediction predicted(const Scenario& scenario) {
  const ResultRecord record = run_scenario(scenario, {.workers = 1});
  if (record.predictions.size() != 1) throw std::runtime_error("one prediction was expected");
  return record.predictions.front();
}

class RoundTrips : public testing::TestWithParam<RoundTrip> {};

TEST_P(RoundTrips, PredictTheSame) {
  const RoundTrip& trip = GetParam();
  // A second `model:` in the text would be a mistake of the test.
  std::string text = head;
  if (trip.scenario.find("model:") != std::string::npos)
    text.erase(text.find("model: llama3-8b\n"), 17);
  const Scenario scenario = read_scenario_text(text + trip.scenario, "round_trip.yaml");
  const std::vector<Point> points = expand(scenario);
  std::vector<std::string> files;
  for (const std::string& format : trip.formats) {
    const EmittedFile file = emitted_config(format, {&scenario, &points.front(), 0});
    files.push_back(test_folder().write(file.name, file.text));
  }
  ConfigAnswers answers;
  answers.platform = "dgx-h100";
  answers.gpus = scenario.gpus.front();
  answers.sequence = 4096;
  if (trip.formats.front() != "megatron") answers.model = "llama3-8b";
  const ImportedConfig config = imported_config(files, answers);
  const Scenario back =
      read_scenario_text(askable_scenario_text(config) + "simulation: {steps: 4}\n", "back.yaml");
  const Prediction before = predicted(scenario), after = predicted(back);
  EXPECT_EQ(before.step_seconds, after.step_seconds) << scenario_text(config);
  EXPECT_EQ(before.memory.allocated, after.memory.allocated) << scenario_text(config);
  EXPECT_EQ(before.memory.host, after.memory.host);
  EXPECT_EQ(before.global_batch, after.global_batch);
  for (const KeyAccount& account : config.keys)
    EXPECT_NE(account.fate, KeyFate::unknown) << account.key;
}

INSTANTIATE_TEST_SUITE_P(Formats, RoundTrips, testing::ValuesIn(round_trips()),
                         [](const auto& trip) { return trip.param.name; });

std::string emitted(const std::string& format, const std::string& scenario_text,
                    double longest = 0) {
  const Scenario scenario = read_scenario_text(head + scenario_text, "launch.yaml");
  const std::vector<Point> points = expand(scenario);
  return emitted_config(format, {&scenario, &points.front(), longest}).text;
}

const std::string plain =
    "batch: {micro: 1}\nprecision: amp-bf16\ngpus: 16\nstrategies: [fsdp: {version: 2}]\n";

TEST(EmittedConfigs, LimitTheTimeByTheIntervalsEnd) {
  EXPECT_THAT(emitted("sbatch", plain, 5400.5), HasSubstr("#SBATCH --nodes=2\n"));
  EXPECT_THAT(emitted("sbatch", plain, 5400.5), HasSubstr("#SBATCH --time=01:31:00\n"));
  EXPECT_THAT(emitted("sbatch", plain), testing::Not(HasSubstr("--time")));
  EXPECT_THAT(emitted("skypilot", plain), HasSubstr("accelerators: H100:8\n"));
}

TEST(EmittedConfigs, RefuseWhatAFormatCannotSay) {
  const std::string server = "batch: {micro: 1}\ngpus: 8\nstrategies: [parameter_server]\n";
  for (const char* format : {"deepspeed", "accelerate", "torchtitan", "megatron"}) {
    try {
      emitted(format, server);
      FAIL() << format;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr("cannot say parameter_server"));
      EXPECT_THAT(error.what(), HasSubstr("launch.yaml:"));
    }
  }
  const std::string one = "batch: {micro: 1}\nprecision: amp-bf16\ngpus: 8\n";
  const std::string whole = "strategies: [zero: {reduction: all-reduce}]\n";
  const std::string equal = "strategies: [zero: {reduction: all-reduce, partition: elements}]\n";
  const std::string adapters = "strategies: [ddp]\nadapters: {rank: 8}\n";
  const std::vector<std::array<std::string, 3>> unsaid{
      {"deepspeed", whole, "whole tensors"},
      {"accelerate", whole, "whole tensors"},
      {"accelerate", equal, "reduction: all-reduce"},
      {"megatron", equal, "reduction: all-reduce"},
      {"megatron", "strategies: [zero: {stage: 2}]\n", "stage: 2"},
      {"megatron", "strategies: [zero: {offload: {optimizer: host}}]\n", "offload"},
      {"trainer", adapters, "adapters"},
      {"torchtitan", adapters, "adapters"},
      {"megatron", adapters, "adapters"}};
  for (const auto& [format, scenario, what] : unsaid) {
    try {
      emitted(format, one + scenario);
      ADD_FAILURE() << format << " " << scenario;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), testing::AllOf(HasSubstr(" cannot say "), HasSubstr(what)));
    }
  }
  EXPECT_THAT(emitted("deepspeed", one + equal), HasSubstr("\"reduce_scatter\": false"));
  EXPECT_THROW(emitted("torchtitan", plain + "model_parameters: {layers: 5}\n"), ConfigError);
  EXPECT_THROW(emitted("deepspeeed", plain), ConfigError);
}

}  // namespace
}  // namespace lockstep::emitted_config_test
