// Do kernel times follow the physics (launch floor, bandwidth, tiles, alignment), and are they
// monotone in sizes and rates?
#include "costs/kernel_model.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernel_test_device.hpp"

namespace lockstep::kernel_model_test {
namespace {

Kernel gemm(std::int64_t m, std::int64_t n, std::int64_t k, MathMode math = MathMode::bf16,
            std::int64_t batch = 1) {
  Kernel kernel;
  kernel.kind = KernelKind::gemm;
  kernel.math = math;
  kernel.m = m;
  kernel.n = n;
  kernel.k = k;
  kernel.batch = batch;
  kernel.flops = 2.0 * m * n * k * batch;
  kernel.bytes_read = 2.0 * batch * (m * k + k * n);
  kernel.bytes_written = 2.0 * batch * m * n;
  return kernel;
}

Kernel streaming(double bytes) {
  Kernel kernel;
  kernel.kind = KernelKind::elementwise;
  kernel.bytes_read = bytes / 2;
  kernel.bytes_written = bytes / 2;
  return kernel;
}

Kernel convolution(std::int64_t channels_in, std::int64_t channels_out, std::int64_t groups,
                   int size, std::int64_t side, std::int64_t images, Pass pass, MathMode math) {
  Kernel kernel;
  kernel.kind = KernelKind::convolution;
  kernel.pass = pass;
  kernel.math = math;
  kernel.conv = {.channels_in = channels_in,
                 .channels_out = channels_out,
                 .groups = groups,
                 .kernel_h = size,
                 .kernel_w = size,
                 .height_in = side,
                 .width_in = side,
                 .height_out = side,
                 .width_out = side,
                 .images = images};
  const std::int64_t pixels = images * side * side, window = size * size;
  kernel.batch = groups;
  if (pass == Pass::weight_gradient) {
    kernel.m = channels_out / groups;
    kernel.n = channels_in / groups * window;
    kernel.k = pixels;
  } else {
    const bool forward = pass == Pass::forward;
    kernel.m = pixels;
    kernel.n = (forward ? channels_out : channels_in) / groups;
    kernel.k = (forward ? channels_in : channels_out) / groups * window;
  }
  kernel.flops = 2.0 * kernel.m * kernel.n * kernel.k * groups;
  kernel.bytes_read = 2.0 * pixels * channels_in;
  kernel.bytes_written = 2.0 * pixels * channels_out;
  return kernel;
}

TEST(KernelModel, LongStreamIsBytesOverAchievedBandwidthPlusFloor) {
  Device d = round_device();
  d.clock_hz = 1e15;  // issuing loads is never the limit
  const KernelLaw law;
  const double bytes = 1e9;  // far beyond the cache
  const double expected = 2e-6 + law.stream_ramp_seconds + bytes / (2e12 * 0.8);
  EXPECT_NEAR(kernel_time(streaming(bytes), d).total, expected, expected * 1e-12);
  EXPECT_NEAR(stream_seconds(bytes, 1, d), expected, expected * 1e-12);
  EXPECT_NEAR(stream_seconds(4 * bytes, 4, d), 4 * expected, expected * 1e-11);
}

TEST(KernelModel, SmallStreamComesFromTheCache) {
  const Device d = round_device();
  const KernelLaw law;
  const double bytes = 1e5;
  const double from_memory = law.stream_ramp_seconds + bytes / (2e12 * 0.8);
  EXPECT_LT(kernel_time(streaming(bytes), d).memory, from_memory);
}

TEST(KernelModel, NothingLaunchedTakesNoDeviceTime) {
  Kernel view = streaming(1e9);
  view.launches = 0;
  EXPECT_EQ(kernel_time(view, round_device()).total, 0);
}

TEST(KernelModel, LargeProductReachesTheAchievedFractionOfThePeak) {
  const Device d = round_device();
  // whole waves of 256 x 128 tiles on 100 multiprocessors
  const Kernel k = gemm(25600, 12800, 16384);
  const double rate = k.flops / kernel_time(k, d).total;
  EXPECT_GT(rate, 0.985 * 0.8 * 200e12);
  EXPECT_LE(rate, 0.8 * 200e12);
}

TEST(KernelModel, OneBlockMoreThanAWaveCostsAWholeWave) {
  KernelLaw law;
  law.tile_reuse = 0;
  law.tile_fill_steps = 0;
  law.wave_tail = 1;
  const double rate = 100e12;
  // The common dimension is so long that each block is one piece: a kernel would split short blocks
  // instead.
  const auto seconds = [&](double blocks) {
    return matrix_seconds({256, 128, 1 << 20, blocks}, rate, 100, 1e3, law);
  };
  EXPECT_NEAR(seconds(100), 2.0 * 256 * 128 * 100 * (1 << 20) / rate + law.tile_fill_seconds, 1e-9);
  // The 101st block needs a second wave. Smaller tiles soften the step, but the cost exceeds one
  // hundredth.
  EXPECT_GT(seconds(101) / seconds(100), 1.015);
  EXPECT_LT(seconds(101) / seconds(100), 2 + 1e-9);
}

// Filling a tile takes the same time on a faster matrix unit, so a short sum gains less than the
// peak does.
TEST(KernelModel, FasterMatrixUnitsGainLessFromShortSums) {
  KernelLaw law;
  law.tile_reuse = 0;
  law.tile_fill_steps = 0;
  law.wave_tail = 1;
  // One whole wave of 256 x 128 tiles on 100 multiprocessors.
  const auto seconds = [&](double rate) {
    return matrix_seconds({256, 128, 2048, 100}, rate, 100, 1e3, law);
  };
  const double arithmetic = 2.0 * 256 * 128 * 100 * 2048 / 400e12;
  const double fill = law.tile_fill_seconds;
  EXPECT_NEAR(seconds(100e12) / seconds(400e12), (4 * arithmetic + fill) / (arithmetic + fill),
              1e-9);
}

// With stride 2, the data gradient of a depthwise convolution writes four times the forward's
// output.
TEST(KernelModel, StridedDepthwiseDataGradientCostsMoreThanItsForward) {
  const Device d = round_device();
  const auto seconds = [&](Pass pass, int stride) {
    Kernel kernel = convolution(128, 128, 128, 3, 56, 64, pass, MathMode::fp16);
    kernel.conv.stride = stride;
    kernel.conv.height_out = kernel.conv.width_out = 56 / stride;
    kernel.flops = 2.0 * 9 * 128 * 64 * kernel.conv.height_out * kernel.conv.width_out;
    return kernel_time(kernel, d).compute;
  };
  EXPECT_DOUBLE_EQ(seconds(Pass::data_gradient, 1), seconds(Pass::forward, 1));
  EXPECT_GT(seconds(Pass::data_gradient, 2), 2 * seconds(Pass::forward, 2));
  EXPECT_LT(seconds(Pass::data_gradient, 2), seconds(Pass::data_gradient, 1));
}

TEST(KernelModel, WeightGradientWithFewTilesSplitsItsLongSum) {
  const double rate = 100e12;
  // one block on one of 100 multiprocessors
  const double unsplit_lower_bound = 2.0 * 64 * 64 * 1e6 * 100 / rate;
  EXPECT_LT(matrix_seconds({64, 64, 1e6, 1}, rate, 100, 1e12), unsplit_lower_bound / 20);
}

TEST(KernelModel, MisalignedDimensionsLoseMatrixSpeed) {
  const Device d = round_device();
  EXPECT_GT(kernel_time(gemm(8192, 8191, 8192), d).total,
            1.8 * kernel_time(gemm(8192, 8192, 8192), d).total);
  Device hopper = d;
  hopper.compute_capability = 90;
  const auto slower = [&](std::int64_t n, std::int64_t k) {
    return kernel_time(gemm(8192, n, k), hopper).compute /
           kernel_time(gemm(8192, 8192, 8192), hopper).compute;
  };
  EXPECT_NEAR(slower(8191, 8192), 1 / 0.116, 0.1);
  EXPECT_NEAR(slower(8190, 8192), 1 / 0.233, 0.1);
  EXPECT_NEAR(slower(8192, 8188), 1 / 0.313, 0.1);
  // In a weight gradient k counts rows of the batch, so an odd k costs nothing.
  Kernel weight = gemm(8192, 8192, 8191);
  weight.pass = Pass::weight_gradient;
  EXPECT_NEAR(kernel_time(weight, hopper).compute,
              kernel_time(gemm(8192, 8192, 8192), hopper).compute, 1e-4);
  weight = gemm(8191, 8192, 8192);
  weight.pass = Pass::weight_gradient;
  EXPECT_NEAR(
      kernel_time(weight, hopper).compute / kernel_time(gemm(8192, 8192, 8192), hopper).compute,
      1 / 0.183, 0.1);
  // fp32 needs no alignment
  EXPECT_LE(kernel_time(gemm(8192, 8191, 8192, MathMode::fp32), d).total,
            kernel_time(gemm(8192, 8192, 8192, MathMode::fp32), d).total);
}

TEST(KernelModel, ModesOrderByTheirPeaks) {
  const Device d = round_device();
  const double fp32 = kernel_time(gemm(8192, 8192, 8192, MathMode::fp32), d).total;
  const double tf32 = kernel_time(gemm(8192, 8192, 8192, MathMode::tf32), d).total;
  const double bf16 = kernel_time(gemm(8192, 8192, 8192, MathMode::bf16), d).total;
  EXPECT_NEAR(fp32 / tf32, 5, 0.05);
  EXPECT_NEAR(tf32 / bf16, 2, 0.02);
}

TEST(KernelModel, ThreeInputChannelsCostAsMuchAsEight) {
  const Device d = round_device();
  const auto compute = [&](std::int64_t channels) {
    return kernel_time(convolution(channels, 64, 1, 7, 112, 64, Pass::forward, MathMode::fp16), d)
        .compute;
  };
  EXPECT_NEAR(compute(3), compute(8), compute(8) * 1e-9);
  EXPECT_LT(compute(8), compute(16));
}

TEST(KernelModel, DepthwiseDoesNotUseMatrixUnits) {
  Device d = round_device();
  const Kernel k = convolution(1024, 1024, 1024, 7, 14, 64, Pass::forward, MathMode::fp16);
  const double before = kernel_time(k, d).total;
  d.fp16_flops *= 4;
  EXPECT_DOUBLE_EQ(kernel_time(k, d).total, before);
  Kernel gradient = k;
  gradient.pass = Pass::weight_gradient;
  EXPECT_GT(kernel_time(gradient, d).compute, kernel_time(k, d).compute);
}

// Winograd's algorithm needs adjacent taps, so a dilated filter runs as an implicit product.
TEST(KernelModel, PlainFp32ConvolutionsOfThreeByThreeMayRunByWinogradsAlgorithm) {
  const Device d = round_device();
  for (const Pass pass : {Pass::forward, Pass::data_gradient, Pass::weight_gradient}) {
    Kernel k = convolution(256, 256, 1, 3, 28, 64, pass, MathMode::fp32);
    const double direct_or_not = kernel_time(k, d).compute;
    k.conv.dilation = 2;
    const double direct = kernel_time(k, d).compute;
    EXPECT_GT(direct, 1.3 * direct_or_not);
    EXPECT_LT(direct, 4 * direct_or_not);  // F(4x4, 3x3) needs a quarter of the multiplications
    k.math = MathMode::fp16;
    const double on_matrix_units = kernel_time(k, d).compute;
    k.conv.dilation = 1;
    EXPECT_DOUBLE_EQ(kernel_time(k, d).compute, on_matrix_units);
  }
}

// A block of the fused kernel covers 8 x 16 outputs of one image for 32 channels. An image of 5 x 5
// takes one block, as 8 x 8 does; 9 x 9 takes two and 17 x 17 six. 33 channels cost as much as 64.
TEST(KernelModel, FusedWinogradCoversWholeBlocksOfAnImage) {
  const Device d = round_device();
  KernelLaw fused;
  fused.winograd_unfused = 1e-3;
  const auto seconds = [&](std::int64_t side, std::int64_t channels) {
    const Kernel k = convolution(64, channels, 1, 3, side, 12800, Pass::forward, MathMode::fp32);
    return kernel_time(k, d, fused, 4, Algorithm::winograd).compute;
  };
  EXPECT_DOUBLE_EQ(seconds(5, 64), seconds(8, 64));
  EXPECT_NEAR(seconds(9, 64), 2 * seconds(8, 64), 1e-9 * seconds(9, 64));
  EXPECT_NEAR(seconds(17, 64), 6 * seconds(8, 64), 1e-9 * seconds(17, 64));
  EXPECT_DOUBLE_EQ(seconds(8, 33), seconds(8, 64));
  EXPECT_NEAR(seconds(8, 64), 2 * seconds(8, 32), 1e-9 * seconds(8, 64));
}

// F(2x2, 3x3) needs 16 multiplications for four outputs instead of 36. The blocks fill all waves,
// so the time is the law's rate alone.
TEST(KernelModel, FusedWinogradTakesFourNinthsOfTheProducts) {
  const Device d = round_device();
  KernelLaw law;
  law.winograd_unfused = 1e-3;
  law.tile_fill_steps = 0;
  const Kernel k = convolution(64, 64, 1, 3, 16, 12800, Pass::forward, MathMode::fp32);
  const double rate = d.fp32_flops * d.efficiency.convolution_fp32 * law.winograd;
  const double products = k.flops * 16 / 36;
  EXPECT_NEAR(kernel_time(k, d, law, 4, Algorithm::winograd).compute, products / rate,
              1e-9 * products / rate);
}

// cuDNN has no fused kernel for the weight gradient.
TEST(KernelModel, WeightGradientsHaveNoFusedWinograd) {
  const Device d = round_device();
  KernelLaw slow;
  slow.winograd = 1e-3;
  for (const Pass pass : {Pass::forward, Pass::data_gradient, Pass::weight_gradient}) {
    const Kernel k = convolution(1024, 16, 1, 3, 16, 64, pass, MathMode::fp32);
    KernelLaw quick = slow;
    quick.winograd = 1e3;
    const auto seconds = [&](const KernelLaw& law) {
      return kernel_time(k, d, law, 4, Algorithm::winograd).compute;
    };
    if (pass == Pass::weight_gradient) {
      EXPECT_DOUBLE_EQ(seconds(quick), seconds(slow));
    } else {
      EXPECT_LT(seconds(quick), seconds(slow));
    }
  }
}

// Forward and data gradient of larger filters run in the library's tiles of 128 x 128, 128 x 64 and
// 128 x 32, each with an unsplit sum. One row therefore costs as much as 128, and a sum of 256
// times the length almost 256 times as much. The weight gradient splits its sum. Convolutions of 1
// x 1 are plain products, for which smaller tiles and split sums exist.
TEST(KernelModel, PlainConvolutionsRunInTheTilesOfTheLibrary) {
  const Device d = round_device();
  const auto seconds = [&](int size, std::int64_t in, std::int64_t images, Pass pass) {
    const Kernel k = convolution(in, 32, 1, size, 1, images, pass, MathMode::fp32);
    return kernel_time(k, d).compute;
  };
  EXPECT_DOUBLE_EQ(seconds(5, 64, 1, Pass::forward), seconds(5, 64, 128, Pass::forward));
  EXPECT_GT(seconds(5, 1 << 14, 128, Pass::forward), 240 * seconds(5, 1 << 6, 128, Pass::forward));
  EXPECT_LT(seconds(5, 1 << 6, 1 << 15, Pass::weight_gradient),
            seconds(5, 1 << 15, 1 << 6, Pass::forward) / 4);
  EXPECT_LT(seconds(1, 64, 1, Pass::forward), seconds(1, 64, 128, Pass::forward));
  EXPECT_LT(seconds(1, 1 << 14, 128, Pass::forward), 60 * seconds(1, 1 << 6, 128, Pass::forward));
}

TEST(KernelModel, TheFastestAlgorithmIsTaken) {
  const Device d = round_device();
  for (const std::int64_t channels : {3, 64, 1024}) {
    const Kernel k = convolution(channels, 64, 1, 3, 28, 64, Pass::forward, MathMode::fp32);
    const auto by = [&](Algorithm algorithm) {
      return kernel_time(k, d, {}, 4, algorithm).compute;
    };
    EXPECT_DOUBLE_EQ(by(Algorithm::fastest),
                     std::min(by(Algorithm::implicit_product), by(Algorithm::winograd)));
  }
  // Filters of other sizes have only one algorithm.
  const Kernel k = convolution(64, 64, 1, 5, 28, 64, Pass::forward, MathMode::fp32);
  EXPECT_DOUBLE_EQ(kernel_time(k, d).compute,
                   kernel_time(k, d, {}, 4, Algorithm::winograd).compute);
}

TEST(KernelModel, GroupsUseMatrixUnitsWithChannelsLastOrSinceAmpere) {
  Device volta = round_device();
  volta.compute_capability = 70;
  Device faster = volta;
  faster.fp16_flops *= 4;
  Kernel k = convolution(256, 256, 8, 3, 28, 64, Pass::forward, MathMode::fp16);
  EXPECT_DOUBLE_EQ(kernel_time(k, faster).compute, kernel_time(k, volta).compute);
  faster.compute_capability = 80;
  EXPECT_LT(kernel_time(k, faster).compute, kernel_time(k, volta).compute);
  const double first = kernel_time(k, volta).compute;
  k.conv.channels_last = true;
  EXPECT_LT(kernel_time(k, volta).compute, first);
}

TEST(KernelModel, GradientsInTf32LoseSpeedOnHopper) {
  Device device = round_device();
  Kernel gradient = gemm(8192, 8192, 8192);
  gradient.math = MathMode::tf32;
  const double forward = kernel_time(gradient, device).compute;
  for (const Pass pass : {Pass::data_gradient, Pass::weight_gradient}) {
    gradient.pass = pass;
    device.compute_capability = 80;
    EXPECT_DOUBLE_EQ(kernel_time(gradient, device).compute, forward);
    device.compute_capability = 90;
    EXPECT_NEAR(kernel_time(gradient, device).compute, forward / 0.7, 1e-3 * forward);
  }
}

TEST(KernelModel, AttentionOf32BitsIsTheSameWithTf32SinceAmpere) {
  Device device = round_device();
  Kernel attention;
  attention.kind = KernelKind::attention;
  attention.m = 1024;
  attention.k = 64;
  attention.batch = 96;
  attention.flops = 1e12;
  const auto time = [&](MathMode math, int capability) {
    device.compute_capability = capability;
    attention.math = math;
    return kernel_time(attention, device).compute;
  };
  EXPECT_DOUBLE_EQ(time(MathMode::tf32, 80), time(MathMode::fp32, 80));
  EXPECT_LT(time(MathMode::fp16, 80), time(MathMode::tf32, 80));
}

TEST(KernelModel, BatchNormInBf16IsSlowerThanInFp16) {
  const Device device = round_device();
  Kernel norm;
  norm.kind = KernelKind::normalization;
  norm.bytes_read = 2e9;
  norm.bytes_written = 1e9;
  norm.math = MathMode::fp16;
  const double cudnn = kernel_time(norm, device).memory;
  norm.math = MathMode::bf16;
  EXPECT_NEAR(kernel_time(norm, device).memory, 1.85 * cudnn, 1e-3 * cudnn);
  norm.pass = Pass::backward;
  EXPECT_NEAR(kernel_time(norm, device).memory, 1.5 * cudnn, 1e-3 * cudnn);
}

// In fp16, a depthwise convolution with channels first and a filter of 3 or 5 runs in cuDNN, as
// with channels last. Convolutions in fp32 or of 7 x 7 run in PyTorch's own slower kernels.
TEST(KernelModel, DepthwiseKernelsDependOnLayoutPrecisionAndFilter) {
  const Device d = round_device();
  const auto compute = [&](int size, MathMode math, bool channels_last) {
    Kernel k = convolution(128, 128, 128, size, 28, 64, Pass::forward, math);
    k.conv.channels_last = channels_last;
    return kernel_time(k, d).compute;
  };
  EXPECT_DOUBLE_EQ(compute(3, MathMode::fp16, false), compute(3, MathMode::fp16, true));
  EXPECT_DOUBLE_EQ(compute(3, MathMode::fp32, false),
                   compute(3, MathMode::fp32, true) / KernelLaw{}.depthwise_native);
  EXPECT_DOUBLE_EQ(compute(7, MathMode::fp16, false),
                   compute(7, MathMode::fp16, true) / KernelLaw{}.depthwise_native);
}

TEST(KernelModel, NarrowElementsAreBoundByIssueOnAFastMemory) {
  Device d = round_device();
  const KernelLaw law;
  const double bytes = 1e9;
  Kernel pool = streaming(bytes);
  pool.kind = KernelKind::pooling;
  d.memory_bandwidth = 1e15;
  const double rate = d.multiprocessors * d.clock_hz * law.elements_per_clock;
  EXPECT_NEAR(kernel_time(pool, d, law, 2).memory, bytes / 2 / rate, 1e-3 * bytes / 2 / rate);
  EXPECT_NEAR(kernel_time(pool, d, law, 4).memory, bytes / 4 / rate, 1e-3 * bytes / 4 / rate);
}

TEST(KernelModel, AttentionOfPartlyFilledTilesCostsWholeOnes) {
  Kernel attention;
  attention.kind = KernelKind::attention;
  attention.math = MathMode::fp16;
  attention.k = 64;
  attention.batch = 960;
  const auto compute = [&](std::int64_t queries, std::int64_t keys) {
    attention.m = queries;
    attention.n = keys;
    attention.flops = 4e3 * static_cast<double>(queries * keys);
    return kernel_time(attention, round_device()).compute;
  };
  EXPECT_DOUBLE_EQ(compute(197, 197), compute(256, 256));
  EXPECT_DOUBLE_EQ(compute(256, 65), compute(256, 128));
  EXPECT_DOUBLE_EQ(compute(256, 1024), 4 * compute(256, 256));
}

TEST(KernelModel, GradientsOfMaximaAreBoundByTheSearchForTheirWindows) {
  Device d = round_device();
  Kernel pool = streaming(1e6);
  pool.kind = KernelKind::pooling;
  pool.pass = Pass::backward;
  pool.searching_elements = 1'000'000'000;
  EXPECT_DOUBLE_EQ(kernel_time(pool, d).compute,
                   1e9 * KernelLaw{}.max_pool_backward_clocks / (d.multiprocessors * d.clock_hz));
  d.architecture = Architecture::cpu;
  EXPECT_EQ(kernel_time(pool, d).compute, 0);
}

// The correction is a weighted mean of logarithms: a measured product at 1.5 times the law's time
// has weight 1, the law 0.3. The product itself is corrected by 1.5 ^ (1 / 1.3).
TEST(KernelModel, MeasuredKernelsCorrectThoseNearThem) {
  const Device plain = round_device();
  Device d = plain;
  d.measured = std::make_shared<const MeasuredKernels>(
      MeasuredKernels{{{{0, 10, 11, 12}, std::log(1.5)}},
                      {{{0, 10, 11, 12}, std::log(0.8)}},
                      {{{6, 5, 7, std::log2(28)}, std::log(1.2)}}});
  const auto ratio = [&](const Kernel& k) {
    return kernel_time(k, d).total / kernel_time(k, plain).total;
  };
  const double half = std::pow(1.5, 1 / 1.3);
  EXPECT_NEAR(ratio(gemm(1024, 2048, 4096, MathMode::bf16)), half, 1e-12);
  EXPECT_NEAR(ratio(gemm(1024, 2048, 4096, MathMode::fp16)), half, 1e-12);
  EXPECT_NEAR(ratio(gemm(1024, 2048, 4096, MathMode::fp32)), std::pow(0.8, 1 / 1.3), 1e-12);
  EXPECT_EQ(ratio(gemm(1024, 2048, 4096, MathMode::tf32)), 1);
  EXPECT_EQ(ratio(gemm(64, 2048, 4096)), 1);  // four octaves away
  const auto of = [&](std::int64_t in, std::int64_t out, std::int64_t groups, int size, Pass pass) {
    return ratio(convolution(in, out, groups, size, 28, 64, pass, MathMode::fp32));
  };
  const double filter = std::pow(1.2, 1 / 1.3);
  EXPECT_NEAR(of(32, 128, 1, 3, Pass::forward), filter, 1e-12);
  EXPECT_NEAR(of(128, 32, 1, 3, Pass::data_gradient), filter, 1e-12);
  EXPECT_EQ(of(32, 128, 1, 3, Pass::weight_gradient), 1);
  EXPECT_EQ(of(32, 128, 1, 5, Pass::forward), 1);
  EXPECT_EQ(of(32, 128, 2, 3, Pass::forward), 1);
  // A correction never makes a kernel shorter than the launch floor.
  d.measured =
      std::make_shared<const MeasuredKernels>(MeasuredKernels{{{{0, 0, 3, 3}, -9}}, {}, {}});
  EXPECT_DOUBLE_EQ(kernel_time(gemm(1, 8, 8), d).total, d.efficiency.kernel_floor_seconds);
}

TEST(KernelModel, AttentionBackwardIsSlowerPerFlop) {
  const Device d = round_device();
  Kernel k;
  k.kind = KernelKind::attention;
  k.math = MathMode::bf16;
  k.m = k.n = 2048;
  k.k = 128;
  k.batch = 100;
  k.flops = 4.0 * k.m * k.n * k.k * k.batch;
  k.bytes_read = k.bytes_written = 2.0 * k.m * k.k * k.batch;
  Kernel backward = k;
  backward.pass = Pass::backward;
  EXPECT_GT(kernel_time(backward, d).total, kernel_time(k, d).total);
}

Kernel any_kernel() {
  const auto size = [](int low, int high) { return *rc::gen::inRange(low, high); };
  switch (size(0, 4)) {
    case 0:
      return gemm(8 * size(1, 600), 8 * size(1, 600), 8 * size(1, 600),
                  *rc::gen::element(MathMode::fp32, MathMode::tf32, MathMode::bf16), size(1, 9));
    case 1: {
      const bool depthwise = size(0, 2) == 1;
      const std::int64_t in = 8 * size(1, 64);
      return convolution(
          in, depthwise ? in : 8 * size(1, 64), depthwise ? in : 1, 1 + 2 * size(0, 3), size(1, 60),
          size(1, 65), *rc::gen::element(Pass::forward, Pass::data_gradient, Pass::weight_gradient),
          *rc::gen::element(MathMode::fp32, MathMode::fp16));
    }
    case 2: {
      Kernel k = streaming(1e3 * size(1, 1000000));
      k.kind = *rc::gen::element(KernelKind::elementwise, KernelKind::normalization,
                                 KernelKind::embedding, KernelKind::softmax, KernelKind::pooling);
      k.launches = size(1, 5);
      return k;
    }
    default: {
      Kernel k;
      k.kind = KernelKind::attention;
      k.math = MathMode::bf16;
      k.m = k.n = 16 * size(1, 256);
      k.k = 64;
      k.batch = size(1, 200);
      k.flops = 4.0 * k.m * k.n * k.k * k.batch;
      k.bytes_read = k.bytes_written = 2.0 * k.m * k.k * k.batch;
      return k;
    }
  }
}

RC_GTEST_PROP(KernelModelProperty, FasterDeviceIsNeverSlower, ()) {
  const Kernel k = any_kernel();
  const Device d = round_device();
  const double before = kernel_time(k, d).total;
  const double factor = 1 + *rc::gen::inRange(0, 200) / 100.0;
  RC_ASSERT(std::isfinite(before) && before > 0);

  Device more_flops = d;
  more_flops.fp32_flops *= factor;
  more_flops.tf32_flops *= factor;
  more_flops.fp16_flops *= factor;
  more_flops.bf16_flops *= factor;
  RC_ASSERT(kernel_time(k, more_flops).total <= before * (1 + 1e-12));
  Device more_bandwidth = d;
  more_bandwidth.memory_bandwidth *= factor;
  RC_ASSERT(kernel_time(k, more_bandwidth).total <= before * (1 + 1e-12));
  Device less_floor = d;
  less_floor.efficiency.kernel_floor_seconds /= factor;
  RC_ASSERT(kernel_time(k, less_floor).total <= before * (1 + 1e-12));
}

RC_GTEST_PROP(KernelModelProperty, MoreBytesIsNeverFaster, ()) {
  Kernel k = any_kernel();
  const double before = kernel_time(k, round_device()).total;
  k.bytes_read *= 1 + *rc::gen::inRange(0, 1000) / 100.0;
  RC_ASSERT(kernel_time(k, round_device()).total >= before * (1 - 1e-12));
}

RC_GTEST_PROP(KernelModelProperty, MoreRowsIsNeverFaster, ()) {
  const auto size = [] { return *rc::gen::inRange(1, 3000); };
  const std::int64_t m = 8 * size(), n = 8 * size(), k = 8 * size();
  const Device d = round_device();
  const double before = kernel_time(gemm(m, n, k), d).total;
  RC_ASSERT(kernel_time(gemm(m + 8 * size(), n, k), d).total >= before * (1 - 1e-12));
  RC_ASSERT(kernel_time(gemm(m, n + 8 * size(), k), d).total >= before * (1 - 1e-12));
  RC_ASSERT(kernel_time(gemm(m, n, k + 8 * size()), d).total >= before * (1 - 1e-12));
  RC_ASSERT(kernel_time(gemm(m, n, k, MathMode::bf16, 2), d).total >= before * (1 - 1e-12));
}

RC_GTEST_PROP(KernelModelProperty, NeverBeatsTheRoofline, ()) {
  const Kernel k = any_kernel();
  const Device d = round_device();
  // Winograd's algorithm on tiles of 4 x 4 outputs needs a quarter of the multiplications.
  const bool winograd =
      k.kind == KernelKind::convolution && k.math == MathMode::fp32 && k.conv.kernel_h == 3;
  const double multiply_adds = winograd ? 0.25 : 1;
  const double seconds = kernel_time(k, d).total;
  if (k.kind == KernelKind::gemm || k.kind == KernelKind::convolution ||
      k.kind == KernelKind::attention)
    RC_ASSERT(seconds * peak_flops(d, k.math) >= multiply_adds * k.flops * (1 - 1e-12));
}

}  // namespace
}  // namespace lockstep::kernel_model_test
