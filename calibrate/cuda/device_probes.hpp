// Probes that measure one CUDA device. This header needs no CUDA header. Each probe adds a row to
// `Measurements` as soon as the row is measured, so that earlier rows survive an interruption.
//
// Every Figure is the median of samples, which are taken until its confidence interval is narrow.
// Kernels are timed by events. The queue is filled beforehand, so that the host's launches do not
// count. Kernels use several sets of operands in turn, so that no operand is in the L2 cache (as in
// training).
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

#include "cuda/measurements.hpp"

namespace lockstep::cuda {

// Thrown if a call of CUDA, cuBLAS, cuDNN or NCCL fails, for example with "cudaMalloc
// (copies.cpp:40): out of memory".
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
// Thrown if the device or library does not support one size of a probe; the probe leaves that size
// out and reports it.
class NotPossible : public DeviceError {
 public:
  using DeviceError::DeviceError;
};
class OutOfDeviceMemory : public NotPossible {
 public:
  using NotPossible::NotPossible;
};
// Thrown between two samples after Ctrl-C.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted") {}
};

struct Availability {
  int devices = 0;
  std::string reason;  // if there is no device: "driver: none found; CUDA runtime 13.0: ..."
};
Availability availability();  // never throws

struct DeviceInfo {
  int index = 0;
  std::string title, pci_bus_id;
  int compute_capability = 0;  // 90
  int multiprocessors = 0;
  double memory_bytes = 0, l2_bytes = 0;
};

struct ProbeOptions {
  int device = 0;
  bool quick = false;
  Device model;  // peaks for the efficiencies; all zero = unknown
  std::function<void(const std::string&)> progress = [](const std::string&) {};  // one line
  std::function<bool()> stop = [] {
    return false;
  };  // called between samples; true = throw Interrupted
};

DeviceInfo device_info(int index);
// Versions that the driver, CUDA, cuBLAS, cuDNN and NCCL report.
std::map<std::string, std::string> device_versions();
// Clocks, power limit and throttling as NVML reports them; empty without NVML.
std::map<std::string, std::string> device_settings(const DeviceInfo& info);

// Must run before any other use of the device: it measures the memory of a new context.
void probe_memory(const ProbeOptions& options, Measurements& out);
void probe_gemm(const ProbeOptions& options, Measurements& out);
void probe_convolution(const ProbeOptions& options,
                       Measurements& out);  // measures nothing without cuDNN
void probe_copies(const ProbeOptions& options, Measurements& out);
void probe_launch(const ProbeOptions& options, Measurements& out);
void probe_interference(const ProbeOptions& options, Measurements& out);
// Collectives of NCCL over all visible devices in this process. With one device the communicator
// has one rank, and only a launch and a copy are measured. Measures nothing without NCCL.
void probe_collectives(const ProbeOptions& options, Measurements& out);

}  // namespace lockstep::cuda
