// Times of products, convolutions, attention and streams by their shapes (docs/device-models.md).
#include "costs/kernel_model.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

namespace lockstep {
namespace {

struct Tile {
  double m, n;
};
// Tile shapes of the vendor's matrix kernels (fact 129), and two small ones for skinny products.
constexpr std::array tiles{Tile{256, 128}, Tile{128, 256}, Tile{128, 128}, Tile{256, 64},
                           Tile{64, 256},  Tile{128, 64},  Tile{64, 128},  Tile{64, 64},
                           Tile{64, 32},   Tile{32, 64}};

double reuse(const Tile& tile) {
  return tile.m * tile.n / (tile.m + tile.n);
}

double tile_efficiency(const Tile& tile, double half) {
  const double best = reuse(tiles[0]) / (reuse(tiles[0]) + half);
  return reuse(tile) / (reuse(tile) + half) / best;
}

// 16 bytes is what the matrix units load at once (fact 129): 8 half-precision values or 4 of fp32.
double alignment(MathMode mode) {
  switch (mode) {
    case MathMode::fp16:
    case MathMode::bf16:
      return 8;
    case MathMode::fp8:
      return 16;
    case MathMode::fp4:
      return 32;
    case MathMode::tf32:
      return 4;
    case MathMode::fp32:
      return 1;
  }
  return 1;
}

double round_up(double value, double step) {
  return std::ceil(value / step) * step;
}

// How many waves are paid for.
double waves_charged(double waves, const KernelLaw& law) {
  return std::max(1.0, waves + law.wave_tail * (std::ceil(waves) - waves));
}

// Each split of k doubles the blocks of a product with few tiles.
constexpr int most_splits_of_k = 128;

// The cheapest of the tile shapes and splits.
template <std::size_t count>
double tiled_seconds(const MatrixShape& shape, double rate, int multiprocessors,
                     double workspace_bandwidth, const KernelLaw& law,
                     const std::array<Tile, count>& shapes, int most_splits) {
  if (shape.m <= 0 || shape.n <= 0 || shape.k <= 0 || shape.batch <= 0) return 0;
  const double sms = std::max(multiprocessors, 1);
  double best = std::numeric_limits<double>::infinity();
  for (const Tile& tile : shapes) {
    const double blocks = std::ceil(shape.m / tile.m) * std::ceil(shape.n / tile.n) * shape.batch;
    const double per_step =
        2 * tile.m * tile.n * sms / (rate * tile_efficiency(tile, law.tile_reuse));
    const double fill = law.tile_fill_seconds * tile.m * tile.n / (tiles[0].m * tiles[0].n) +
                        law.tile_fill_steps * per_step;
    for (int splits = 1; splits <= most_splits; splits *= 2) {
      const double steps = std::ceil(shape.k / splits);
      double seconds = waves_charged(blocks * splits / sms, law) * (per_step * steps + fill);
      // Every split writes its fp32 part and one pass reads them all again.
      if (splits > 1)
        seconds += 8.0 * splits * shape.m * shape.n * shape.batch / workspace_bandwidth;
      best = std::min(best, seconds);
      if (blocks * splits > 4 * sms) break;  // more blocks than needed: splitting only costs
    }
  }
  return best;
}

}  // namespace

bool on_matrix_units(MathMode mode, const Device& device) {
  switch (mode) {
    case MathMode::fp32:
      return false;
    case MathMode::tf32:
      return device.tf32_flops > 0;
    case MathMode::fp16:
      return device.fp16_flops > 0;
    case MathMode::bf16:
      return device.bf16_flops > 0;
    case MathMode::fp8:
      return device.fp8_flops > 0;
    case MathMode::fp4:
      return device.fp4_flops > 0;
  }
  return false;
}

namespace {

// Data sheets of GA10x and AD10x count 128 fp32 lanes a multiprocessor, but 64 of them also do the
// integer work (GA102 white paper), and shared memory feeds 64. Large fp32 products reach 0.30 to
// 0.38 of the data sheet's peak on an L4, where V100, A100 and H100 reach 0.75 to 0.9 (NeuSight's
// rows, reference/kernels/gemm_fp32.csv).
double fp32_lanes_that_multiply(const Device& device) {
  const bool shared = device.compute_capability == 86 || device.compute_capability == 89;
  return shared ? 0.5 : 1;
}

// The best rate of a product without matrix units. Where a mode has none of its own (bf16 on a
// V100, say) it runs at fp32.
double vector_product_rate(const Device& device, double fraction) {
  return device.fp32_flops * fp32_lanes_that_multiply(device) * fraction;
}

// The best rate this device reaches in a mode; `fraction` counts on matrix units.
double matrix_rate(MathMode mode, double fraction, const Device& device) {
  return on_matrix_units(mode, device) ? peak_flops(device, mode) * fraction
                                       : vector_product_rate(device, device.efficiency.matmul_fp32);
}

double smooth_max(double a, double b, double power) {
  const double larger = std::max(a, b), smaller = std::min(a, b);
  if (larger <= 0) return 0;
  return larger * std::pow(1 + std::pow(smaller / larger, power), 1 / power);
}

double memory_rate(const Device& device) {
  return device.memory_bandwidth * device.efficiency.memory;
}

// What fits into the L2 cache was mostly left there by the kernel before. Monotone and continuous:
// the resident share falls linearly until the working set is the whole cache.
double traffic_seconds(double bytes, const Device& device, const KernelLaw& law) {
  if (bytes <= 0) return 0;
  const double rate = memory_rate(device);
  const double resident =
      device.l2_bytes > 0 ? std::max(0.0, 1 - bytes / device.l2_bytes) * (1 - 1 / law.cache_speedup)
                          : 0;
  return bytes * (1 - resident) / rate + law.stream_ramp_seconds;
}

// A kernel that only streams; `element_bytes` > 0: its loads and stores are issued one by one.
double streaming_seconds(double bytes, int element_bytes, const Device& device,
                         const KernelLaw& law) {
  const double issue_rate = device.multiprocessors * device.clock_hz * law.elements_per_clock;
  if (element_bytes <= 0 || issue_rate <= 0) return traffic_seconds(bytes, device, law);
  const double issue = bytes / element_bytes / issue_rate;
  return smooth_max(traffic_seconds(bytes, device, law), issue, law.smoothing);
}

// All rows of the operands and of the result begin at multiples of so many bytes, 16 at most.
int row_alignment(const Kernel& kernel) {
  // A weight gradient's k counts rows, and its m lies along those of the output's gradient.
  const bool weight = kernel.pass == Pass::weight_gradient;
  const auto element = static_cast<std::int64_t>(16 / alignment(kernel.math));
  int bytes = 16;
  for (const std::int64_t length : {weight ? kernel.m : kernel.k, kernel.n}) {
    while (length * element % bytes != 0) bytes /= 2;
  }
  return bytes;
}

// What matrix units reach of their speed with rows that do not begin at multiples of 16 bytes. Since
// Hopper they are fed by a copy engine that needs that, and other products run on the instructions of
// Ampere: measured on an H100 with cuBLAS 13.1 (platforms/measurements/h100-sxm5-80gb/profile: rows of
// 2050 and 4100 values beside 2048 and 4096 in efficiency.yaml; odd rows, and gradients, whose results
// are aligned again, from GPT-2's head with its 50257 rows, batches 8 and 32).
double misaligned_share(const Kernel& kernel, const Device& device, const KernelLaw& law) {
  const int bytes = row_alignment(kernel);
  if (bytes >= 16) return 1;
  if (device.compute_capability < 90) return law.misaligned;
  if (kernel.math == MathMode::tf32) return 0.32;
  if (bytes == 2) return kernel.pass == Pass::forward ? 0.116 : 0.183;
  return bytes == 4 ? 0.233 : 0.313;
}

// Hopper's matrix units read tf32 operands from shared memory only along k (PTX, wgmma: no transposed
// operands of 32 bits), and each gradient has one that lies the other way. The share is what gradients
// of GPT-2's four products reach on an H100, batches 8 and 32 (profile.yaml beside efficiency.yaml).
double transposed_share(const Kernel& kernel, const Device& device) {
  const bool transposed = kernel.math == MathMode::tf32 && kernel.pass != Pass::forward;
  return transposed && device.compute_capability == 90 ? 0.7 : 1;
}

KernelTime gemm_time(const Kernel& kernel, const Device& device, const KernelLaw& law) {
  const bool narrow = kernel.math == MathMode::fp8 || kernel.math == MathMode::fp4;
  const double fraction = narrow ? device.efficiency.matmul_fp8 : device.efficiency.matmul;
  double rate = matrix_rate(kernel.math, fraction, device) * kernel.speed;
  if (on_matrix_units(kernel.math, device)) {
    rate *= std::min(misaligned_share(kernel, device, law), transposed_share(kernel, device));
  }
  KernelTime time;
  const MatrixShape shape{static_cast<double>(kernel.m), static_cast<double>(kernel.n),
                          static_cast<double>(kernel.k), static_cast<double>(kernel.batch)};
  time.compute = matrix_seconds(shape, rate, device.multiprocessors, memory_rate(device), law);
  time.memory = traffic_seconds(kernel.bytes_read + kernel.bytes_written, device, law);
  return time;
}

// Which depthwise convolutions PyTorch leaves to cuDNN: all with channels last, and in fp16 those
// with small square filters (use_cudnn_depthwise in aten/src/ATen/native/Convolution.cpp). The
// others run its own kernels.
bool library_depthwise(const Kernel& kernel) {
  const ConvGeometry& g = kernel.conv;
  const bool small = g.kernel_h == g.kernel_w && g.kernel_h <= 5 && g.kernel_h % 2 == 1;
  return g.channels_last ||
         (kernel.math == MathMode::fp16 && small && g.channels_in >= 32 && g.dilation == 1);
}

// Grouped and depthwise kernels that run outside the matrix units: multiply-adds of the vector
// units.
double vector_seconds(const Kernel& kernel, const Device& device, const KernelLaw& law) {
  const ConvGeometry& g = kernel.conv;
  // Most instructions of these kernels load values, compute indices and check bounds. What bounds
  // them (issue slots, integer lanes) has been the same per multiprocessor and clock since Volta,
  // so the rate is in units of 64 multiply-adds, even where newer ones count 128 fp32 lanes in
  // their peak (docs/device-models.md).
  constexpr double lanes = 64;
  const double lane_flops = 2 * lanes * device.multiprocessors * device.clock_hz;
  const double peak = lane_flops > 0 ? std::min(device.fp32_flops, lane_flops) : device.fp32_flops;
  double rate = peak * device.efficiency.vector;
  if (g.channels_in == g.groups && !library_depthwise(kernel)) rate *= law.depthwise_native;
  if (kernel.pass == Pass::weight_gradient) rate *= law.vector_weight_gradient;
  // The data gradient has an output per pixel of the input, the others work along the output.
  const double pixels = kernel.pass == Pass::data_gradient
                            ? static_cast<double>(g.height_in) * static_cast<double>(g.width_in)
                            : static_cast<double>(g.height_out) * static_cast<double>(g.width_out);
  const std::int64_t channels = kernel.pass == Pass::data_gradient ? g.channels_in : g.channels_out;
  const double outputs = static_cast<double>(g.images) * static_cast<double>(channels) * pixels;
  return (kernel.flops + 2 * law.vector_overhead_taps * outputs) / rate;
}

// The law of tiles for convolutions in groups: short sums, in kernels that are made for none.
KernelLaw of_groups(KernelLaw law) {
  law.tile_fill_steps = law.grouped_fill_steps;
  law.tile_reuse = law.grouped_tile_reuse;
  return law;
}

// What cuDNN runs for filters of more than one tap, and the products of unfused Winograd, in plain
// fp32 (128x128, 128x64 and 128x32 in the kernels' names); only the weight gradient, whose sum is
// long, is split. Convolutions of 1 x 1 are products and run as such.
constexpr std::array plain_tiles{Tile{128, 128}, Tile{128, 64}, Tile{128, 32}};

double plain_convolution_seconds(const MatrixShape& shape, double rate, bool weight_gradient,
                                 const Device& device, const KernelLaw& law) {
  if (weight_gradient)
    return matrix_seconds(shape, rate, device.multiprocessors, memory_rate(device), law);
  return tiled_seconds(shape, rate, device.multiprocessors, memory_rate(device), law, plain_tiles,
                       1);
}

bool may_use_winograd(const Kernel& kernel) {
  const ConvGeometry& g = kernel.conv;
  return g.kernel_h == 3 && g.kernel_w == 3 && g.stride == 1 && g.dilation == 1;
}

// A convolution as its passes see it: what is computed, from what.
struct Pass3x3 {
  double images, height, width, in, out, groups;
};

Pass3x3 pass_of(const Kernel& kernel) {
  const ConvGeometry& g = kernel.conv;
  const bool data = kernel.pass == Pass::data_gradient;
  const double groups = static_cast<double>(g.groups);
  return {static_cast<double>(g.images),
          static_cast<double>(data ? g.height_in : g.height_out),
          static_cast<double>(data ? g.width_in : g.width_out),
          static_cast<double>(data ? g.channels_out : g.channels_in) / groups,
          static_cast<double>(data ? g.channels_in : g.channels_out) / groups,
          groups};
}

// Winograd's algorithm F(2 x 2, 3 x 3) of Lavin and Gray in one kernel that transforms and
// multiplies: 16 products instead of 36. A block makes 4 x 8 tiles of one image (cuDNN's kernels
// have tile148 in their names), so 8 x 16 outputs, for 32 channels: 128 x 128 values. In the trace
// tests/data/ns_resolution_trace of HolisticTraceAnalysis 64 channels of 32 images of 56 x 56 run
// in a grid of 64 x 7 x 4 blocks.
double fused_winograd_seconds(const Kernel& kernel, const Device& device, const KernelLaw& law) {
  const Pass3x3 of = pass_of(kernel);
  constexpr double block_height = 8, block_width = 16, block_channels = 32;
  const double blocks = of.images * std::ceil(of.height / block_height) *
                        std::ceil(of.width / block_width) * std::ceil(of.out / block_channels) *
                        of.groups;
  const double sms = std::max(device.multiprocessors, 1);
  const double rate =
      vector_product_rate(device, device.efficiency.convolution_fp32) * law.winograd;
  const double per_step = 2 * 4 * block_height * block_width * block_channels * sms / rate;
  const double fill = of.groups > 1 ? law.grouped_fill_steps : law.tile_fill_steps;
  return waves_charged(blocks / sms, law) * per_step * (of.in + fill);
}

// ... and F(4 x 4, 3 x 3) with the transformed values in memory: 36 plain products instead of 144.
double unfused_winograd_seconds(const Kernel& kernel, const Device& device, const KernelLaw& law) {
  const Pass3x3 of = pass_of(kernel);
  constexpr double edge = 4;
  const double covered = of.images * std::ceil(of.height / edge) * std::ceil(of.width / edge);
  const double points = (edge + 2) * (edge + 2) * of.groups;
  const bool weight = kernel.pass == Pass::weight_gradient;
  const MatrixShape shape = weight ? MatrixShape{of.out, of.in, covered, points}
                                   : MatrixShape{covered, of.out, of.in, points};
  const double rate = vector_product_rate(device, device.efficiency.convolution_fp32) *
                      law.winograd_unfused * (weight ? law.weight_gradient_fp32 : 1);
  // Written by one kernel and read by the next.
  const double transformed = 4 * points * (covered * (of.in + of.out) + of.in * of.out);
  return plain_convolution_seconds(shape, rate, weight, device, law) +
         2 * transformed / memory_rate(device);
}

KernelTime convolution_time(const Kernel& kernel, const Device& device, const KernelLaw& law,
                            Algorithm algorithm) {
  const ConvGeometry& g = kernel.conv;
  const double bytes = kernel.bytes_read + kernel.bytes_written;
  KernelTime time;
  const bool depthwise = g.groups > 1 && g.channels_in == g.groups;
  if (depthwise) {
    time.compute = vector_seconds(kernel, device, law);
    time.memory = traffic_seconds(bytes, device, law);
    return time;
  }
  double rate = matrix_rate(kernel.math, device.efficiency.convolution, device);
  // Grouped kernels with channels first do without matrix units in every precision before Ampere.
  const bool plain = !on_matrix_units(kernel.math, device) ||
                     (g.groups > 1 && !g.channels_last && device.compute_capability < 80);
  if (plain) rate = vector_product_rate(device, device.efficiency.convolution_fp32);
  if (g.groups > 1) rate *= plain ? law.grouped_fp32 : law.grouped;
  if (kernel.pass == Pass::weight_gradient)
    rate *= plain ? law.weight_gradient_fp32 : law.weight_gradient;
  MatrixShape shape{static_cast<double>(kernel.m), static_cast<double>(kernel.n),
                    static_cast<double>(kernel.k), static_cast<double>(kernel.batch)};
  // The data gradient of a strided convolution skips the taps that meet no output.
  const double dense = 2 * shape.m * shape.n * shape.batch;
  if (dense > 0) shape.k = std::min(shape.k, kernel.flops / dense);
  if (!plain) {
    // Channels are padded to what the matrix units load: 3 input channels cost as much as 8 (or 4).
    const double step = alignment(kernel.math);
    const double groups = static_cast<double>(std::max<std::int64_t>(g.groups, 1));
    const double in = static_cast<double>(g.channels_in) / groups;
    const double out = static_cast<double>(g.channels_out) / groups;
    const double in_padding = round_up(in, step) / in, out_padding = round_up(out, step) / out;
    switch (kernel.pass) {
      case Pass::forward:
        shape.k *= in_padding;
        shape.n *= out_padding;
        break;
      case Pass::data_gradient:
        shape.k *= out_padding;
        shape.n *= in_padding;
        break;
      case Pass::weight_gradient:
      case Pass::backward:
        shape.m *= out_padding;
        shape.n *= in_padding;
        break;
    }
  }
  const bool winograd = plain && may_use_winograd(kernel);
  time.compute = std::numeric_limits<double>::infinity();
  const bool weight = kernel.pass == Pass::weight_gradient;
  if (!winograd || algorithm != Algorithm::winograd)
    time.compute = plain && g.groups == 1 && g.kernel_h * g.kernel_w > 1
                       ? plain_convolution_seconds(shape, rate, weight, device, law)
                       : matrix_seconds(shape, rate, device.multiprocessors, memory_rate(device),
                                        plain && g.groups > 1 ? of_groups(law) : law);
  if (winograd && algorithm != Algorithm::implicit_product) {
    time.compute = std::min(time.compute, unfused_winograd_seconds(kernel, device, law));
    // cuDNN has no such kernel for the weight gradient.
    if (!weight) time.compute = std::min(time.compute, fused_winograd_seconds(kernel, device, law));
  }
  time.memory = traffic_seconds(bytes, device, law);
  return time;
}

// Fused attention of 32-bit values multiplies in three tf32 products since Ampere, whether tf32 is allowed
// or not (PyTorch, mem_eff_attention/gemm_kernel_utils.h: OpMultiplyAddFastF32); an H100 takes 74.8 and
// 74.4 ms for GPT-2's. Its backward is as fast by operations as its forward, 1.14 times the share.
KernelTime attention_time(const Kernel& kernel, const Device& device, const KernelLaw& law) {
  const bool in_parts = device.compute_capability >= 80 &&
                        (kernel.math == MathMode::tf32 || kernel.math == MathMode::fp32);
  double rate = on_matrix_units(kernel.math, device) && !in_parts
                    ? peak_flops(device, kernel.math) * device.efficiency.attention
                    : vector_product_rate(device, device.efficiency.attention);
  if (kernel.pass != Pass::forward) rate *= in_parts ? 1.14 : law.attention_backward;
  const double head = static_cast<double>(std::max<std::int64_t>(kernel.k, 1));
  const double softmax = (1 + law.attention_softmax * 128 / head) / (1 + law.attention_softmax);
  // Tiles of 64 queries and keys at least, of which short or odd sequences fill a part: 197 tokens of a vision
  // transformer cost as much as 256 (flash_fwd_launch_template.h of FlashAttention-2; kQueriesPerBlock and
  // kKeysPerBlock of mem_eff_attention).
  const auto filled = [](std::int64_t length) {
    const auto whole = static_cast<double>(length);
    return length > 0 ? whole / round_up(whole, 64) : 1;
  };
  const double computed = 1 / (filled(kernel.m) * filled(kernel.n));
  // One block works on 128 queries of one head.
  const double blocks =
      std::ceil(static_cast<double>(kernel.m) / 128) * static_cast<double>(kernel.batch);
  const double waves = std::ceil(blocks / device.multiprocessors) * device.multiprocessors / blocks;
  KernelTime time;
  time.compute = kernel.flops / rate * softmax * waves * computed;
  time.memory = traffic_seconds(kernel.bytes_read + kernel.bytes_written, device, law);
  return time;
}

double searching_seconds(const Kernel& kernel, const Device& device, const KernelLaw& law) {
  const double clocks = device.multiprocessors * device.clock_hz;
  if (device.architecture == Architecture::cpu || clocks <= 0)
    return 0;  // it adds at the positions
  return static_cast<double>(kernel.searching_elements) * law.max_pool_backward_clocks / clocks;
}

// PyTorch leaves batch norm to cuDNN but in bf16 (use_cudnn in aten/src/ATen/native/Normalization.cpp), where
// its own kernels give each channel to a block: time in bf16 over time in fp16, in ResNet-50 and
// DenseNet-121 on an H100, batches 8 and 32 (platforms/measurements/h100-sxm5-80gb/profile).
double native_norm_factor(const Kernel& kernel, const Device& device) {
  if (kernel.math != MathMode::bf16 || device.architecture == Architecture::cpu) return 1;
  return kernel.pass == Pass::forward ? 1.85 : 1.5;
}

}  // namespace

double matrix_seconds(const MatrixShape& shape, double rate, int multiprocessors,
                      double workspace_bandwidth, const KernelLaw& law) {
  return tiled_seconds(shape, rate, multiprocessors, workspace_bandwidth, law, tiles,
                       most_splits_of_k);
}

double stream_seconds(double bytes, int launches, const Device& device, const KernelLaw& law) {
  if (launches <= 0) return 0;
  return launches * (device.efficiency.kernel_floor_seconds +
                     streaming_seconds(bytes / launches, 0, device, law));
}

namespace {

using KernelSizes = std::array<double, 4>;

// Layers repeat, and a search through all measured kernels takes longer than the law.
double ratio_at(const std::shared_ptr<const MeasuredKernels>& measured,
                const std::vector<MeasuredKernel>& kernels, const KernelSizes& sizes) {
  struct Memory {
    std::shared_ptr<const MeasuredKernels> of;  // held, so that nothing else gets its address
    std::map<std::pair<const std::vector<MeasuredKernel>*, KernelSizes>, double> ratios;
  };
  thread_local Memory memory;
  constexpr std::size_t most = 10000;
  if (memory.of != measured || memory.ratios.size() > most) memory = {measured, {}};
  const auto [found, missing] = memory.ratios.try_emplace({&kernels, sizes}, 0.0);
  if (missing) {
    KernelSizes log2_sizes;
    std::transform(sizes.begin(), sizes.end(), log2_sizes.begin(),
                   [](double size) { return std::log2(size); });
    found->second = std::exp(log_ratio_at(kernels, log2_sizes));
  }
  return found->second;
}

// Boards of the chip ran this kernel, or its neighbours, faster or slower than the law says. The
// data gradient of a convolution is one with its channels exchanged.
double measured_over_modelled(const Kernel& kernel, const Device& device) {
  if (!device.measured) return 1;
  const auto at = [&](const std::vector<MeasuredKernel>& kernels, double a, double b, double c,
                      double d) {
    return ratio_at(device.measured, kernels, {a, b, c, d});
  };
  const bool half = kernel.math == MathMode::fp16 || kernel.math == MathMode::bf16;
  if (kernel.kind == KernelKind::gemm) {
    const bool units = on_matrix_units(kernel.math, device);
    if (units && !half) return 1;
    return at(units ? device.measured->half_products : device.measured->plain_products,
              static_cast<double>(kernel.batch), static_cast<double>(kernel.m),
              static_cast<double>(kernel.n), static_cast<double>(kernel.k));
  }
  const ConvGeometry& g = kernel.conv;
  const bool data = kernel.pass == Pass::data_gradient;
  if (kernel.kind != KernelKind::convolution || kernel.math != MathMode::fp32 || g.groups > 1 ||
      !may_use_winograd(kernel) || (!data && kernel.pass != Pass::forward))
    return 1;
  const auto images = static_cast<double>(g.images);
  const auto in = static_cast<double>(g.channels_in), out = static_cast<double>(g.channels_out);
  const double edge =
      std::sqrt(static_cast<double>(g.height_out) * static_cast<double>(g.width_out));
  return at(device.measured->convolutions, images, data ? out : in, data ? in : out, edge);
}

}  // namespace

KernelTime kernel_time(const Kernel& kernel, const Device& device, const KernelLaw& law,
                       int element_bytes, Algorithm algorithm) {
  KernelTime time;
  if (kernel.launches <= 0) return time;
  switch (kernel.kind) {
    case KernelKind::gemm:
      time = gemm_time(kernel, device, law);
      break;
    case KernelKind::convolution:
      time = convolution_time(kernel, device, law, algorithm);
      break;
    case KernelKind::attention:
      time = attention_time(kernel, device, law);
      break;
    default: {
      double factor = 1;
      if (kernel.kind == KernelKind::normalization) {
        factor = law.normalization_traffic * native_norm_factor(kernel, device);
      }
      if (kernel.kind == KernelKind::copy) factor = law.copy_traffic;
      const double bytes = factor * (kernel.bytes_read + kernel.bytes_written) / kernel.launches;
      time.compute = device.fp32_flops > 0 ? kernel.flops / device.fp32_flops : 0;
      if (kernel.searching_elements > 0) time.compute = searching_seconds(kernel, device, law);
      const int issued = kernel.kind == KernelKind::elementwise ? 0 : element_bytes;
      time.memory = kernel.launches * streaming_seconds(bytes, issued, device, law);
      break;
    }
  }
  const double floors = kernel.launches * device.efficiency.kernel_floor_seconds;
  time.total = floors + smooth_max(time.compute, time.memory, law.smoothing);
  time.total = std::max(floors, time.total * measured_over_modelled(kernel, device));
  return time;
}

std::vector<Kernel> chosen_kernels(const std::vector<Kernel>& kernels, const Device& device,
                                   const KernelLaw& law, int element_bytes) {
  std::vector<Kernel> chosen;
  chosen.reserve(kernels.size());
  for (auto kernel = kernels.begin(); kernel != kernels.end();) {
    const auto end = std::find_if(kernel + 1, kernels.end(),
                                  [](const Kernel& other) { return !other.changes_layout; });
    Kernel plain = *kernel;
    plain.math = MathMode::fp32;
    const auto seconds = [&] {
      return std::accumulate(kernel, end, 0.0, [&](double sum, const Kernel& each) {
        return sum + kernel_time(each, device, law, element_bytes).total;
      });
    };
    if (kernel->math == MathMode::tf32 &&
        kernel_time(plain, device, law, element_bytes).total < seconds()) {
      chosen.push_back(plain);
    } else {
      chosen.insert(chosen.end(), kernel, end);
    }
    kernel = end;
  }
  return chosen;
}

}  // namespace lockstep
