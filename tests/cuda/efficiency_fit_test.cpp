// Does the fit find the efficiencies with which measurements were made up? The measurements come
// from the device model; this file builds the kernels independently of the fit.
#include "cuda/efficiency_fit.hpp"

#include <gmock/gmock.h>

#include "core/describe.hpp"
#include "costs/kernel_model.hpp"
#include "cuda/sweeps.hpp"
#include "hardware/device_file.hpp"

namespace lockstep::cuda::efficiency_fit_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

int bytes_of(MathMode math) {
  return math == MathMode::fp16 || math == MathMode::bf16 ? 2 : 4;
}

double gemm_seconds(const GemmShape& shape, MathMode math, const Device& device) {
  Kernel kernel;
  kernel.kind = KernelKind::gemm;
  kernel.math = math;
  kernel.m = shape.m;
  kernel.n = shape.n;
  kernel.k = shape.k;
  kernel.flops = 2.0 * shape.m * shape.n * shape.k;
  kernel.bytes_read = 1.0 * bytes_of(math) * (shape.m * shape.k + shape.k * shape.n);
  kernel.bytes_written = 1.0 * bytes_of(math) * shape.m * shape.n;
  return kernel_time(kernel, device).total;
}

double convolution_seconds(const ConvolutionShape& s, ConvolutionPass pass, MathMode math,
                           const Device& device) {
  const int size_out = (s.size + 2 * (s.kernel / 2) - s.kernel) / s.stride + 1;
  const std::int64_t pixels_in = std::int64_t{s.batch} * s.size * s.size;
  const std::int64_t pixels_out = std::int64_t{s.batch} * size_out * size_out;
  const std::int64_t taps = s.kernel * s.kernel;
  const double x = 1.0 * bytes_of(math) * pixels_in * s.in_channels;
  const double y = 1.0 * bytes_of(math) * pixels_out * s.out_channels;
  const double w = 1.0 * bytes_of(math) * s.in_channels * s.out_channels * taps;
  Kernel kernel;
  kernel.kind = KernelKind::convolution;
  kernel.math = math;
  kernel.flops = 2.0 * pixels_out * s.in_channels * s.out_channels * taps;
  kernel.conv = {s.in_channels, s.out_channels, 1,        s.kernel, s.kernel, s.stride, 1,
                 s.size,        s.size,         size_out, size_out, s.batch,  false};
  if (pass == ConvolutionPass::forward) {
    kernel.pass = Pass::forward;
    kernel.m = pixels_out;
    kernel.n = s.out_channels;
    kernel.k = s.in_channels * taps;
    kernel.bytes_read = x + w;
    kernel.bytes_written = y;
  } else if (pass == ConvolutionPass::backward_data) {
    kernel.pass = Pass::data_gradient;
    kernel.m = pixels_in;
    kernel.n = s.in_channels;
    kernel.k = s.out_channels * taps;
    kernel.bytes_read = y + w;
    kernel.bytes_written = x;
  } else {
    kernel.pass = Pass::weight_gradient;
    kernel.m = s.out_channels;
    kernel.n = s.in_channels * taps;
    kernel.k = pixels_out;
    kernel.bytes_read = x + y;
    kernel.bytes_written = w;
  }
  double seconds = kernel_time(kernel, device).total;
  if (math == MathMode::fp32) return seconds;
  Kernel layout;  // conversion to channels last and back, for the matrix units
  layout.kind = KernelKind::copy;
  layout.launches = 3;
  layout.bytes_read = layout.bytes_written = x + y + w;
  return seconds + kernel_time(layout, device, {}, bytes_of(math)).total;
}

double copy_seconds(double bytes, const Device& device) {
  return stream_seconds(2 * bytes, 1, device);
}

