// Device time of one kernel on one device: a floor per launch plus a smooth maximum of arithmetic
// time and memory time (roofline). The device brings its peaks, and the fractions of its peaks that
// kernels reach (hardware/efficiency.hpp). The dependence on the shape of the work is one law for
// all devices, KernelLaw. If kernels of the chip were measured one by one (Device::measured), they
// correct the result. docs/device-models.md explains each term and prints how well the law fits
// measurements.
#pragma once

#include <vector>

#include "hardware/device.hpp"
#include "workload/step.hpp"

namespace lockstep {

// Shape dependence, shared by all devices. Values marked "fit" come from lockstep-fit.
struct KernelLaw {
  // Exponent p in total = (compute^p + memory^p)^(1/p): the larger it is, the more completely
  // arithmetic and traffic overlap. Fit.
  double smoothing = 2.24;
  // Seconds to fill the pipeline of the largest matrix tile and to write its result, during which
  // its multiprocessor does not multiply. These are latencies, so a faster matrix unit does not
  // shorten them. Smaller tiles run side by side and hide them in proportion to their size. Fit.
  double tile_fill_seconds = 9.73e-07;
  // The part of the fill that depends on the matrix unit, as a number of steps of k. Fit.
  double tile_fill_steps = 12.1;
  // Cost of the last, partly filled wave of tiles: between its own share of a wave (0) and a whole
  // wave (1). It is not a whole wave, because with several tiles in flight per multiprocessor the
  // remaining ones run faster. Fit.
  double wave_tail = 0.479;
  // A tile of a x b values reaches the share x / (x + tile_reuse) of the limit, with x = ab / (a +
  // b) multiply-adds per loaded value. Fit.
  double tile_reuse = 8.65;
  // tile_fill_steps and tile_reuse for convolutions in groups in plain fp32. Their sums are short,
  // so the fill weighs more. Fit.
  double grouped_fill_steps = 227;
  double grouped_tile_reuse = 10.2;
  // Speed that matrix units before Hopper's have with rows that do not begin at multiples of 16
  // bytes, relative to aligned rows (fact 129).
  double misaligned = 0.5;
  // Speed of a convolution's weight gradient on matrix units relative to its forward (long k,
  // split-k; fact 130). Fit.
  double weight_gradient = 0.822;
  double weight_gradient_fp32 = 0.699;  // without matrix units. Fit.
  // Fused attention: the softmax of the scores is vector work that does not depend on the head
  // size. It costs this share of the time of the products of a head of 128 (Dao 2023,
  // "FlashAttention-2", figures 4 to 6: heads of 64 run at 0.85 of the speed of heads of 128).
  double attention_softmax = 0.2;
  // Fused attention: speed of backward, which computes the scores a second time, relative to
  // forward (fact 132 has measurements). Fit.
  double attention_backward = 0.781;
  // Speed of version 1 of the fused kernels relative to version 2 (about half, Dao 2023). Fit.
  double flash_attention_1 = 0.428;
  // Speed of version 3, and of cuDNN's kernels, relative to version 2 on Hopper. Steps measured
  // there take 0.57 to 0.61 of version 2's time (docs/mesh-validation.md); Shah et al. 2024,
  // "FlashAttention-3", figures 5 and 6, have 1.5 to 2.0 times the speed in forward.
  double flash_attention_3 = 1.7;
  // Depthwise kernels on the vector units: speed of the weight gradient relative to forward. Fit.
  double vector_weight_gradient = 0.552;
  // Index work of depthwise kernels per output element, as a number of additional filter taps. Fit.
  double vector_overhead_taps = 33.9;
  // Speed of PyTorch's own depthwise kernels relative to cuDNN's. Fit.
  double depthwise_native = 0.439;
  // Speed of convolutions in groups relative to equal products without groups: in plain fp32 on
  // vector units, and on matrix units. Fit.
  double grouped_fp32 = 0.756;
  double grouped = 0.9;
  // 3 x 3 convolutions of stride 1 may run by Winograd's algorithm (Lavin and Gray 2016). Speed of
  // its products relative to implicit GEMM: in fused kernels with tiles of 2 x 2, and in kernels
  // with tiles of 4 x 4 that write the transformed values to memory. Fit.
  double winograd = 0.783;
  double winograd_unfused = 0.909;
  // Traffic of reductions relative to their counted bytes, in which batch norm reads its input
  // twice (fact 131). Fit.
  double normalization_traffic = 0.886;
  // Ramp of streaming: a kernel reaches full bandwidth only when a queue of bytes is in flight
  // (Little's law). This is the length of that queue in seconds at full bandwidth. Fit.
  double stream_ramp_seconds = 3.76e-07;
  // The most elements (read + written) that a multiprocessor streams per clock in reductions
  // (norms, softmax), layout changes and pooling. It limits kernels with narrow elements on a fast
  // memory. Elementwise kernels, which move vectors of 16 bytes, are exempt. Fit.
  double elements_per_clock = 3.34;
  // Backward of max pooling with channels first: clocks of a multiprocessor for each element of the
  // input. The kernel divides to find the windows that contain the element, and compares their
  // 64-bit positions (max_pool_backward_nchw in aten/src/ATen/native/cuda/DilatedMaxPool2d.cu).
  // Median of 56 layers of VGG-16, ResNet-50 and DenseNet-121 on an H100 in four precisions,
  // batches 8 and 32; it is also 2.8 without any one network.
  double max_pool_backward_clocks = 2.8;
  // Traffic of layout changes and concatenations relative to their counted bytes; on one side their
  // accesses coalesce badly. Fit.
  double copy_traffic = 0.757;
  // Bandwidth for bytes that are still in the L2 cache, relative to memory (fact 131). Fit.
  double cache_speedup = 1.01;
};

// Whether products in this mode run on matrix units of the device. Otherwise they run on the vector
// units in fp32.
bool on_matrix_units(MathMode mode, const Device& device);

struct KernelTime {
  double compute = 0;  // seconds of the arithmetic without any traffic
  double memory = 0;   // seconds of the traffic without any arithmetic
  double total = 0;    // seconds on the device, including the floors of all launches
};

// Algorithm of a 3 x 3 convolution of stride 1 in plain fp32. Libraries choose the fastest one; the
// other two values are for comparisons with measured kernels.
enum class Algorithm { fastest, implicit_product, winograd };

// Time of one kernel; 0 without launches. `element_bytes`: bytes of one element of the activations
// that the kernel moves. Products, convolutions, attention and elementwise kernels ignore it.
KernelTime kernel_time(const Kernel& kernel, const Device& device, const KernelLaw& law = {},
                       int element_bytes = 4, Algorithm algorithm = Algorithm::fastest);

// The kernels that the libraries actually run for the given kernels of a layer. The mode tf32 is
// only a permission (torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32):
// cuBLAS and cuDNN still choose an fp32 kernel if it is faster, because of Winograd's algorithm or
// because it needs no change of layout.
std::vector<Kernel> chosen_kernels(const std::vector<Kernel>& kernels, const Device& device,
                                   const KernelLaw& law = {}, int element_bytes = 4);

// Seconds to stream `bytes` (read + written) of fp32 values in `launches` kernels of equal size.
double stream_seconds(double bytes, int launches, const Device& device, const KernelLaw& law = {});

// Seconds of `batch` products of m x k by k x n matrices with the best tiling and split of k.
// `rate`: achievable FLOP/s of the whole device with its `multiprocessors`. `workspace_bandwidth`:
// bytes/s at which the partial sums of a split are written and read. Tiles and waves are rounded
// up, which gives the steps of wave quantization (fact 129).
struct MatrixShape {
  double m = 0, n = 0, k = 0, batch = 1;
};
double matrix_seconds(const MatrixShape& shape, double rate, int multiprocessors,
                      double workspace_bandwidth, const KernelLaw& law = {});

}  // namespace lockstep
