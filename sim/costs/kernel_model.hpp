// Device time of one kernel on one device: floor + the larger of arithmetic and memory time, joined
// smoothly. The device brings peaks and achieved fractions (hardware/efficiency.hpp); how these
// depend on the shape of the work is the same law for every device and stands here.
// docs/device-models.md explains each term and prints how well the whole fits.
#pragma once

#include <vector>

#include "hardware/device.hpp"
#include "workload/step.hpp"

namespace lockstep {

// Shape dependence, shared by all devices. Values marked "fit" come from lockstep-fit.
struct KernelLaw {
  // total = (compute^p + memory^p)^(1/p): how completely arithmetic and traffic overlap. Fit.
  double smoothing = 2.24;
  // Matrix tiles: seconds to fill the pipeline of the largest tile and to write its result, during
  // which its multiprocessor does not multiply. Latencies and write-out, so no faster on a faster
  // matrix unit; smaller tiles hide it in proportion, by running side by side. Fit.
  double tile_fill_seconds = 9.73e-07;
  // ... and steps of k during which it fills. Fit.
  double tile_fill_steps = 12.1;
  // The last, partly filled wave of tiles costs between its own share of a wave (0) and a whole one
  // (1): with several tiles in flight per multiprocessor the remaining ones run faster. Fit.
  double wave_tail = 0.479;
  // A tile of a x b reaches x/(x+tile_reuse) of the best, x = ab/(a+b) multiply-adds per loaded
  // value.
  double tile_reuse = 8.65;
  // The same two for convolutions in groups in plain fp32: short sums, whose start weighs more. Fit.
  double grouped_fill_steps = 227;
  double grouped_tile_reuse = 10.2;
  // Matrix units before Hopper's, fed with rows that begin at no multiple of 16 bytes (fact 129).
  double misaligned = 0.5;
  // Speed of a convolution's weight gradient relative to its forward (long k, split-k; fact 130).
  // Fit.
  double weight_gradient = 0.822;
  double weight_gradient_fp32 = 0.699;  // ... without matrix units
  // Fused attention: scores cost vector work whatever the head size, as much as this share of the
  // products of a head of 128 (Dao 2023, "FlashAttention-2", figures 4 to 6: heads of 64 run at
  // 0.85 of the speed of heads of 128).
  double attention_softmax = 0.2;
  // Fused attention: backward speed relative to forward (recomputes scores; fact 132 anchors).
  double attention_backward = 0.781;
  // Version 1 of the fused kernels relative to version 2 (about half, Dao 2023). Fit.
  double flash_attention_1 = 0.428;
  // Version 3, and cuDNN's kernels, relative to version 2 on Hopper: 0.57 to 0.61 of its time
  // (docs/mesh-validation.md); Shah et al. 2024, "FlashAttention-3", figures 5 and 6: 1.5 to 2.0 forward.
  double flash_attention_3 = 1.7;
  // Depthwise and grouped kernels outside the matrix units: weight gradient relative to forward.
  // Fit.
  double vector_weight_gradient = 0.552;
  // ... and per output element they do the index work of this many more taps of the filter. Fit.
  double vector_overhead_taps = 33.9;
  // PyTorch's own depthwise kernels relative to cuDNN's. Fit.
  double depthwise_native = 0.439;
  // Convolutions in groups relative to the same products without, off and on matrix units. Fit.
  double grouped_fp32 = 0.756;
  double grouped = 0.9;
  // 3 x 3 convolutions of stride 1 may run by Winograd's algorithm (Lavin and Gray 2016): its
  // products relative to implicit ones, in the fused kernels (tiles of 2 x 2) and in those that keep
  // the transformed values in memory (4 x 4). Fit.
  double winograd = 0.783;
  double winograd_unfused = 0.909;
  // Traffic of reductions over the ideal bytes: batch norm reads its input twice (fact 131). Fit.
  double normalization_traffic = 0.886;
  // Latency-bound start of streaming: a kernel must keep this long a queue of bytes in flight
  // before it reaches full bandwidth (Little's law), in seconds at full bandwidth.
  double stream_ramp_seconds = 3.76e-07;
  // Elements (read + written) a multiprocessor streams per clock at most in kernels that do more
  // than map vectors of 16 bytes: reductions (norms, softmax), layout changes, pooling. Narrow
  // elements on a fast memory are bound by this, not by bandwidth; elementwise kernels are exempt.
  // Fit.
  double elements_per_clock = 3.34;
  // Backward of max pooling with channels first: clocks of a multiprocessor for each element of the input, which
  // divides for the windows that hold it and compares their 64-bit positions (max_pool_backward_nchw in
  // aten/src/ATen/native/cuda/DilatedMaxPool2d.cu). Median of 56 layers of VGG-16, ResNet-50 and DenseNet-121 on an
  // H100 in four precisions, batches 8 and 32; 2.8 without any one network, too.
  double max_pool_backward_clocks = 2.8;
  // Traffic of layout changes and concatenations over the ideal bytes: their accesses coalesce
  // badly on one side. Fit.
  double copy_traffic = 0.757;
  // Bytes that still lie in the L2 cache come this much faster than memory (fact 131).
  double cache_speedup = 1.01;
};

// Whether products of this mode run on matrix units here; else they run on the vector units in fp32.
bool on_matrix_units(MathMode mode, const Device& device);

struct KernelTime {
  double compute = 0;  // seconds the arithmetic alone would take
  double memory = 0;   // seconds the traffic alone would take
  double total = 0;    // seconds on the device, floors of all launches included
};

// How a 3 x 3 convolution of stride 1 in plain fp32 is computed: the library takes what is fastest.
enum class Algorithm { fastest, implicit_product, winograd };

// `element_bytes`: of the activations that reductions, copies and pooling move.
KernelTime kernel_time(const Kernel& kernel, const Device& device, const KernelLaw& law = {},
                       int element_bytes = 4, Algorithm algorithm = Algorithm::fastest);

// The kernels that a library runs for those of a layer. TF32 is a permission: cuBLAS and cuDNN
// still take an fp32 kernel where it is faster, by Winograd's algorithm or because it needs no
// change of layout. (torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32.)
std::vector<Kernel> chosen_kernels(const std::vector<Kernel>& kernels, const Device& device,
                                   const KernelLaw& law = {}, int element_bytes = 4);

// Seconds to stream `bytes` (read + written) of fp32 values in `launches` kernels of equal size.
double stream_seconds(double bytes, int launches, const Device& device, const KernelLaw& law = {});

// Seconds of `batch` products of m x k by k x n on matrix units whose peak times fraction is `rate`
// (FLOP/s over `multiprocessors`), by the best tiling and split of k. Ceil functions and all: this
// is where wave quantisation comes from (fact 129).
struct MatrixShape {
  double m = 0, n = 0, k = 0, batch = 1;
};
double matrix_seconds(const MatrixShape& shape, double rate, int multiprocessors,
                      double workspace_bandwidth, const KernelLaw& law = {});

}  // namespace lockstep
