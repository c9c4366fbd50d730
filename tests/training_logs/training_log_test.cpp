// Are step times and memory of public training logs read as their lines have them (data/README.md)?
#include "training_logs/training_log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/errors.hpp"
#include "test_folder.hpp"
#include "training_logs/diagnosis.hpp"
#include "training_logs/log_text.hpp"

namespace lockstep::training_log_test {
namespace {

constexpr double gib = 1 << 30, mib = 1 << 20;

std::string data(const std::string& name) {
  return std::string(LOCKSTEP_SOURCE_DIR "/tests/training_logs/data/") + name;
}

SteadySteps steps_of(const std::string& name, double tokens = 0, std::int64_t gpus = 0) {
  return steady_steps(training_log(data(name)), tokens, 0, gpus);
}

TEST(LogText, FindsNumbersAfterKeys) {
  EXPECT_EQ(number_after("step:  3  tps: 30,768  tflops: 3.15", "tps"), 30768);
  EXPECT_EQ(number_after("elapsed_ms: 11.5K | x", "elapsed_ms"), 11500);
  EXPECT_EQ(number_after("a=5.5e-3, b", "a"), 5.5e-3);
  EXPECT_EQ(number_after("global_step=120, step=12", "step"), 12);
  EXPECT_FALSE(number_after("step: none", "step"));
  EXPECT_EQ(bytes_after("memory:  9.46GiB(64.99%)", "memory"), 9.46 * gib);
  EXPECT_EQ(bytes_after("max allocated: 12606.5 | x", "max allocated"), 12606.5 * mib);
  EXPECT_EQ(bytes_after("cuda_max_memory_reserved: 547M", "cuda_max_memory_reserved"), 547 * mib);
}

TEST(LogText, ReadsClocksAndDurations) {
  EXPECT_DOUBLE_EQ(*clock_in("[rank0] 1970-01-02 00:00:01,500 - x"), 86401.5);
  EXPECT_DOUBLE_EQ(*clock_in("01/02/1970 01:00:00 [INFO]"), 90000);
  EXPECT_DOUBLE_EQ(*clock_in("2024-03-01 00:00:00") - *clock_in("2024-02-28 00:00:00"), 2 * 86400);
  EXPECT_FALSE(clock_in("no clock at 12:00"));
  EXPECT_DOUBLE_EQ(*duration_in("2:30:48"), 9048);
  EXPECT_DOUBLE_EQ(*duration_in("3 days, 17:51:32"), 3 * 86400 + 64292);
}

TEST(TrainingLogs, OfTorchtitan) {
  const TrainingLog log = training_log(data("torchtitan_debug_2025_07.log"));
  EXPECT_EQ(log.program, "torchtitan");
  EXPECT_TRUE(log.per_gpu);
  ASSERT_EQ(log.entries.size(), 8U);
  EXPECT_EQ(log.entries[0].step, 3);
  EXPECT_EQ(log.entries[0].tokens_per_second, 30768);
  EXPECT_FALSE(log.entries[0].reserved);  // 0.00GiB is not a measurement
  EXPECT_NEAR(steps_of("torchtitan_debug_2025_07.log").median, 0.47, 0.002);
  // 4 GPUs with micro-batches of 5 samples of 8,192 tokens each.
  const SteadySteps words = steps_of("torchtitan_gpt2_wps_2024_08.log", 4 * 5 * 8192.0, 4);
  EXPECT_EQ(words.source, "its rates");
  EXPECT_NEAR(words.median, 0.366, 0.001);
  EXPECT_EQ(words.warm_up, 1);
  EXPECT_NEAR(words.reserved, 81.67 * gib, 1);
}

TEST(TrainingLogs, OfMegatron) {
  const SteadySteps mixtral = steps_of("megatron_mixtral_16h100_2024.log");
  EXPECT_NEAR(mixtral.median, 5.53, 0.01);
  EXPECT_NEAR(mixtral.reserved, 61480 * mib, 1);
  EXPECT_NEAR(mixtral.allocated, 54250.98583984375 * mib, 1);
  EXPECT_EQ(training_log(data("megatron_mixtral_16h100_2024.log")).global_batch, 128);
  const SteadySteps old = steps_of("megatron_gpt2_v100_2020_old_layout.log");
  EXPECT_NEAR(old.median, 1.9939, 1e-9);  // the first line is a mean that includes the warm-up
  EXPECT_EQ(old.warm_up, 5);
}

TEST(TrainingLogs, OfNanotron) {
  const TrainingLog log = training_log(data("nanotron_2gpu_2025.log"));
  EXPECT_EQ(log.gpus, 2);
  EXPECT_EQ(log.global_batch, 64);
  EXPECT_NEAR(steps_of("nanotron_2gpu_2025.log").median, 11.5, 1e-9);
  EXPECT_EQ(training_log(data("nanotron_debug_8gpu_2024.log")).gpus, 8);
}

TEST(TrainingLogs, OfTrainer) {
  const TrainingLog log = training_log(data("trainer_state_metamath_sft.json"));
  EXPECT_NEAR(*log.mean_seconds, 73.5833 / 128, 1e-9);
  EXPECT_NEAR(*log.global_batch, 4, 0.01);
  EXPECT_EQ(steps_of("trainer_state_metamath_sft.json").source, "its summary");
  const std::string console =
      test_folder().write("console.log",
                          "{'loss': 1.2, 'epoch': 0.1}\n{'train_runtime': 73.58, "
                          "'train_samples_per_second': 6.958, 'train_steps_per_second': 1.74}\n");
  EXPECT_NEAR(*training_log(console).mean_seconds, 1 / 1.74, 1e-9);
}

TEST(TrainingLogs, OfDeepSpeed) {
  const std::string file =
      test_folder().write("ds.log",
                          "cmd = deepspeed main.py --lr 1e-4, x\n[2023-04-18 01:46:52,554] "
                          "OVERFLOW! Rank 0 Skipping step.\n"
                          "[2023-04-18 01:46:58,000] epoch=0/micro_step=10/global_step=10, "
                          "RunningAvgSamplesPerSec=170.4, CurrSamplesPerSec=160.0, "
                          "MemAllocated=4.34GB, MaxMemAllocated=22.95GB\n"
                          "[2023-04-18 01:47:06,000] epoch=0/micro_step=20/global_step=20, "
                          "RunningAvgSamplesPerSec=170.4, CurrSamplesPerSec=160.0, "
                          "MemAllocated=4.34GB, MaxMemAllocated=22.95GB\n");
  const TrainingLog log = training_log(file);
  EXPECT_THAT(log.notes, testing::ElementsAre(testing::HasSubstr("1 steps overflowed")));
  EXPECT_NEAR(steady_steps(log, 0, 128, 16).median, 0.8, 1e-9);
  EXPECT_NEAR(steady_steps(log, 0, 0, 0).median, 0.8, 1e-9);  // computed from the clock
  EXPECT_NEAR(steady_steps(log, 0, 0, 0).allocated, 22.95 * gib, 1);
}

TEST(TrainingLogs, OfTables) {
  EXPECT_NEAR(steps_of("tensorboard_export_tps.csv").median, 0.471, 0.001);
  EXPECT_EQ(steps_of("tensorboard_export_tps.csv").source, "its clock");
  EXPECT_NEAR(steps_of("wandb_export_throughput.csv", 4 * 16384.0, 4).median, 0.47, 0.002);
  const SteadySteps many = steps_of("wandb_history_many_columns.csv", 8192, 1);
  EXPECT_NEAR(many.median, 8192 / 7313.0, 0.01);
  EXPECT_NEAR(many.reserved, 9.46 * gib, 1);
  const std::string lines =
      test_folder().write("log.jsonl",
                          "{\"current_steps\": 1, \"elapsed_time\": "
                          "\"0:01:03\"}\n{\"current_steps\": 3, \"elapsed_time\": \"0:02:33\"}\n");
  EXPECT_NEAR(steady_steps(training_log(lines), 0, 0, 0).median, 45, 1e-9);
}

std::string error_of(const std::string& name, const std::string& text) {
  try {
    steady_steps(training_log(test_folder().write(name, text)), 0, 0, 0);
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST(TrainingLogs, WithoutTimesAreRefused) {
  EXPECT_THROW(steps_of("torchtitan_llama3_debug_losses.txt"), ConfigError);
  EXPECT_THAT(error_of("a.csv", "step,loss\n1,2.5\n2,2.4\n"),
              testing::HasSubstr("holds losses alone"));
  EXPECT_THAT(error_of("b.log", "hello\nworld\n"),
              testing::HasSubstr("says nothing of the time of steps"));
  EXPECT_THAT(error_of("c.log", ""), testing::HasSubstr("says nothing"));
  EXPECT_THAT(error_of("d.json", "{\"log_history\": 5}"), testing::HasSubstr("says nothing"));
  EXPECT_THAT(error_of("e.csv", "Step,throughput(tps)\n1,100\n2,100\n"),
              testing::HasSubstr("--scenario"));
  EXPECT_THAT(error_of("f.log", "step: 99999999999999999999 tps: 1e999\nstep: -4 tps: 5\n"),
              testing::HasSubstr("says nothing"));
  EXPECT_THAT(error_of("g.json", "{\"a\": [[[["), testing::HasSubstr("says nothing"));
}

}  // namespace
}  // namespace lockstep::training_log_test
