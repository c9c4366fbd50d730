// Does a device file become the right device, and does a wrong one say where it is wrong?
#include "hardware/device.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/errors.hpp"
#include "test_folder.hpp"

namespace lockstep::device_test {
namespace {

std::string message_of(const std::string& name_or_path) {
  try {
    load_device(name_or_path);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Device, A100HasItsDataSheetFigures) {
  const Device device = load_device("a100-sxm4-80gb");
  EXPECT_EQ(device.multiprocessors, 108);
  EXPECT_EQ(device.compute_capability, 80);
  EXPECT_DOUBLE_EQ(device.fp32_flops, 19.5e12);
  EXPECT_DOUBLE_EQ(device.memory_bandwidth, 2039e9);
  EXPECT_DOUBLE_EQ(device.matmul_workspace_bytes, 2 * 4096 * 1024 + 8 * 16 * 1024);  // fact 124
}

TEST(Device, PeakFollowsTheMathMode) {
  const Device a100 = load_device("a100-sxm4-80gb");
  EXPECT_DOUBLE_EQ(peak_flops(a100, MathMode::tf32), 156e12);
  EXPECT_DOUBLE_EQ(peak_flops(a100, MathMode::bf16), 312e12);
  // No TF32 or BF16 units before Ampere: the vector units do it.
  const Device v100 = load_device("v100-sxm2-16gb");
  EXPECT_DOUBLE_EQ(peak_flops(v100, MathMode::tf32), 15.7e12);
  EXPECT_DOUBLE_EQ(peak_flops(v100, MathMode::bf16), 15.7e12);
  EXPECT_DOUBLE_EQ(peak_flops(v100, MathMode::fp16), 125e12);
}

TEST(Device, UnknownNameSuggestsTheNearest) {
  const std::string message = message_of("a100-sxm4-80g");
  EXPECT_NE(message.find("unknown device 'a100-sxm4-80g'"), std::string::npos) << message;
  EXPECT_NE(message.find("did you mean 'a100-sxm4-80gb'"), std::string::npos) << message;
}

TEST(Device, MistakesAreLocatedAllAtOnce) {
  const std::string path = test_folder().write("broken.yaml",
                                               "title: X\n"
                                               "architecture: amper\n"
                                               "multiprocessors: -3\n"
                                               "clock: 1410\n"
                                               "peak: {fp32: 19.5 TFLOP/s, fp61: 3 TFLOP/s}\n"
                                               "memory: {usable: 80 GiB, bandwidth: 2 TB/s}\n");
  const std::string message = message_of(path);
  for (const char* part : {"broken.yaml:2:15", "did you mean 'ampere'", "broken.yaml:3:18",
                           "broken.yaml:4:8", "broken.yaml:5:28"})
    EXPECT_NE(message.find(part), std::string::npos) << part << " not in\n" << message;
}

}  // namespace
}  // namespace lockstep::device_test
