// What the host thread pays to drive the device: seconds per framework operator and per extra
// launch, and how much of that each software generation adds. The second queue of every eager
// framework.
#pragma once

#include "core/fields.hpp"
#include "costs/cost.hpp"
#include "hardware/machine.hpp"
#include "workload/framework.hpp"
#include "workload/step.hpp"

namespace lockstep {

// The program that tells hosts to compute.
enum class Dispatch {
  hosts,    // each host its own devices: multi-controller
  ahead,    // one controller, which prepares what follows while devices compute (Pathways' parallel
            // asynchronous dispatch: Barham et al. 2022, section 4.5)
  in_turn,  // one controller, which dispatches a computation when the one before has ended
};
template <>
struct EnumNames<Dispatch> {
  static constexpr std::array names{"hosts", "ahead", "in-turn"};
};

// A computation, a step or an action of a pipeline's stage, takes the controller `fixed` and `per_host` for
// each of its hosts. Defaults: the line through the two points where Pathways keeps the pace of a program on each host,
// 2.3 ms of work on 16 hosts and 35 ms on 512 (fact H133).
struct Controller {
  Dispatch dispatch = Dispatch::hosts;
  double fixed_seconds = 1.25e-3, seconds_per_host = 66e-6;

  double seconds(int hosts) const {
    return dispatch == Dispatch::hosts ? 0 : fixed_seconds + seconds_per_host * hosts;
  }
};
template <class Visitor>
void describe(Visitor& v, Controller& c) {
  v.field("dispatch", c.dispatch,
          "hosts: each host dispatches to its own devices; ahead: one controller dispatches to "
          "all, while "
          "devices compute; in-turn: when the computation before has ended.");
  v.field("fixed", c.fixed_seconds, "Of one controller, for each computation.",
          {.unit = Dimension::seconds, .min = 0, .max = 100});
  v.field("per_host", c.seconds_per_host, "Of one controller, for each computation and host.",
          {.unit = Dimension::seconds, .min = 0, .max = 100});
}

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
  bool expandable_segments = false;
  Controller controller;
};

template <class Visitor>
void describe(Visitor& v, Framework& f) {
  v.field("name", f.name, "Training code: plain PyTorch modules, Megatron of 2021, or nanotron.");
  v.field("operator_seconds", f.operator_seconds,
          "Host time of one forward operator; 0 = the machine's, or the framework's own.",
          {.unit = Dimension::seconds, .min = 0, .max = 1e-2});
  v.field("backward_share", f.backward_share,
          "Host time of a backward operator relative to a forward one.",
          {.unit = Dimension::fraction, .min = 0, .max = 10});
  v.field("update_share", f.update_share,
          "Host time of one operator of a for-loop optimizer relative to a forward one.",
          {.unit = Dimension::fraction, .min = 0, .max = 10});
  v.field("flash_attention", f.flash_attention,
          "Version of the fused attention kernels; 3: those for Hopper and newer, cuDNN's, too.",
          {.min = 1, .max = 3});
  v.field(
      "expandable_segments", f.expandable_segments,
      "PyTorch's allocator grows its segments page by page (PYTORCH_CUDA_ALLOC_CONF): memory is "
      "reserved as it is allocated.");
  v.field("controller", f.controller, "Who dispatches computations to hosts.", {.single = true});
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
