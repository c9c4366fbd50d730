// What the host thread pays to drive the device: seconds per framework operator and per extra
// launch, and how much of that each software generation adds. The second queue of every eager
// framework.
#pragma once

#include "core/fields.hpp"
#include "costs/cost.hpp"
#include "hardware/machine.hpp"
#include "workload/step.hpp"

namespace lockstep {

enum class FrameworkKind { pytorch, megatron };
template <>
struct EnumNames<FrameworkKind> {
  static constexpr std::array names{"pytorch", "megatron"};
};

// The software that drives the device; a scenario's `framework:` block.
struct Framework {
  FrameworkKind name = FrameworkKind::pytorch;
  // Host seconds of one forward operator, module and autograd bookkeeping in Python included. 0 =
  // the machine's own dispatch time scaled by what `name` adds.
  double operator_seconds = 0;
  // Backward runs in C++ without Python: its operators cost this share of a forward one.
  double backward_share = 0.42;  // fit
  // An update in a loop over tensors calls plain operators, without modules or autograd. Measured on
  // an H100's host: 0.33 of ResNet-50's forward ones in Python, 0.32 in C++ (docs/gpu-results.md).
  double update_share = 0.33;
  int flash_attention = 2;  // version of the fused attention kernels
};

template <class Visitor>
void describe(Visitor& v, Framework& f) {
  v.field("name", f.name, "Training code: plain PyTorch modules, or Megatron of 2021.");
  v.field("operator_seconds", f.operator_seconds,
          "Host time of one forward operator; 0 = the machine's, or the framework's own.",
          {.unit = Dimension::seconds, .min = 0, .max = 1e-2});
  v.field("backward_share", f.backward_share,
          "Host time of a backward operator relative to a forward one.",
          {.unit = Dimension::fraction, .min = 0, .max = 10});
  v.field("update_share", f.update_share,
          "Host time of one operator of a for-loop optimizer relative to a forward one.",
          {.unit = Dimension::fraction, .min = 0, .max = 10});
  v.field("flash_attention", f.flash_attention, "Version of the fused attention kernels.",
          {.min = 1, .max = 2});
}

struct HostRates {
  double forward_operator = 0;   // seconds
  double backward_operator = 0;  // seconds
  double update_operator = 0;    // seconds, of an update in a loop over tensors
  double launch = 0;             // seconds of each launch beyond the first of an operator
};

HostRates host_rates(const HostSpec& host, const Framework& framework);

// `operators` dispatched and `launches` kernels launched for `device_seconds` of device work,
// spread evenly: exact for equal launches (costs/cost.hpp).
QueuedWork queued(double operator_seconds, double launch_seconds, int operators, int launches,
                  double device_seconds);

}  // namespace lockstep
