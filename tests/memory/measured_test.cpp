// Does the prediction agree with memory that real runs measured, and does it predict no
// out-of-memory error for runs that fitted?
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "memory/host_workspace.hpp"
#include "memory/step_memory.hpp"
#include "sharded.hpp"
#include "source_dir.hpp"
#include "workload/model.hpp"

namespace lockstep::measured_test {
namespace {

std::string test_model(const std::string& name) {
  return std::string(LOCKSTEP_SOURCE_DIR) + "/tests/memory/models/" + name + ".yaml";
}

// LibTorch 1.13 on one CPU core in fp32, gradients set to none before the step. Live bytes after
// forward and the peak of forward and backward, both without parameters, momentum and input, as
// LibTorch's memory reporter printed them, in MB.
struct CpuRow {
  const char* model;
  int batch;
  double after_forward, peak;
};

class CpuMemory : public testing::TestWithParam<CpuRow> {};

TEST_P(CpuMemory, AgreesWithLibTorch) {
  const CpuRow& row = GetParam();
  StepOptions options;
  options.samples = row.batch;
  const TrainingStep step = build_step(*load_model(test_model(row.model)), options);
  Device device;
  device.architecture = Architecture::cpu;
  device.memory_bytes = 1e12;
  const StepMemory memory = step_memory(step, {}, device);
  EXPECT_NEAR(memory.after_forward / 1e6, row.after_forward, 0.0051);
  double own = memory.allocated;
  for (const char* kind : {"parameters", "buffers", "inputs"}) own -= memory.at_peak.at(kind);
  EXPECT_NEAR(own / 1e6, row.peak, 0.001 * row.peak);
}

INSTANTIATE_TEST_SUITE_P(Measured, CpuMemory,
                         testing::Values(CpuRow{"vgg16_bn_cifar", 8, 20.73, 76.2},
                                         CpuRow{"vgg16_bn_cifar", 32, 82.81, 134.8},
                                         CpuRow{"resnet50_cifar", 8, 204.23, 264.8},
                                         CpuRow{"densenet121_cifar", 8, 318.35, 319.4}),
                         [](const auto& row) {
                           return fmt::format("{}_{}", row.param.model, row.param.batch);
                         });

// A published run that fitted into its device's memory.
enum class Kind { one_gpu, ddp, fsdp };
struct FittedRow {
  const char* model;
  const char* device;
  Precision precision;
  int batch, image;
  Kind kind;
  bool channels_last = false, checkpointed = false;
};

constexpr Precision amp = Precision::amp_fp16, fp32 = Precision::fp32, bf16 = Precision::pure_bf16;

constexpr double channels = 24 * 12.0 * 1024 * 1024;  // of one communicator (fact 110)

StepMemory memory_of(const FittedRow& row, const TrainingStep& step, const Device& device) {
  if (row.kind == Kind::fsdp) {
    Sharded plan = sharded(step, 1, 8);
    plan.layout.gather_bytes = plan.layout.reduce_bytes = 2;
    plan.optimizer = {8, 4};  // AdamW, foreach form
    plan.communication_bytes = channels;
    return sharded_memory(step, plan, device);
  }
  MemoryPlan plan;
  plan.optimizer = {4, 4};  // SGD with momentum and weight decay
  if (row.kind == Kind::ddp) {
    double gradients = 0;
    for (const Layer& layer : step.layers) {
      for (const Parameter& parameter : layer.parameters) gradients += 4.0 * parameter.count;
    }
    plan.replicated.bucket_bytes = {gradients};
    plan.communication_bytes = channels;
  }
  return step_memory(step, plan, device);
}

class FittedRun : public testing::TestWithParam<FittedRow> {};

TEST_P(FittedRun, IsNotCalledOutOfMemory) {
  const FittedRow& row = GetParam();
  StepOptions options;
  options.samples = row.batch;
  options.precision = row.precision;
  options.channels_last = row.channels_last;
  options.activation_checkpointing = row.checkpointed;
  if (row.image > 0) options.image = {3, row.image, row.image};
  const TrainingStep step = build_step(*load_model(row.model), options);
  const Device device = load_device(row.device);
  const StepMemory memory = memory_of(row, step, device);
  EXPECT_FALSE(memory.out_of_memory) << memory.failed_at << ", short of " << memory.shortfall;
  // The source chose the batch to fill the card, so a tiny prediction would be wrong as well.
  EXPECT_GT(memory.device, 0.05 * device.memory_bytes);
  EXPECT_LE(memory.device, device.memory_bytes);
}

INSTANTIATE_TEST_SUITE_P(
    TimmRtx3090, FittedRun,
    testing::Values(FittedRow{"resnet50", "rtx-3090", amp, 512, 224, Kind::one_gpu},
                    FittedRow{"resnet18", "rtx-3090", amp, 512, 224, Kind::one_gpu},
                    FittedRow{"mobilenet_v3_large", "rtx-3090", amp, 512, 224, Kind::one_gpu},
                    FittedRow{"densenet121", "rtx-3090", amp, 256, 224, Kind::one_gpu},
                    FittedRow{"vgg16", "rtx-3090", amp, 384, 224, Kind::one_gpu},
                    FittedRow{"vit_b_16", "rtx-3090", amp, 192, 224, Kind::one_gpu},
                    FittedRow{"efficientnet_v2_s", "rtx-3090", amp, 128, 300, Kind::one_gpu},
                    FittedRow{"convnext_large", "rtx-3090", amp, 96, 224, Kind::one_gpu}));

INSTANTIATE_TEST_SUITE_P(
    LambdaResnet50, FittedRun,
    testing::Values(FittedRow{"resnet50", "rtx-3090", amp, 448, 224, Kind::one_gpu, true},
                    FittedRow{"resnet50", "rtx-3090", fp32, 224, 224, Kind::one_gpu},
                    FittedRow{"resnet50", "a10", amp, 448, 224, Kind::one_gpu, true},
                    FittedRow{"resnet50", "a10", fp32, 224, 224, Kind::one_gpu},
                    FittedRow{"resnet50", "a100-sxm4-80gb", amp, 1280, 224, Kind::one_gpu, true},
                    FittedRow{"resnet50", "a100-sxm4-80gb", fp32, 640, 224, Kind::one_gpu},
                    FittedRow{"resnet50", "a100-pcie-80gb", amp, 1280, 224, Kind::one_gpu, true},
                    FittedRow{"resnet50", "a100-sxm4-40gb", amp, 640, 224, Kind::one_gpu, true},
                    FittedRow{"resnet50", "a100-sxm4-40gb", fp32, 360, 224, Kind::one_gpu},
                    FittedRow{"resnet50", "h100-pcie-80gb", amp, 1280, 224, Kind::one_gpu, true},
                    FittedRow{"resnet50", "h100-sxm5-80gb", fp32, 640, 224, Kind::one_gpu},
                    FittedRow{"resnet50", "v100-sxm2-32gb", amp, 608, 224, Kind::one_gpu, true},
                    FittedRow{"resnet50", "v100-sxm2-32gb", fp32, 296, 224, Kind::one_gpu}));

INSTANTIATE_TEST_SUITE_P(
    StudyA100, FittedRun,
    testing::Values(FittedRow{"vgg16", "a100-sxm4-80gb", amp, 128, 224, Kind::ddp},
                    FittedRow{"efficientnet_v2_l", "a100-sxm4-80gb", amp, 128, 224, Kind::ddp},
                    FittedRow{"convnext_large", "a100-sxm4-80gb", amp, 128, 224, Kind::ddp}));

INSTANTIATE_TEST_SUITE_P(
    MptA100Fsdp, FittedRun,
    testing::Values(FittedRow{"mpt-7b", "a100-sxm4-40gb", bf16, 12, 0, Kind::fsdp, false, true},
                    FittedRow{"mpt-1b", "a100-sxm4-40gb", bf16, 8, 0, Kind::fsdp},
                    FittedRow{"mpt-125m", "a100-sxm4-40gb", bf16, 26, 0, Kind::fsdp}));

TEST(StepMemorySpeed, PlaysAThousandLayersInMilliseconds) {
#if defined(__SANITIZE_ADDRESS__) || !defined(NDEBUG)
  GTEST_SKIP() << "timed in release builds only";
#endif
  const auto best_of_five = [](const char* model) {
    StepOptions options;
    options.samples = 8;
    const TrainingStep step = build_step(*load_model(model), options);
    const Device device = load_device("a100-sxm4-80gb");
    double best = 1e9;
    for (int i = 0; i < 5; ++i) {
      const auto start = std::chrono::steady_clock::now();
      step_memory(step, {}, device);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      best = std::min(best, took.count());
    }
    return best;
  };
  EXPECT_LT(best_of_five("vgg16"), 5e-3);
  EXPECT_LT(best_of_five("efficientnet_v2_l"), 30e-3);  // 1092 layers
}

// Below 16 images ATen's own matrix product computes the convolution (ConvParams::use_mkldnn),
// which needs no workspace. The channel counts 48 and 32 are whole blocks of oneDNN.
TEST(HostWorkspace, OfOneByOneConvolutionsBeginsAtSixteenImages) {
  Layer layer;
  Kernel& kernel = layer.forward.emplace_back();
  kernel.kind = KernelKind::convolution;
  ConvGeometry& conv = kernel.conv;
  conv.channels_in = 32;
  conv.channels_out = 48;
  conv.height_in = conv.width_in = conv.height_out = conv.width_out = 7;
  conv.images = 15;
  EXPECT_EQ(host_workspace(layer, 4).forward, 0);
  EXPECT_EQ(host_workspace(layer, 4).backward, 0);
  conv.images = 16;
  const double x = 4.0 * 16 * 32 * 49, y = 4.0 * 16 * 48 * 49;
  EXPECT_EQ(host_workspace(layer, 4).forward, y);
  EXPECT_EQ(host_workspace(layer, 4).backward, x + y);
}

}  // namespace
}  // namespace lockstep::measured_test
