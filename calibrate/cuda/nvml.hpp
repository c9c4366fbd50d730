// The calls of NVML, the driver's management library, that the probes use. NVML belongs to the
// driver and not to the CUDA toolkit, so it is loaded at run time, and the probes also work without
// it.
#pragma once

#include <optional>
#include <string>

namespace lockstep::cuda {

class Nvml {
 public:
  Nvml();  // loads libnvidia-ml.so.1; without it all values are absent
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  std::string driver_version() const;  // for example "580.159.04"; "" if not known

  // Used memory of the device with this PCI bus id ("0000:65:00.0") or, with an empty id, of the
  // first device. Nothing if the driver does not report it.
  std::optional<double> used_bytes(const std::string& bus_id) const;
  std::optional<unsigned> clock_mhz(const std::string& bus_id, bool memory, bool maximum) const;
  std::optional<unsigned> power_limit_milliwatts(const std::string& bus_id) const;
  // Bits of nvmlClocksEventReasons: 0x8 hardware slowdown, 0x20 and 0x40 thermal, 0x80 power brake.
  std::optional<unsigned long long> throttle_reasons(const std::string& bus_id) const;

 private:
  void* device(const std::string& bus_id) const;
  void* library_ = nullptr;
  bool ready_ = false;
};

}  // namespace lockstep::cuda
