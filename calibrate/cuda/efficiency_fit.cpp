// Fits achieved fractions of a device's peaks to results of the probes. Each fraction is fitted to
// the rows whose time depends mostly on it: bisection finds the value at which the median of
// log(modelled / measured) over these rows is 0 (docs/device-models.md).
#include "cuda/efficiency_fit.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "core/statistics.hpp"
#include "costs/kernel_model.hpp"
#include "workload/ops.hpp"

namespace lockstep::cuda {

namespace {

// One measured operation: first the kernel to which the fit refers, then kernels that were timed
// with it.
struct Point {
  std::vector<Kernel> kernels;
  int element_bytes = 4;
  double seconds = 0;
};

// The precision whose operands have the same size as in the probes.
Precision precision_of(MathMode math) {
  switch (math) {
    case MathMode::fp32:
      return Precision::fp32;
    case MathMode::tf32:
      return Precision::tf32;
    case MathMode::fp16:
      return Precision::pure_fp16;
    case MathMode::bf16:
      return Precision::pure_bf16;
    case MathMode::fp8:
    case MathMode::fp4:
      break;  // no probe measures them
  }
  return Precision::fp32;
}

StepOptions options_of(MathMode math, int samples) {
  StepOptions options;
  options.samples = samples;
  options.precision = precision_of(math);
  return options;
}

Pass pass_of(ConvolutionPass pass) {
  switch (pass) {
    case ConvolutionPass::forward:
      return Pass::forward;
    case ConvolutionPass::backward_data:
      return Pass::data_gradient;
    case ConvolutionPass::backward_weights:
      return Pass::weight_gradient;
  }
  return Pass::forward;
}

Point point_of(const GemmRow& row) {
  StepBuilder step(options_of(row.math, 1));
  LayerWriter layer(step, "product", "linear", "", {});
  return {{layer.gemm(Pass::forward, row.m, row.n, row.k)}, step.matmul_bytes(), row.time.seconds};
}

// A convolution as the simulator's workload describes it, with the layout changes inside cuDNN's
// call.
Point point_of(const ConvolutionRow& row) {
  StepBuilder step(options_of(row.math, row.batch));
  const auto convolution = [&](const char* name, const Value& input, const ConvShape& shape) {
    return emit_conv(OpCall{step, name, "conv", "", {input}}, shape);
  };
  ConvShape shape;
  shape.bias = false;
  shape.out = row.in_channels;
  // A layer before is added, because only the output of a layer needs a gradient of the data.
  const Value image = step.image_input({row.in_channels, row.size, row.size});
  const Value input = convolution("before", image, shape);
  shape.out = row.out_channels;
  shape.kernel_h = shape.kernel_w = row.kernel;
  shape.padding_h = shape.padding_w = row.kernel / 2;
  shape.stride = row.stride;
  convolution("measured", input, shape);
  const int bytes = step.matmul_bytes();
  const TrainingStep built = step.finish();
  const Layer& layer = built.layers.back();
  const Pass pass = pass_of(row.pass);
  Point point{{}, bytes, row.time.seconds};
  for (const Kernel& kernel : pass == Pass::forward ? layer.forward : layer.backward)
    if (kernel.pass == pass && kernel.launches > 0) point.kernels.push_back(kernel);
  return point;
}

// Whether a copy reads and writes device memory, like most streaming kernels of a training step.
bool within_device(const CopyRow& row) {
  return row.kind == CopyKind::d2d || row.kind == CopyKind::stream_copy;
}

Point point_of(const CopyRow& row) {
  Kernel kernel;
  kernel.kind = KernelKind::elementwise;
  kernel.bytes_read = kernel.bytes_written = row.bytes;
  return {{kernel}, 4, row.time.seconds};
}

double modelled(const Point& point, const Device& device) {
  double seconds = 0;
  for (const Kernel& kernel : point.kernels)
    seconds += kernel_time(kernel, device, {}, point.element_bytes).total;
  return seconds;
}

// A fitted parameter, and the part of a kernel's time that it determines.
struct Fraction {
  double Efficiency::*value;
  double KernelTime::*part;
};
constexpr Fraction memory_fraction{&Efficiency::memory, &KernelTime::memory};
constexpr Fraction matmul_fraction{&Efficiency::matmul, &KernelTime::compute};
constexpr Fraction matmul_fp32_fraction{&Efficiency::matmul_fp32, &KernelTime::compute};
constexpr Fraction convolution_fraction{&Efficiency::convolution, &KernelTime::compute};

// Whether that part is longer than the rest of the modelled time even at the full peak. It is
// computed at the peak, so that the choice of points does not depend on fitted values.
bool tells(const Point& point, Device device, const Fraction& fraction) {
  device.efficiency.*fraction.value = 1;
  const Kernel& kernel = point.kernels.front();
  const KernelTime time = kernel_time(kernel, device, {}, point.element_bytes);
  const double part = time.*fraction.part;
  double rest =
      time.compute + time.memory - part + kernel.launches * device.efficiency.kernel_floor_seconds;
  for (std::size_t i = 1; i < point.kernels.size(); ++i)
    rest += kernel_time(point.kernels[i], device, {}, point.element_bytes).total;
  return part > rest;
}

// The bounds that a device file has for one field (hardware/efficiency.hpp).
struct Limits : FieldVisitor<Limits> {
  explicit Limits(const double* value) : wanted(value) {}

