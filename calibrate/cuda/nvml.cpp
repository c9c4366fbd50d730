// Loads NVML by dlopen() and calls it through its documented C signatures (nvml.h). If the library
// or a function is missing, the value is absent; that is no error.
#include "cuda/nvml.hpp"

#include <dlfcn.h>

namespace lockstep::cuda {

namespace {

// Signatures of nvml.h, whose ABI is stable. A result of 0 is NVML_SUCCESS.
struct NvmlMemory {
  unsigned long long total, free, used;
};
using Init = int (*)();
using HandleByBusId = int (*)(const char*, void**);
using HandleByIndex = int (*)(unsigned, void**);
using MemoryInfo = int (*)(void*, NvmlMemory*);
using ClockInfo = int (*)(void*, int, unsigned*);
using PowerLimit = int (*)(void*, unsigned*);
using Reasons = int (*)(void*, unsigned long long*);
using DriverVersion = int (*)(char*, unsigned);

template <class Function>
Function symbol(void* library, const char* name) {
  return library ? reinterpret_cast<Function>(::dlsym(library, name)) : nullptr;
}

}  // namespace

Nvml::Nvml() : library_(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
  const auto init = symbol<Init>(library_, "nvmlInit_v2");
  ready_ = init && init() == 0;
}

Nvml::~Nvml() {
  if (ready_)
    if (const auto shutdown = symbol<Init>(library_, "nvmlShutdown")) shutdown();
  if (library_) ::dlclose(library_);
}

void* Nvml::device(const std::string& bus_id) const {
  if (!ready_) return nullptr;
  void* handle = nullptr;
  if (bus_id.empty()) {
    const auto call = symbol<HandleByIndex>(library_, "nvmlDeviceGetHandleByIndex_v2");
    return call && call(0, &handle) == 0 ? handle : nullptr;
  }
  const auto call = symbol<HandleByBusId>(library_, "nvmlDeviceGetHandleByPciBusId_v2");
  return call && call(bus_id.c_str(), &handle) == 0 ? handle : nullptr;
}

std::string Nvml::driver_version() const {
  char text[96] = "";
  const auto call = symbol<DriverVersion>(library_, "nvmlSystemGetDriverVersion");
  return ready_ && call && call(text, sizeof text) == 0 ? text : "";
}

std::optional<double> Nvml::used_bytes(const std::string& bus_id) const {
  NvmlMemory memory{};
  void* handle = device(bus_id);
  const auto call = symbol<MemoryInfo>(library_, "nvmlDeviceGetMemoryInfo");
  if (!handle || !call || call(handle, &memory) != 0) return std::nullopt;
  return static_cast<double>(memory.used);
}

std::optional<unsigned> Nvml::clock_mhz(const std::string& bus_id, bool memory,
                                        bool maximum) const {
  unsigned mhz = 0;
  void* handle = device(bus_id);
  const auto call =
      symbol<ClockInfo>(library_, maximum ? "nvmlDeviceGetMaxClockInfo" : "nvmlDeviceGetClockInfo");
  constexpr int sm_clock = 1, memory_clock = 2;  // nvmlClockType_t
  if (!handle || !call || call(handle, memory ? memory_clock : sm_clock, &mhz) != 0)
    return std::nullopt;
  return mhz;
}

std::optional<unsigned> Nvml::power_limit_milliwatts(const std::string& bus_id) const {
  unsigned milliwatts = 0;
  void* handle = device(bus_id);
  const auto call = symbol<PowerLimit>(library_, "nvmlDeviceGetPowerManagementLimit");
  if (!handle || !call || call(handle, &milliwatts) != 0) return std::nullopt;
  return milliwatts;
}

std::optional<unsigned long long> Nvml::throttle_reasons(const std::string& bus_id) const {
  unsigned long long reasons = 0;
  void* handle = device(bus_id);
  const auto call = symbol<Reasons>(library_, "nvmlDeviceGetCurrentClocksThrottleReasons");
  if (!handle || !call || call(handle, &reasons) != 0) return std::nullopt;
  return reasons;
}

}  // namespace lockstep::cuda
