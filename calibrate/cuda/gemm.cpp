// Measures matrix products in cuBLAS over sizes and precisions, and their share of the peak.
// Products accumulate as in PyTorch. Several sets of operands are used in turn, so that no operand
// is in the L2 cache.
#include <cublas_v2.h>
#include <fmt/format.h>

#include "cuda/handles.hpp"
#include "cuda/sweeps.hpp"

namespace lockstep::cuda {

namespace {

struct Handle {
  Handle() {
    if (cublasCreate(&handle) != CUBLAS_STATUS_SUCCESS)
      fail("cublasCreate", __FILE__, __LINE__, "no handle");
  }
  ~Handle() { cublasDestroy(handle); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  cublasHandle_t handle = nullptr;
};

cudaDataType cuda_type_of(MathMode math) {
  if (math == MathMode::fp16) return CUDA_R_16F;
  if (math == MathMode::bf16) return CUDA_R_16BF;
  return CUDA_R_32F;
}

// As in PyTorch, 16-bit products accumulate in fp32, and TF32 is used only if requested.
cublasComputeType_t compute_of(MathMode math) {
  return math == MathMode::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

void measure_shape(const ProbeOptions& options, const GemmShape& s, MathMode math, double l2_bytes,
                   const Handle& cublas, const Stream& stream, Measurements& out) {
  const std::size_t element = element_bytes(math);
  const std::size_t a = aligned(static_cast<std::size_t>(s.m * s.k) * element);
  const std::size_t b = aligned(static_cast<std::size_t>(s.k * s.n) * element);
  const std::size_t c = aligned(static_cast<std::size_t>(s.m * s.n) * element);
  const int sets = operand_sets(static_cast<double>(a + b + c), l2_bytes, 64);
  const DeviceBuffer operands(static_cast<std::size_t>(sets) * (a + b + c));
  fill_random(operands, math);
  const float one = 1, zero = 0;
  GemmRow row{math, s.m, s.n, s.k, {}, 0, 0};
  row.time = measure_launches(options, stream, [&](int i) {
    const std::size_t at = static_cast<std::size_t>(i % sets) * (a + b + c);
    // Row-major C = A B is column-major C' = B' A'.
    const cublasStatus_t status = cublasGemmEx(
        cublas.handle, CUBLAS_OP_N, CUBLAS_OP_N, static_cast<int>(s.n), static_cast<int>(s.m),
        static_cast<int>(s.k), &one, operands.at(at + a), cuda_type_of(math), static_cast<int>(s.n),
        operands.at(at), cuda_type_of(math), static_cast<int>(s.k), &zero, operands.at(at + a + b),
        cuda_type_of(math), static_cast<int>(s.n), compute_of(math), CUBLAS_GEMM_DEFAULT);
    if (status != CUBLAS_STATUS_SUCCESS)
      fail("cublasGemmEx", __FILE__, __LINE__, cublasGetStatusString(status));
  });
  row.flops_per_second = 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) *
                         static_cast<double>(s.k) / row.time.seconds;
  const double peak = peak_flops(options.model, math);
  if (peak > 0) row.efficiency = row.flops_per_second / peak;
  out.gemm.push_back(row);
}

}  // namespace

void probe_gemm(const ProbeOptions& options, Measurements& out) {
  LOCKSTEP_CUDA(cudaSetDevice(options.device));
  const DeviceInfo info = device_info(options.device);
  const Stream stream;
  const Handle cublas;
  cublasSetStream(cublas.handle, stream.handle);
  for (const MathMode math : {MathMode::fp32, MathMode::tf32, MathMode::fp16, MathMode::bf16}) {
    // Below Ampere there is no TF32, and bf16 products are emulated.
    if (info.compute_capability < 80 && (math == MathMode::tf32 || math == MathMode::bf16))
      continue;
    for (const GemmShape& shape : gemm_shapes(options.quick)) {
      const std::string what =
          fmt::format("gemm {} {}x{}x{}", enum_name(math), shape.m, shape.n, shape.k);
      options.progress(what);
      unless_not_possible(options, what, [&] {
        measure_shape(options, shape, math, info.l2_bytes, cublas, stream, out);
      });
    }
  }
}

}  // namespace lockstep::cuda