// All measurements of lockstep-calibrate-cuda, as a device would give them that equals its model
// exactly.
Measurements measured_on(const Device& device) {
  Measurements m;
  m.device = device.name;
  for (const MathMode math : {MathMode::fp32, MathMode::tf32, MathMode::fp16, MathMode::bf16}) {
    for (const GemmShape& s : gemm_shapes(false))
      m.gemm.push_back({math, s.m, s.n, s.k, {gemm_seconds(s, math, device), 0, 6}, 0, 0});
    for (const ConvolutionShape& s : convolution_shapes(false))
      for (const ConvolutionPass pass : {ConvolutionPass::forward, ConvolutionPass::backward_data,
                                         ConvolutionPass::backward_weights}) {
        ConvolutionRow row{
            math, pass, s.batch, s.in_channels, s.size, s.out_channels, s.kernel, s.stride, {},
            0,    0,    0};
        row.time = {convolution_seconds(s, pass, math, device), 0, 6};
        m.convolution.push_back(row);
      }
  }
  for (const double bytes : copy_sizes(false))
    for (const CopyKind kind : {CopyKind::d2d, CopyKind::stream_copy})
      m.copies.push_back({kind, bytes, {copy_seconds(bytes, device), 0, 6}, 0});
  m.launch.back_to_back = {device.efficiency.kernel_floor_seconds, 0, 6};
  return m;
}

Device known_device(const std::string& name) {
  Device device = load_device(name);
  device.efficiency.matmul = 0.71;
  device.efficiency.matmul_fp32 = 0.83;
  device.efficiency.convolution = 0.62;
  device.efficiency.memory = 0.93;
  device.efficiency.kernel_floor_seconds = 1.7e-6;
  return device;
}

void expect_found(const EfficiencyFit& fit, const Efficiency& truth) {
  ASSERT_TRUE(fit.memory.value && fit.matmul.value && fit.matmul_fp32.value &&
              fit.convolution.value && fit.kernel_floor.value)
      << fit_report(fit);
  EXPECT_NEAR(*fit.memory.value / truth.memory, 1, 0.01);
  EXPECT_NEAR(*fit.matmul.value / truth.matmul, 1, 0.01);
  EXPECT_NEAR(*fit.matmul_fp32.value / truth.matmul_fp32, 1, 0.01);
  EXPECT_NEAR(*fit.convolution.value / truth.convolution, 1, 0.01);
  EXPECT_NEAR(*fit.kernel_floor.value / truth.kernel_floor_seconds, 1, 0.01);
}

TEST(EfficiencyFit, GivesBackWhatTheMeasurementsWereMadeWithFromAnyStart) {
  for (const char* name : {"h100-sxm5-80gb", "a100-pcie-40gb", "v100-sxm2-16gb"}) {
    SCOPED_TRACE(name);
    const Device truth = known_device(name);
    const Measurements m = measured_on(truth);
    const EfficiencyFit from_truth = fit_efficiency(m, truth);
    for (const double start : {0.05, 0.5, 1.0}) {
      Device device = truth;
      device.efficiency.matmul = device.efficiency.matmul_fp32 = start;
      device.efficiency.convolution = start;
      device.efficiency.memory = 1.05 - start;
      device.efficiency.kernel_floor_seconds = start * 1e-5;
      const EfficiencyFit fit = fit_efficiency(m, device);
      expect_found(fit, truth.efficiency);
      EXPECT_LT(fit.matmul.error_90, 0.001);
      EXPECT_LT(fit.convolution.error_90, 0.001);
      EXPECT_GT(fit.matmul.points, 15);
      EXPECT_GT(fit.matmul_fp32.points, 5);
      EXPECT_EQ(fit.matmul.points, from_truth.matmul.points);
      EXPECT_GT(fit.convolution.points, 15);
      EXPECT_EQ(fit.convolution.points, from_truth.convolution.points);
      // small products say little about the peak and are left out
      EXPECT_LT(fit.matmul.points, fit.matmul.measured);
    }
  }
}

TEST(EfficiencyFit, OneWrongRowOfEachKindChangesLittle) {
  const Device truth = known_device("h100-sxm5-80gb");
  Measurements m = measured_on(truth);
  for (GemmRow& row : m.gemm)
    if (row.m == 8192 && row.n == 8192 && row.math == MathMode::bf16) row.time.seconds *= 20;
  m.convolution.at(3).time.seconds *= 20;
  m.copies.back().time.seconds *= 20;
  const EfficiencyFit fit = fit_efficiency(m, truth);
  expect_found(fit, truth.efficiency);
}