  const double* wanted = nullptr;
  double min = 0, max = 0;
  void visit(const FieldSpec& spec, double& value) {
    if (&value != wanted) return;
    min = spec.min;
    max = spec.max;
  }
};
Limits limits_of(double Efficiency::*member) {
  Efficiency efficiency;
  Limits limits(&(efficiency.*member));
  describe(limits, efficiency);
  return limits;
}

FittedValue fit(const std::vector<Point>& measured, Device device, const Fraction& fraction) {
  FittedValue result;
  result.measured = static_cast<int>(measured.size());
  std::vector<Point> points;
  for (const Point& point : measured)
    if (tells(point, device, fraction)) points.push_back(point);
  result.points = static_cast<int>(points.size());
  if (points.empty()) {
    result.why_not = measured.empty() ? "nothing was measured that tells it"
                                      : "other parts of the time outweigh it everywhere";
    return result;
  }
  // The median of log(modelled / measured) falls as the fraction grows, so bisection finds its
  // zero.
  const auto median_log = [&](double value) {
    device.efficiency.*fraction.value = value;
    std::vector<double> logs;
    for (const Point& point : points)
      logs.push_back(std::log(modelled(point, device) / point.seconds));
    return median(logs);
  };
  const Limits limits = limits_of(fraction.value);
  double low = limits.min, high = limits.max;
  if (median_log(low) < 0 || median_log(high) > 0) {
    result.why_not = fmt::format(
        "it would be outside of {:g} % to {:g} %; are these the peaks of the measured device?",
        100 * low, 100 * high);
    return result;
  }
  while (high / low > 1 + 1e-9) {
    const double middle = std::sqrt(low * high);
    (median_log(middle) > 0 ? low : high) = middle;
  }
  result.value = std::sqrt(low * high);
  device.efficiency.*fraction.value = *result.value;
  std::vector<double> errors;
  for (const Point& point : points)
    errors.push_back(std::abs(modelled(point, device) / point.seconds - 1));
  result.median_error = median(errors);
  result.error_90 = quantile(errors, 0.9);
  return result;
}

// The kernel floor is the time from one empty kernel to the next: no kernel can take less time on
// the device.
FittedValue fit_floor(const Figure& back_to_back) {
  FittedValue result;
  if (!(back_to_back.seconds > 0)) {
    result.why_not = "nothing was measured that tells it";
    return result;
  }
  result.measured = 1;
  result.points = 1;
  const Limits limits = limits_of(&Efficiency::kernel_floor_seconds);
  if (back_to_back.seconds > limits.max) {
    result.why_not =
        fmt::format("{:g} ms is longer than {:g} ms", 1e3 * back_to_back.seconds, 1e3 * limits.max);
    return result;
  }
  result.value = back_to_back.seconds;
  return result;
}

std::string report_line(const char* name, const std::string& value, const FittedValue& fitted) {
  if (!fitted.value) return fmt::format("{}: left out: {}\n", name, fitted.why_not);
  return fmt::format(
      "{}: {} from {} of {} points; the model is {:.1f} % off in the median, {:.1f} % at the 90th "
      "percentile\n",
      name, value, fitted.points, fitted.measured, 100 * fitted.median_error,
      100 * fitted.error_90);
}

std::string percent(const FittedValue& fitted) {
  return fitted.value ? fmt::format("{:.1f}%", 100 * *fitted.value) : "";
}
std::string microseconds(const FittedValue& fitted) {
  return fitted.value ? fmt::format("{:.2f} us", 1e6 * *fitted.value) : "";
}

}  // namespace

EfficiencyFit fit_efficiency(const Measurements& measurements, const Device& device) {
  EfficiencyFit result;
  Device fitted = device;
  result.kernel_floor = fit_floor(measurements.launch.back_to_back);
  fitted.efficiency.kernel_floor_seconds =
      result.kernel_floor.value.value_or(device.efficiency.kernel_floor_seconds);

  // Copies that move less than twice the L2 cache may partly be in it (operand_sets in sweeps.cpp),
  // so they are left out.
  std::vector<Point> copies, products, plain_products, convolutions;
  for (const CopyRow& row : measurements.copies)
    if (within_device(row) && 2 * row.bytes >= 2 * device.l2_bytes) copies.push_back(point_of(row));
  result.memory = fit(copies, fitted, memory_fraction);
  fitted.efficiency.memory = result.memory.value.value_or(device.efficiency.memory);

  for (const GemmRow& row : measurements.gemm)
    (on_matrix_units(row.math, device) ? products : plain_products).push_back(point_of(row));
  for (const ConvolutionRow& row : measurements.convolution)
    if (on_matrix_units(row.math, device)) convolutions.push_back(point_of(row));
  result.matmul = fit(products, fitted, matmul_fraction);
  result.matmul_fp32 = fit(plain_products, fitted, matmul_fp32_fraction);
  result.convolution = fit(convolutions, fitted, convolution_fraction);
  return result;
}

std::string efficiency_text(const EfficiencyFit& fitted) {
  std::vector<std::string> fields;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) fields.push_back(fmt::format("{}: {}", name, value));
  };
  add("matmul", percent(fitted.matmul));
  add("matmul_fp32", percent(fitted.matmul_fp32));
  add("convolution", percent(fitted.convolution));
  add("memory", percent(fitted.memory));
  add("kernel_floor", microseconds(fitted.kernel_floor));
  return fields.empty() ? "" : fmt::format("efficiency: {{{}}}\n", fmt::join(fields, ", "));
}

std::string fit_report(const EfficiencyFit& fitted) {
  std::string text = report_line("matmul", percent(fitted.matmul), fitted.matmul) +
                     report_line("matmul_fp32", percent(fitted.matmul_fp32), fitted.matmul_fp32) +
                     report_line("convolution", percent(fitted.convolution), fitted.convolution) +
                     report_line("memory", percent(fitted.memory), fitted.memory);
  if (fitted.kernel_floor.value)
    return text + "kernel_floor: " + microseconds(fitted.kernel_floor) + " as measured\n";
  return text + report_line("kernel_floor", "", fitted.kernel_floor);
}

}  // namespace lockstep::cuda
