// Reads the properties of the device, the versions of driver and libraries, clocks, and the memory
// that a context takes. Context memory is a difference of used bytes (NVML, else cudaMemGetInfo),
// so it must be measured before any other use of the device.
#include <cublas_v2.h>
#include <fmt/format.h>
#ifdef LOCKSTEP_HAVE_CUDNN
#include <cudnn.h>
#endif
#ifdef LOCKSTEP_HAVE_NCCL
#include <nccl.h>
#endif

#include "cuda/handles.hpp"
#include "cuda/kernels.hpp"
#include "cuda/nvml.hpp"

namespace lockstep::cuda {

namespace {

std::string version_text(int version) {  // 13000 -> "13.0"
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

double free_bytes() {
  std::size_t free = 0, total = 0;
  LOCKSTEP_CUDA(cudaMemGetInfo(&free, &total));
  return static_cast<double>(free);
}

}  // namespace

Availability availability() {
  Availability result;
  const cudaError_t status = cudaGetDeviceCount(&result.devices);
  if (status == cudaSuccess && result.devices > 0) return result;
  (void)cudaGetLastError();
  result.devices = 0;
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  result.reason =
      fmt::format("driver: {}; CUDA runtime {}: {}",
                  driver == 0 ? std::string("none found") : "for CUDA " + version_text(driver),
                  version_text(runtime),
                  status == cudaSuccess ? "no device visible" : cudaGetErrorString(status));
  return result;
}

DeviceInfo device_info(int index) {
  cudaDeviceProp properties{};
  LOCKSTEP_CUDA(cudaGetDeviceProperties(&properties, index));
  char bus_id[32] = "";
  LOCKSTEP_CUDA(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, index));
  DeviceInfo info;
  info.index = index;
  info.title = properties.name;
  info.pci_bus_id = bus_id;
  info.compute_capability = 10 * properties.major + properties.minor;
  info.multiprocessors = properties.multiProcessorCount;
  info.memory_bytes = static_cast<double>(properties.totalGlobalMem);
  info.l2_bytes = properties.l2CacheSize;
  return info;
}

std::map<std::string, std::string> device_versions() {
  std::map<std::string, std::string> versions;
  int number = 0;
  if (cudaRuntimeGetVersion(&number) == cudaSuccess) versions["cuda"] = version_text(number);
  if (cudaDriverGetVersion(&number) == cudaSuccess && number > 0)
    versions["driver_cuda"] = version_text(number);
  versions["cublas"] =
      fmt::format("{}.{}.{}", CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH);
#ifdef LOCKSTEP_HAVE_CUDNN
  const std::size_t cudnn = cudnnGetVersion();  // 90100 = 9.1.0
  versions["cudnn"] = fmt::format("{}.{}.{}", cudnn / 10000, cudnn / 100 % 100, cudnn % 100);
#endif
#ifdef LOCKSTEP_HAVE_NCCL
  if (ncclGetVersion(&number) == ncclSuccess)  // 22809 = 2.28.9
    versions["nccl"] = fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
#endif
  const std::string driver = Nvml().driver_version();
  if (!driver.empty()) versions["driver"] = driver;
  return versions;
}

std::map<std::string, std::string> device_settings(const DeviceInfo& info) {
  std::map<std::string, std::string> settings;
  const Nvml nvml;
  const auto clock = [&](const char* name, bool memory, bool maximum) {
    if (const auto mhz = nvml.clock_mhz(info.pci_bus_id, memory, maximum))
      settings[name] = fmt::format("{} MHz", *mhz);
  };
  clock("sm_clock", false, false);
  clock("sm_clock_maximum", false, true);
  clock("memory_clock", true, false);
  if (const auto limit = nvml.power_limit_milliwatts(info.pci_bus_id))
    settings["power_limit"] = fmt::format("{} W", *limit / 1000);
  if (const auto reasons = nvml.throttle_reasons(info.pci_bus_id)) {
    constexpr unsigned long long slowdown = 0x8 | 0x20 | 0x40 | 0x80;
    settings["throttled"] =
        *reasons & slowdown ? fmt::format("yes (reasons 0x{:x})", *reasons) : "no";
  }
  return settings;
}

void probe_memory(const ProbeOptions& options, Measurements& out) {
  char bus_id[32] = "";
  LOCKSTEP_CUDA(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, options.device));
  const Nvml nvml;
  const auto before = nvml.used_bytes(bus_id);
  LOCKSTEP_CUDA(cudaSetDevice(options.device));
  Stream stream;
  launch_empty(stream.handle);
  stream.wait();
  std::size_t free = 0, total = 0;
  LOCKSTEP_CUDA(cudaMemGetInfo(&free, &total));
  const auto after = nvml.used_bytes(bus_id);
  out.memory.total_bytes = static_cast<double>(total);
  if (before && after && *after > *before) {
    out.memory.context_bytes = *after - *before;
    out.memory.source = "used memory before and after, NVML";
  } else {
    // Without NVML, memory cannot be read before a context exists. The value then includes other
    // users of the device.
    out.memory.context_bytes = static_cast<double>(total - free);
    out.memory.source = "total - free with a context, cudaMemGetInfo";
  }

  // A first product makes cuBLAS load its kernels and allocate its workspace.
  constexpr int size = 1024;
  const DeviceBuffer operands(3 * std::size_t{size} * size * sizeof(float));
  const double without = free_bytes();
  cublasHandle_t handle = nullptr;
  if (cublasCreate(&handle) != CUBLAS_STATUS_SUCCESS)
    fail("cublasCreate", __FILE__, __LINE__, "no handle");
  const float one = 1, zero = 0;
  const auto matrix = [&](std::size_t i) {
    return static_cast<float*>(operands.at(i * size * size * sizeof(float)));
  };
  const cublasStatus_t status =
      cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, size, size, size, &one, matrix(0), size,
                  matrix(1), size, &zero, matrix(2), size);
  LOCKSTEP_CUDA(cudaDeviceSynchronize());
  if (status == CUBLAS_STATUS_SUCCESS) out.memory.cublas_handle_bytes = without - free_bytes();
  cublasDestroy(handle);
}

}  // namespace lockstep::cuda
