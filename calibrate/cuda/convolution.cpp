// Measures the three passes of convolutions in cuDNN, with the algorithm that cuDNN's heuristics
// choose (as in PyTorch with cudnn.benchmark off). Without cuDNN the probe measures nothing.
#include "cuda/handles.hpp"
#ifdef LOCKSTEP_HAVE_CUDNN
#include <cudnn.h>
#include <fmt/format.h>

#include "cuda/sweeps.hpp"
#endif

namespace lockstep::cuda {

#ifdef LOCKSTEP_HAVE_CUDNN

namespace {

bool not_supported(cudnnStatus_t status) {
#if CUDNN_MAJOR >= 9
  // Includes all reasons of this category.
  return CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED;
#else
  return status == CUDNN_STATUS_NOT_SUPPORTED;
#endif
}

void check_dnn(cudnnStatus_t status, const char* call, int line) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  if (not_supported(status))
    throw NotPossible(fmt::format("{}: {}", call, cudnnGetErrorString(status)));
  fail(call, __FILE__, line, cudnnGetErrorString(status));
}
#define LOCKSTEP_CUDNN(call) check_dnn((call), #call, __LINE__)

struct Descriptors {
  Descriptors() {
    LOCKSTEP_CUDNN(cudnnCreate(&handle));
    LOCKSTEP_CUDNN(cudnnCreateTensorDescriptor(&x));
    LOCKSTEP_CUDNN(cudnnCreateTensorDescriptor(&y));
    LOCKSTEP_CUDNN(cudnnCreateFilterDescriptor(&w));
    LOCKSTEP_CUDNN(cudnnCreateConvolutionDescriptor(&convolution));
  }
  ~Descriptors() {
    cudnnDestroyConvolutionDescriptor(convolution);
    cudnnDestroyFilterDescriptor(w);
    cudnnDestroyTensorDescriptor(y);
    cudnnDestroyTensorDescriptor(x);
    cudnnDestroy(handle);
  }
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;
  cudnnHandle_t handle = nullptr;
  cudnnTensorDescriptor_t x = nullptr, y = nullptr;
  cudnnFilterDescriptor_t w = nullptr;
  cudnnConvolutionDescriptor_t convolution = nullptr;
};

cudnnDataType_t cudnn_type_of(MathMode math) {
  if (math == MathMode::fp16) return CUDNN_DATA_HALF;
  if (math == MathMode::bf16) return CUDNN_DATA_BFLOAT16;
  return CUDNN_DATA_FLOAT;
}

// Describes tensors in NCHW layout, with a padding of half the kernel.
void describe_shape(const Descriptors& d, const ConvolutionShape& s, MathMode math, int out_size) {
  LOCKSTEP_CUDNN(cudnnSetTensor4dDescriptor(d.x, CUDNN_TENSOR_NCHW, cudnn_type_of(math), s.batch,
                                            s.in_channels, s.size, s.size));
  LOCKSTEP_CUDNN(cudnnSetTensor4dDescriptor(d.y, CUDNN_TENSOR_NCHW, cudnn_type_of(math), s.batch,
                                            s.out_channels, out_size, out_size));
  LOCKSTEP_CUDNN(cudnnSetFilter4dDescriptor(d.w, cudnn_type_of(math), CUDNN_TENSOR_NCHW,
                                            s.out_channels, s.in_channels, s.kernel, s.kernel));
  LOCKSTEP_CUDNN(cudnnSetConvolution2dDescriptor(d.convolution, s.kernel / 2, s.kernel / 2,
                                                 s.stride, s.stride, 1, 1, CUDNN_CROSS_CORRELATION,
                                                 CUDNN_DATA_FLOAT));
  LOCKSTEP_CUDNN(cudnnSetConvolutionMathType(
      d.convolution, math == MathMode::fp32 ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH));
}

struct Operands {
  void* x;
  void* w;
  void* y;
};

// The first supported algorithm of cuDNN's list: the bytes of its workspace, and a function that
// runs it.
struct Choice {
  std::size_t workspace = 0;
  std::function<void(const Operands&, void* workspace, std::size_t bytes)> run;
};

template <class Performance>
const Performance& first_usable(const std::vector<Performance>& found, int count) {
  for (int i = 0; i < count; ++i)
    if (found[static_cast<std::size_t>(i)].status == CUDNN_STATUS_SUCCESS)
      return found[static_cast<std::size_t>(i)];
  throw NotPossible("cuDNN has no algorithm for this convolution");
}

Choice choose(const Descriptors& d, ConvolutionPass pass) {
  static const float one = 1, zero = 0;
  int count = 0;
  Choice choice;
  if (pass == ConvolutionPass::forward) {
    std::vector<cudnnConvolutionFwdAlgoPerf_t> found(CUDNN_CONVOLUTION_FWD_ALGO_COUNT);
    LOCKSTEP_CUDNN(cudnnGetConvolutionForwardAlgorithm_v7(d.handle, d.x, d.w, d.convolution, d.y,
                                                          CUDNN_CONVOLUTION_FWD_ALGO_COUNT, &count,
                                                          found.data()));
    const auto& best = first_usable(found, count);
    LOCKSTEP_CUDNN(cudnnSetConvolutionMathType(d.convolution, best.mathType));
    choice.workspace = best.memory;
    choice.run = [&d, algorithm = best.algo](const Operands& o, void* workspace,
                                             std::size_t bytes) {
      LOCKSTEP_CUDNN(cudnnConvolutionForward(d.handle, &one, d.x, o.x, d.w, o.w, d.convolution,
                                             algorithm, workspace, bytes, &zero, d.y, o.y));
    };
  } else if (pass == ConvolutionPass::backward_data) {
    std::vector<cudnnConvolutionBwdDataAlgoPerf_t> found(CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT);
    LOCKSTEP_CUDNN(cudnnGetConvolutionBackwardDataAlgorithm_v7(
        d.handle, d.w, d.y, d.convolution, d.x, CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT, &count,
        found.data()));
    const auto& best = first_usable(found, count);
    LOCKSTEP_CUDNN(cudnnSetConvolutionMathType(d.convolution, best.mathType));
    choice.workspace = best.memory;
    choice.run = [&d, algorithm = best.algo](const Operands& o, void* workspace,
                                             std::size_t bytes) {
      LOCKSTEP_CUDNN(cudnnConvolutionBackwardData(d.handle, &one, d.w, o.w, d.y, o.y, d.convolution,
                                                  algorithm, workspace, bytes, &zero, d.x, o.x));
    };
  } else {
    std::vector<cudnnConvolutionBwdFilterAlgoPerf_t> found(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT);
    LOCKSTEP_CUDNN(cudnnGetConvolutionBackwardFilterAlgorithm_v7(
        d.handle, d.x, d.y, d.convolution, d.w, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT, &count,
        found.data()));
    const auto& best = first_usable(found, count);
    LOCKSTEP_CUDNN(cudnnSetConvolutionMathType(d.convolution, best.mathType));
    choice.workspace = best.memory;
    choice.run = [&d, algorithm = best.algo](const Operands& o, void* workspace,
                                             std::size_t bytes) {
      LOCKSTEP_CUDNN(cudnnConvolutionBackwardFilter(d.handle, &one, d.x, o.x, d.y, o.y,
                                                    d.convolution, algorithm, workspace, bytes,
                                                    &zero, d.w, o.w));
    };
  }
  return choice;
}

void measure_pass(const ProbeOptions& options, const ConvolutionShape& s, MathMode math,
                  ConvolutionPass pass, double l2_bytes, const Descriptors& d, const Stream& stream,
                  Measurements& out) {
  const int out_size = (s.size + 2 * (s.kernel / 2) - s.kernel) / s.stride + 1;
  describe_shape(d, s, math, out_size);
  const Choice choice = choose(d, pass);
  const auto tensor = [&](std::int64_t elements) {
    return aligned(static_cast<std::size_t>(elements) * element_bytes(math));
  };
  const std::size_t x = tensor(std::int64_t{s.batch} * s.in_channels * s.size * s.size);
  const std::size_t y = tensor(std::int64_t{s.batch} * s.out_channels * out_size * out_size);
  const std::size_t w = tensor(std::int64_t{s.out_channels} * s.in_channels * s.kernel * s.kernel);
  const int sets = operand_sets(static_cast<double>(x + y + w), l2_bytes, 16);
  const DeviceBuffer operands(static_cast<std::size_t>(sets) * (x + y + w));
  const DeviceBuffer workspace(std::max<std::size_t>(choice.workspace, 16));
  fill_random(operands, math);
  ConvolutionRow row{math,     pass,
                     s.batch,  s.in_channels,
                     s.size,   s.out_channels,
                     s.kernel, s.stride,
                     {},       0,
                     0,        static_cast<double>(choice.workspace)};
  row.time = measure_launches(options, stream, [&](int i) {
    const std::size_t at = static_cast<std::size_t>(i % sets) * (x + y + w);
    choice.run({operands.at(at), operands.at(at + x), operands.at(at + x + w)}, workspace.at(0),
               choice.workspace);
  });
  row.flops_per_second = 2.0 * s.batch * s.out_channels * out_size * out_size * s.in_channels *
                         s.kernel * s.kernel / row.time.seconds;
  const double peak = peak_flops(options.model, math);
  if (peak > 0) row.efficiency = row.flops_per_second / peak;
  out.convolution.push_back(row);
}

}  // namespace

