// Measures the interference of a computation with a stand-in for a collective (fact 117). The
// stand-in adds arrays in device memory with as many blocks as NCCL would use channels. At the same
// time the device computes, and both become slower.
#include <cublas_v2.h>
#include <fmt/format.h>

#include "cuda/handles.hpp"
#include "cuda/kernels.hpp"

namespace lockstep::cuda {

namespace {

// Bytes of each operand of the stand-in, so that its three operands exceed any L2 cache.
constexpr std::size_t part_bytes = 64u << 20;
constexpr std::size_t stream_bytes = 256u << 20;

// Whether the work before `event` is still running.
bool still_running(const Event& event) {
  const cudaError_t status = cudaEventQuery(event.handle);
  if (status != cudaErrorNotReady) {
    LOCKSTEP_CUDA(status);
    return false;
  }
  (void)cudaGetLastError();  // not ready is no error, but the next check would report it
  return true;
}

// Device seconds of one of `count` launches on `stream`, while `background` keeps the stream
// `other` busy for longer. If `background` is empty, the launches run without other work.
double foreground(const Stream& stream, const Stream& other, int count,
                  const std::function<void()>& launch, const std::function<void()>& background) {
  Event begin, end, background_end;
  if (background) background();
  background_end.record(other);
  begin.record(stream);
  for (int i = 0; i < count; ++i) launch();
  end.record(stream);
  stream.wait();
  const bool outlasted = !background || still_running(background_end);
  other.wait();
  if (!outlasted)
    fail("interference", __FILE__, __LINE__, "the background load ended before the measured work");
  return seconds_between(begin, end) / count;
}

struct Workload {
  std::string name;
  std::function<void()> launch;
};

void measure_pair(const ProbeOptions& options, const Workload& compute,
                  const Stream& compute_stream, const Stream& standin_stream,
                  const DeviceBuffer& parts, int blocks, Measurements& out) {
  const auto standin = [&](int repeats) {
    launch_add(standin_stream.handle, static_cast<float*>(parts.at(0)),
               static_cast<const float*>(parts.at(part_bytes)),
               static_cast<const float*>(parts.at(2 * part_bytes)), part_bytes, blocks, repeats);
  };
  InterferenceRow row;
  row.compute = compute.name;
  row.blocks = blocks;
  row.compute_alone = measure(options, [&] {
    return foreground(compute_stream, standin_stream, 8, compute.launch, nullptr);
  });
  row.standin_alone = measure(options, [&] {
    return foreground(
               standin_stream, compute_stream, 4, [&] { standin(4); }, nullptr) /
           4;
  });
  // The background lasts six times as long as the foreground does without it, because the
  // interference may slow both down.
  const int repeats =
      1 + static_cast<int>(6 * 8 * row.compute_alone.seconds / row.standin_alone.seconds);
  row.compute_beside = measure(options, [&] {
    return foreground(compute_stream, standin_stream, 8, compute.launch, [&] { standin(repeats); });
  });
  const int kernels =
      1 + static_cast<int>(6 * 16 * row.standin_alone.seconds / row.compute_alone.seconds);
  row.standin_beside = measure(options, [&] {
    return foreground(
               standin_stream, compute_stream, 4, [&] { standin(4); },
               [&] {
                 for (int i = 0; i < kernels; ++i) compute.launch();
               }) /
           4;
  });
  out.interference.push_back(row);
}

}  // namespace

void probe_interference(const ProbeOptions& options, Measurements& out) {
  LOCKSTEP_CUDA(cudaSetDevice(options.device));
  const Stream compute_stream, standin_stream;
  const DeviceBuffer parts(3 * part_bytes);
  LOCKSTEP_CUDA(cudaMemset(parts.at(0), 0, parts.bytes()));

  constexpr int size = 4096;
  constexpr std::size_t matrix = std::size_t{size} * size * 2;
  const DeviceBuffer matrices(3 * matrix), streamed(2 * stream_bytes);
  fill_random(matrices, MathMode::fp16);
  LOCKSTEP_CUDA(cudaMemset(streamed.at(0), 0, streamed.bytes()));
  cublasHandle_t cublas = nullptr;
  if (cublasCreate(&cublas) != CUBLAS_STATUS_SUCCESS)
    fail("cublasCreate", __FILE__, __LINE__, "no handle");
  cublasSetStream(cublas, compute_stream.handle);
  const float one = 1, zero = 0;
  const std::vector<Workload> workloads{
      {fmt::format("gemm fp16 {0}x{0}x{0}", size),
       [&] {
         const cublasStatus_t status = cublasGemmEx(
             cublas, CUBLAS_OP_N, CUBLAS_OP_N, size, size, size, &one, matrices.at(0), CUDA_R_16F,
             size, matrices.at(matrix), CUDA_R_16F, size, &zero, matrices.at(2 * matrix),
             CUDA_R_16F, size, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
         if (status != CUBLAS_STATUS_SUCCESS)
           fail("cublasGemmEx", __FILE__, __LINE__, cublasGetStatusString(status));
       }},
      {"stream copy 256 MiB", [&] {
         launch_copy(compute_stream.handle, streamed.at(0), streamed.at(stream_bytes),
                     stream_bytes);
       }}};
  for (const Workload& workload : workloads) {
    workload.launch();  // loads the kernels
    compute_stream.wait();
    for (const int blocks : {16, 24}) {
      options.progress(fmt::format("{} beside {} blocks", workload.name, blocks));
      measure_pair(options, workload, compute_stream, standin_stream, parts, blocks, out);
    }
  }
  cublasDestroy(cublas);
}

}  // namespace lockstep::cuda
