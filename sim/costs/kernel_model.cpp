// Implements the kernel model. Products are computed by tiles, waves and splits of k; convolutions
// as implicit GEMM, by Winograd's algorithm or on vector units; attention by its FLOPs; all other
// kernels by their traffic. A constant without a fit is explained where it is defined;
// docs/device-models.md derives each term.
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

// Multiply-adds per value that a tile loads.
double reuse(const Tile& tile) {
  return tile.m * tile.n / (tile.m + tile.n);
}

// Speed of a tile relative to the largest tile. A tile whose reuse equals `half` reaches half of
// the limit.
double tile_efficiency(const Tile& tile, double half) {
  const double best = reuse(tiles[0]) / (reuse(tiles[0]) + half);
  return reuse(tile) / (reuse(tile) + half) / best;
}

// Elements in 16 bytes, which the matrix units load at once (fact 129).
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

// Waves that count: `waves`, and the part wave_tail of the unused rest of the last one.
double waves_charged(double waves, const KernelLaw& law) {
  return std::max(1.0, waves + law.wave_tail * (std::ceil(waves) - waves));
}

// The largest number of splits of k; each doubling of the splits doubles the blocks of a product
// that has few tiles.
constexpr int most_splits_of_k = 128;

// Seconds of a product with the cheapest tile shape and split of k. A tile takes ceil(k / splits)
// steps plus a fill, and tiles run in waves over the multiprocessors.
template <std::size_t count>
double tiled_seconds(const MatrixShape& shape, double rate, int multiprocessors,
                     double workspace_bandwidth, const KernelLaw& law,
                     const std::array<Tile, count>& shapes, int most_splits) {
  if (shape.m <= 0 || shape.n <= 0 || shape.k <= 0 || shape.batch <= 0) return 0;
  const double sms = std::max(multiprocessors, 1);
  double best = std::numeric_limits<double>::infinity();
  for (const Tile& tile : shapes) {
    // `blocks` counts thread blocks. `per_step` is the seconds of one step of k for a tile on one
    // multiprocessor, which has 1 / sms of the rate. `fill` is the seconds to fill the pipeline,
    // which shrink with the tile.
    const double blocks = std::ceil(shape.m / tile.m) * std::ceil(shape.n / tile.n) * shape.batch;
    const double per_step =
        2 * tile.m * tile.n * sms / (rate * tile_efficiency(tile, law.tile_reuse));
    const double fill = law.tile_fill_seconds * tile.m * tile.n / (tiles[0].m * tiles[0].n) +
                        law.tile_fill_steps * per_step;
    for (int splits = 1; splits <= most_splits; splits *= 2) {
      const double steps = std::ceil(shape.k / splits);
      double seconds = waves_charged(blocks * splits / sms, law) * (per_step * steps + fill);
      // Every split writes its partial sums in fp32, and one pass reads them all.
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

// Share of the fp32 peak that products can use. Data sheets of GA10x and AD10x count 128 fp32 lanes
// per multiprocessor, but 64 lanes also do the integer work (GA102 white paper), and shared memory
// feeds only 64 lanes. Large fp32 products reach 0.30 to 0.38 of the data sheet's peak on an L4,
// but 0.75 to 0.9 on V100, A100 and H100 (NeuSight's rows, reference/kernels/gemm_fp32.csv).
double fp32_lanes_that_multiply(const Device& device) {
  const bool shared = device.compute_capability == 86 || device.compute_capability == 89;
  return shared ? 0.5 : 1;
}

// The best rate (FLOP/s) of a product without matrix units. Products in a mode that the device
// lacks (bf16 on a V100) also run at this rate.
double vector_product_rate(const Device& device, double fraction) {
  return device.fp32_flops * fp32_lanes_that_multiply(device) * fraction;
}

// The best rate (FLOP/s) of the device in a mode. `fraction`: the share of the matrix units' peak
// that kernels reach.
double matrix_rate(MathMode mode, double fraction, const Device& device) {
  return on_matrix_units(mode, device) ? peak_flops(device, mode) * fraction
                                       : vector_product_rate(device, device.efficiency.matmul_fp32);
}

// (a^power + b^power)^(1/power): the larger of two times, with a penalty if both are similar.
double smooth_max(double a, double b, double power) {
  const double larger = std::max(a, b), smaller = std::min(a, b);
  if (larger <= 0) return 0;
  return larger * std::pow(1 + std::pow(smaller / larger, power), 1 / power);
}

double memory_rate(const Device& device) {
  return device.memory_bandwidth * device.efficiency.memory;
}

// Seconds of memory traffic. A part of the data is still in the L2 cache from the previous kernel.
// This part falls linearly with `bytes`, to 0 at the size of the cache, so that the time is
// monotone and continuous in `bytes`.
double traffic_seconds(double bytes, const Device& device, const KernelLaw& law) {
  if (bytes <= 0) return 0;
  const double rate = memory_rate(device);
  const double resident =
      device.l2_bytes > 0 ? std::max(0.0, 1 - bytes / device.l2_bytes) * (1 - 1 / law.cache_speedup)
                          : 0;
  return bytes * (1 - resident) / rate + law.stream_ramp_seconds;
}

// Seconds of a kernel that only streams. If element_bytes > 0, its loads and stores are issued
// element by element, which limits kernels with narrow elements.
double streaming_seconds(double bytes, int element_bytes, const Device& device,
                         const KernelLaw& law) {
  const double issue_rate = device.multiprocessors * device.clock_hz * law.elements_per_clock;
  if (element_bytes <= 0 || issue_rate <= 0) return traffic_seconds(bytes, device, law);
  const double issue = bytes / element_bytes / issue_rate;
  return smooth_max(traffic_seconds(bytes, device, law), issue, law.smoothing);
}

// The largest power of two, at most 16, such that all rows of the operands and of the result begin
// at multiples of that many bytes.
int row_alignment(const Kernel& kernel) {
  // In a weight gradient k counts rows (tokens), and m runs along the rows of the output's
  // gradient.
  const bool weight = kernel.pass == Pass::weight_gradient;
  const auto element = static_cast<std::int64_t>(16 / alignment(kernel.math));
  int bytes = 16;
  for (const std::int64_t length : {weight ? kernel.m : kernel.k, kernel.n}) {
    while (length * element % bytes != 0) bytes /= 2;
  }
  return bytes;
}

// Share of their speed that matrix units reach with rows that do not begin at multiples of 16
// bytes. Since Hopper, a copy engine that requires aligned rows feeds the matrix units; products
// with other rows run on the instructions of Ampere. The numbers were measured on an H100 with
// cuBLAS 13.1 (platforms/measurements/h100-sxm5-80gb/profile): rows of 2050 and 4100 values
// compared with 2048 and 4096 in efficiency.yaml; odd rows, and gradients with aligned results, in
// GPT-2's head with its 50257 rows at batches 8 and 32.
double misaligned_share(const Kernel& kernel, const Device& device, const KernelLaw& law) {
  const int bytes = row_alignment(kernel);
  if (bytes >= 16) return 1;
  if (device.compute_capability < 90) return law.misaligned;
  if (kernel.math == MathMode::tf32) return 0.32;
  if (bytes == 2) return kernel.pass == Pass::forward ? 0.116 : 0.183;
  return bytes == 4 ? 0.233 : 0.313;
}

// Share of their speed that Hopper's matrix units reach for tf32 gradients. They read tf32 operands
// from shared memory only along k (PTX, wgmma: no transposed operands of 32 bits), but each
// gradient has one operand in the other direction. Measured for the gradients of GPT-2's four
// products on an H100, batches 8 and 32 (profile.yaml beside efficiency.yaml).
double transposed_share(const Kernel& kernel, const Device& device) {
  const bool transposed = kernel.math == MathMode::tf32 && kernel.pass != Pass::forward;
  return transposed && device.compute_capability == 90 ? 0.7 : 1;
}

// A matrix product; fp8 and fp4 have an achieved fraction of their own.
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

// Whether PyTorch uses cuDNN for a depthwise convolution: always with channels last, and in fp16
// for small square filters (use_cudnn_depthwise in aten/src/ATen/native/Convolution.cpp). For all
// others it uses its own kernels.
bool library_depthwise(const Kernel& kernel) {
  const ConvGeometry& g = kernel.conv;
  const bool small = g.kernel_h == g.kernel_w && g.kernel_h <= 5 && g.kernel_h % 2 == 1;
  return g.channels_last ||
         (kernel.math == MathMode::fp16 && small && g.channels_in >= 32 && g.dilation == 1);
}

// Seconds of a depthwise convolution, whose multiply-adds run on the vector units.
double vector_seconds(const Kernel& kernel, const Device& device, const KernelLaw& law) {
  const ConvGeometry& g = kernel.conv;
  // Most instructions of these kernels load values, compute indices and check bounds. Their limits
  // (issue slots, integer lanes) have been equal per multiprocessor and clock since Volta. The rate
  // is therefore in units of 64 multiply-adds, also for devices that count 128 fp32 lanes in their
  // peak (docs/device-models.md).
  constexpr double lanes = 64;
  const double lane_flops = 2 * lanes * device.multiprocessors * device.clock_hz;
  const double peak = lane_flops > 0 ? std::min(device.fp32_flops, lane_flops) : device.fp32_flops;
  double rate = peak * device.efficiency.vector;
  if (g.channels_in == g.groups && !library_depthwise(kernel)) rate *= law.depthwise_native;
  if (kernel.pass == Pass::weight_gradient) rate *= law.vector_weight_gradient;
  // The data gradient computes an output for each pixel of the input; the other passes work on the
  // pixels of the output.
  const double pixels = kernel.pass == Pass::data_gradient
                            ? static_cast<double>(g.height_in) * static_cast<double>(g.width_in)
                            : static_cast<double>(g.height_out) * static_cast<double>(g.width_out);
  const std::int64_t channels = kernel.pass == Pass::data_gradient ? g.channels_in : g.channels_out;
  const double outputs = static_cast<double>(g.images) * static_cast<double>(channels) * pixels;
  return (kernel.flops + 2 * law.vector_overhead_taps * outputs) / rate;
}

// The law with the tile constants of grouped convolutions in plain fp32, whose sums are short.
KernelLaw of_groups(KernelLaw law) {
  law.tile_fill_steps = law.grouped_fill_steps;
  law.tile_reuse = law.grouped_tile_reuse;
  return law;
}

// Tile shapes of cuDNN's plain fp32 kernels for filters of more than one tap, and of unfused
// Winograd's products (128x128, 128x64 and 128x32 in the kernels' names). Only the weight gradient,
// which has a long sum, is split along k. Convolutions of 1 x 1 run as products.
constexpr std::array plain_tiles{Tile{128, 128}, Tile{128, 64}, Tile{128, 32}};

double plain_convolution_seconds(const MatrixShape& shape, double rate, bool weight_gradient,
                                 const Device& device, const KernelLaw& law) {
  if (weight_gradient)
    return matrix_seconds(shape, rate, device.multiprocessors, memory_rate(device), law);
  return tiled_seconds(shape, rate, device.multiprocessors, memory_rate(device), law, plain_tiles,
                       1);
}

// Whether Winograd kernels exist for the geometry.
bool may_use_winograd(const Kernel& kernel) {
  const ConvGeometry& g = kernel.conv;
  return g.kernel_h == 3 && g.kernel_w == 3 && g.stride == 1 && g.dilation == 1;
}

// Sizes of a 3 x 3 convolution in one of its passes, with `in` and `out` channels per group. The
// data gradient is a convolution of the output's gradient with the channels exchanged.
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
// multiplies: 16 multiplications per tile and channel instead of 36. A block computes, for 32
// channels, 4 x 8 tiles of one image (cuDNN's kernels have tile148 in their names), which are 8 x
// 16 outputs. In the trace tests/data/ns_resolution_trace of HolisticTraceAnalysis, 64 channels of
// 32 images of 56 x 56 run in a grid of 64 x 7 x 4 blocks.
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

// Winograd's algorithm F(4 x 4, 3 x 3) in three kernels that pass the transformed values through
// memory: 36 multiplications per tile and channel instead of 144, as 36 batched products.
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
  // fp32 bytes of the transformed tensors; one kernel writes them and the next reads them.
  const double transformed = 4 * points * (covered * (of.in + of.out) + of.in * of.out);
  return plain_convolution_seconds(shape, rate, weight, device, law) +
         2 * transformed / memory_rate(device);
}

// A convolution: depthwise on the vector units, otherwise the fastest of implicit GEMM and (in
// plain fp32) Winograd's algorithm.
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
  // Before Ampere, grouped kernels with channels first run without matrix units in every precision.
  const bool plain = !on_matrix_units(kernel.math, device) ||
                     (g.groups > 1 && !g.channels_last && device.compute_capability < 80);
  if (plain) rate = vector_product_rate(device, device.efficiency.convolution_fp32);
  if (g.groups > 1) rate *= plain ? law.grouped_fp32 : law.grouped;
  if (kernel.pass == Pass::weight_gradient)
    rate *= plain ? law.weight_gradient_fp32 : law.weight_gradient;
  MatrixShape shape{static_cast<double>(kernel.m), static_cast<double>(kernel.n),
                    static_cast<double>(kernel.k), static_cast<double>(kernel.batch)};
  // The data gradient of a strided convolution skips the taps that have no output.
  const double dense = 2 * shape.m * shape.n * shape.batch;
  if (dense > 0) shape.k = std::min(shape.k, kernel.flops / dense);
  if (!plain) {
    // Channels are padded to the matrix units' loads of 16 bytes: 3 input channels cost as much as
    // 8 (in tf32 as 4).
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

// Fused attention: its FLOPs divided by an achieved fraction of the peak. Since Ampere, fused
// attention of 32-bit values computes each product as three tf32 products, whether tf32 is allowed
// or not (PyTorch, mem_eff_attention/gemm_kernel_utils.h: OpMultiplyAddFastF32): on an H100,
// GPT-2's attention takes 74.8 and 74.4 ms in the two cases. Its backward then runs at 1.14 times
// the rate of its forward.
KernelTime attention_time(const Kernel& kernel, const Device& device, const KernelLaw& law) {
  const bool in_parts = device.compute_capability >= 80 &&
                        (kernel.math == MathMode::tf32 || kernel.math == MathMode::fp32);
  double rate = on_matrix_units(kernel.math, device) && !in_parts
                    ? peak_flops(device, kernel.math) * device.efficiency.attention
                    : vector_product_rate(device, device.efficiency.attention);
  if (kernel.pass != Pass::forward) rate *= in_parts ? 1.14 : law.attention_backward;
  const double head = static_cast<double>(std::max<std::int64_t>(kernel.k, 1));
  const double softmax = (1 + law.attention_softmax * 128 / head) / (1 + law.attention_softmax);
  // The kernels compute whole tiles of at least 64 queries and keys, also if a sequence fills only
  // a part of its last tile: 197 tokens of a vision transformer cost as much as 256
  // (flash_fwd_launch_template.h of FlashAttention-2; kQueriesPerBlock and kKeysPerBlock of
  // mem_eff_attention).
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

// Compute time of max pooling's backward with channels first, where each element of the input
// searches the windows that contain it. 0 on CPUs, which add at the stored positions instead.
double searching_seconds(const Kernel& kernel, const Device& device, const KernelLaw& law) {
  const double clocks = device.multiprocessors * device.clock_hz;
  if (device.architecture == Architecture::cpu || clocks <= 0) return 0;
  return static_cast<double>(kernel.searching_elements) * law.max_pool_backward_clocks / clocks;
}

// Time of a batch norm in bf16 relative to fp16. PyTorch uses cuDNN for batch norm in all types but
// bf16 (use_cudnn in aten/src/ATen/native/Normalization.cpp); in bf16 its own kernels assign each
// channel to one block. Measured in ResNet-50 and DenseNet-121 on an H100, batches 8 and 32
// (platforms/measurements/h100-sxm5-80gb/profile).
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

// The ratio of measured to modelled time at these sizes. A cache per thread holds earlier results,
// because layers repeat and a search through all measured kernels takes longer than the model
// itself.
double ratio_at(const std::shared_ptr<const MeasuredKernels>& measured,
                const std::vector<MeasuredKernel>& kernels, const KernelSizes& sizes) {
  struct Memory {
    std::shared_ptr<const MeasuredKernels> of;  // held, so that no other table can get its address
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

// Correction by measurements of the same chip: the ratio of measured to modelled time of this
// kernel, or of kernels of similar size. 1 for kinds of kernels that were not measured. The data
// gradient of a convolution counts as a convolution with its channels exchanged.
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

// A tf32 kernel and the layout changes that follow it are replaced together. An fp32 kernel needs
// no layout changes, so its time is compared with that of the whole group.
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