void probe_convolution(const ProbeOptions& options, Measurements& out) {
  LOCKSTEP_CUDA(cudaSetDevice(options.device));
  const DeviceInfo info = device_info(options.device);
  const Stream stream;
  const Descriptors descriptors;
  LOCKSTEP_CUDNN(cudnnSetStream(descriptors.handle, stream.handle));
  for (const MathMode math : {MathMode::fp32, MathMode::tf32, MathMode::fp16, MathMode::bf16}) {
    if (info.compute_capability < 80 && (math == MathMode::tf32 || math == MathMode::bf16))
      continue;
    for (const ConvolutionShape& shape : convolution_shapes(options.quick)) {
      for (const ConvolutionPass pass : {ConvolutionPass::forward, ConvolutionPass::backward_data,
                                         ConvolutionPass::backward_weights}) {
        // The first layer's input needs no gradient.
        if (pass == ConvolutionPass::backward_data && shape.in_channels == 3) continue;
        const std::string what = fmt::format(
            "convolution {} {} {}x{}x{} > {}, {}/{}", enum_name(math), enum_name(pass), shape.batch,
            shape.in_channels, shape.size, shape.out_channels, shape.kernel, shape.stride);
        options.progress(what);
        unless_not_possible(options, what, [&] {
          measure_pass(options, shape, math, pass, info.l2_bytes, descriptors, stream, out);
        });
      }
    }
  }
}

#else

void probe_convolution(const ProbeOptions& options, Measurements&) {
  options.progress("convolution left out: built without cuDNN");
}

#endif

}  // namespace lockstep::cuda
