// Probes of one CUDA device. A plain interface: no CUDA header is needed to use it. Each probe adds
// its rows to `Measurements` as they come, so that an interruption keeps earlier rows.
//
// Every figure is the median of samples taken until they settle; kernels are timed by events with
// the queue filled beforehand, so that the host's launches do not show, and walk through several
// sets of operands, so that none is left in the L2 cache (as in training).
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

#include "cuda/measurements.hpp"

namespace lockstep::cuda {

// A CUDA, cuBLAS, cuDNN or NCCL call that failed: "cudaMalloc (copies.cpp:40): out of memory".
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
// Ctrl-C, noticed between two samples.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted") {}
};

struct Availability {
  int devices = 0;
  std::string reason;  // without devices: "driver: none found; runtime 13.0: ..."
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
  std::function<bool()> stop = [] { return false; };  // asked between samples; Interrupted if true
};

DeviceInfo device_info(int index);
// Driver, CUDA, cuBLAS, cuDNN, NCCL as they say themselves.
std::map<std::string, std::string> device_versions();
// Clocks, power limit and throttling as NVML tells them (nothing where there is no NVML).
std::map<std::string, std::string> device_settings(const DeviceInfo& info);

// Must run before any other use of the device: it measures the memory of a new context.
void probe_memory(const ProbeOptions& options, Measurements& out);
void probe_gemm(const ProbeOptions& options, Measurements& out);
void probe_convolution(const ProbeOptions& options, Measurements& out);  // nothing without cuDNN
void probe_copies(const ProbeOptions& options, Measurements& out);
void probe_launch(const ProbeOptions& options, Measurements& out);
void probe_interference(const ProbeOptions& options, Measurements& out);
// NCCL over all visible devices in this process. With one device the communicator has one rank, and
// the figures measure a launch and a copy. Nothing without NCCL.
void probe_collectives(const ProbeOptions& options, Measurements& out);

}  // namespace lockstep::cuda
