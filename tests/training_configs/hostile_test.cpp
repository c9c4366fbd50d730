// Do files that are made to break a reader give a located error, and does the reader open no other
// files than the named ones?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "test_folder.hpp"
#include "training_configs/imported_config.hpp"

namespace lockstep::hostile_configs_test {
namespace {

std::string error_of(const std::string& name, const std::string& text) {
  try {
    imported_config({test_folder().write(name, text)}, {});
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST(HostileConfigs, AreRefused) {
  EXPECT_THAT(error_of("a.json", "{\"train_batch_size\": CONFIG_BATCH}"),
              testing::HasSubstr("a.json:1:22: not valid JSON"));
  EXPECT_THAT(error_of("b.json", ""), testing::HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of("c.json", std::string(100'000, '[')), testing::HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of("d.yaml", std::string(100'000, '[')),
              testing::HasSubstr("nested too deeply"));
  EXPECT_THAT(error_of("e.yaml", "- 1\n- 2\n"), testing::HasSubstr("must be a map"));
  EXPECT_THAT(error_of("f.yaml", "a: 1\n"),
              testing::HasSubstr("no training program that Lockstep knows"));
  EXPECT_THAT(error_of("g.toml", "[training\nx = 1\n"),
              testing::HasSubstr("g.toml:1:10: not valid TOML"));
  EXPECT_THAT(error_of("h.yaml", "base_model: &a [*a]\n"),
              testing::HasSubstr("alias inside its own anchor"));
  EXPECT_THAT(
      error_of("i.json", "{\"train_batch_size\": \"many\", \"zero_optimization\": {\"stage\": 1}}"),
      testing::HasSubstr("i.json:1:2: train_batch_size: 'many' is no number"));
  EXPECT_THAT(
      error_of("j.json", "{\"train_batch_size\": 1e300, \"zero_optimization\": {\"stage\": 1}}"),
      testing::HasSubstr("no whole number"));
  EXPECT_THAT(error_of("k.yaml", std::string(5U << 20U, 'x')),
              testing::HasSubstr("larger than 4 MiB"));
}

TEST(HostileConfigs, AliasesDoNotMultiply) {
  std::string bomb = "base_model: x\na0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before;
    for (int k = 0; k < 9; ++k) bomb += ", " + before;
    bomb += "]\n";
  }
  EXPECT_THAT(error_of("bomb.yaml", bomb), testing::HasSubstr("expands to too many values"));
}

TEST(HostileConfigs, InterpolationsInACircleEnd) {
  const std::string text =
      "max_duration: 10ba\nglobal_train_batch_size: ${a}\ndevice_train_microbatch_size: 1\na: "
      "${b}\nb: ${a}\n";
  const ImportedConfig config = imported_config({test_folder().write("circle.yaml", text)}, {});
  EXPECT_FALSE(config.fields.empty());
}

TEST(HostileConfigs, PointToNothingOutsideTheirFolder) {
  test_folder().write(
      "inner/ds.json",
      "{\"train_micro_batch_size_per_gpu\": 3, \"zero_optimization\": {\"stage\": 2}}");
  test_folder().write(
      "outer.json",
      "{\"train_micro_batch_size_per_gpu\": 5, \"zero_optimization\": {\"stage\": 2}}");
  const auto said = [&](const std::string& reference) {
    return error_of("inner/sft.yaml",
                    "model_name_or_path: Qwen/Qwen2.5-7B\nlearning_rate: 1\nmax_length: "
                    "8\nper_device_train_batch_size: 3\n"
                    "deepspeed: " +
                        reference + "\n");
  };
  EXPECT_EQ(said("ds.json"), "");
  EXPECT_EQ(said("./ds.json"), "");
  for (const char* outside : {"../outer.json", "/etc/hostname", "../inner/../outer.json"})
    EXPECT_THAT(said(outside), testing::HasSubstr("is not there")) << outside;
  std::filesystem::create_symlink(test_folder().file("outer.json"),
                                  test_folder().file("inner/link.json"));
  EXPECT_THAT(said("link.json"), testing::HasSubstr("is not there"));
}

TEST(HostileConfigs, FilesThatPointToEachOtherEnd) {
  const std::string text =
      "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: "
      "loop.yaml\nnum_processes: 2\n";
  EXPECT_NE(error_of("loop.yaml", text), "");
}

}  // namespace
}  // namespace lockstep::hostile_configs_test