TEST(EfficiencyFit, LeavesOutWhatWasNotMeasured) {
  const Device device = known_device("h100-sxm5-80gb");
  const Measurements all = measured_on(device);
  Measurements m;
  m.gemm = all.gemm;
  const EfficiencyFit fit = fit_efficiency(m, device);
  EXPECT_TRUE(fit.matmul.value.has_value());
  EXPECT_FALSE(fit.memory.value || fit.convolution.value || fit.kernel_floor.value);
  EXPECT_EQ(efficiency_text(fit), "efficiency: {matmul: 71.0%, matmul_fp32: 83.0%}\n");
  EXPECT_THAT(fit_report(fit), HasSubstr("memory: left out: "));
  EXPECT_THAT(fit_report(fit), HasSubstr("convolution: left out: "));
  EXPECT_THAT(fit_report(fit), HasSubstr("kernel_floor: left out: "));
  EXPECT_EQ(efficiency_text(fit_efficiency({}, device)), "");
}

// Copies that fit into the L2 cache and products as short as their launch say nothing about the
// peaks.
TEST(EfficiencyFit, LeavesOutPointsThatOtherPartsOutweigh) {
  const Device device = known_device("h100-sxm5-80gb");
  Measurements m;
  m.gemm = {{MathMode::bf16, 128, 128, 128, {1e-3, 0, 6}, 0, 0}};
  m.copies = {{CopyKind::d2d, 1 << 20, {1e-3, 0, 6}, 0},
              {CopyKind::h2d_pinned, 1 << 28, {1e-3, 0, 6}, 0}};
  const EfficiencyFit fit = fit_efficiency(m, device);
  EXPECT_FALSE(fit.matmul.value || fit.memory.value);
  EXPECT_EQ(fit.matmul.measured, 1);
  EXPECT_EQ(fit.matmul.points, 0);
}

TEST(EfficiencyFit, RefusesWhatNoDeviceFileMayHold) {
  const Device slow = known_device("t4");
  Measurements m = measured_on(known_device("h100-sxm5-80gb"));
  m.launch.back_to_back.seconds = 0.5;
  const EfficiencyFit fit = fit_efficiency(m, slow);
  EXPECT_EQ(efficiency_text(fit), "");
  EXPECT_THAT(fit.matmul.why_not, HasSubstr("1 % to 120 %; are these the peaks"));
  EXPECT_THAT(fit.kernel_floor.why_not, HasSubstr("500 ms is longer than 1 ms"));
}

TEST(EfficiencyFit, PrintsABlockThatADeviceFileMayHold) {
  const Device device = known_device("a100-pcie-40gb");
  const std::string file = measurements_text(measured_on(device));
  const EfficiencyFit fit = fit_efficiency(parse_measurements(file, "efficiency.yaml"), device);
  EXPECT_THAT(fit_report(fit), Not(HasSubstr("left out")));
  const std::string text = efficiency_text(fit);
  EXPECT_EQ(text,
            "efficiency: {matmul: 71.0%, matmul_fp32: 83.0%, convolution: 62.0%, memory: 93.0%, "
            "kernel_floor: 1.70 "
            "us}\n");
  const std::string rest =
      "title: GPU\narchitecture: ampere\nmultiprocessors: 108\nclock: 1 GHz\n"
      "peak: {fp32: 20 TFLOP/s}\nmemory: {usable: 40 GB, bandwidth: 2 TB/s}\n";
  const DeviceFile read = read_text<DeviceFile>(rest + text, "gpu.yaml");
  EXPECT_DOUBLE_EQ(read.efficiency.convolution, 0.62);
  EXPECT_DOUBLE_EQ(read.efficiency.kernel_floor_seconds, 1.7e-6);
}

}  // namespace
}  // namespace lockstep::cuda::efficiency_fit_test
