// Costs of the host thread that drives a device: seconds per framework operator and per additional
// launch, by framework. In eager frameworks the host is a queue in front of the device, and a
// sequence of short kernels takes as long as the host needs to issue them.
#pragma once

#include "core/fields.hpp"
#include "costs/cost.hpp"
#include "hardware/machine.hpp"
#include "workload/framework.hpp"
#include "workload/step.hpp"

namespace lockstep {

// The program that dispatches computations to hosts and their devices.
enum class Dispatch {
  hosts,  // each host dispatches to its own devices (multi-controller)
  // one controller, which prepares the next computations while devices compute (Pathways' parallel
  // asynchronous dispatch: Barham et al. 2022, section 4.5)
  ahead,
  in_turn,  // one controller, which dispatches a computation when the one before has ended
};
template <>
struct EnumNames<Dispatch> {
  static constexpr std::array names{"hosts", "ahead", "in-turn"};
};

// Cost of a single controller. Each computation (a step, or an action of a pipeline stage) takes
// the controller `fixed_seconds` plus `seconds_per_host` for each of its hosts. The defaults are
// the line through two points at which Pathways is as fast as one program per host: 2.3 ms of work
// on 16 hosts and 35 ms on 512 (fact H133).
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
          "hosts: each host dispatches to its own devices; ahead: one controller dispatches to all "
          "hosts while devices compute; in-turn: one controller dispatches when the previous "
          "computation has ended.");
  v.field("fixed", c.fixed_seconds, "Time of one controller for each computation.",
          {.unit = Dimension::seconds, .min = 0, .max = 100});
  v.field("per_host", c.seconds_per_host, "Time of one controller for each computation and host.",
          {.unit = Dimension::seconds, .min = 0, .max = 100});
}

// The software that drives the device; a scenario's `framework:` block.
struct Framework {
  FrameworkKind name = FrameworkKind::pytorch;
  // Host seconds of one forward operator, including module and autograd bookkeeping in Python. 0 =
  // the machine's dispatch time for PyTorch, and a fitted constant for Megatron and nanotron
  // (host.cpp).
  double operator_seconds = 0;
  // Host time of a backward operator, and of one without modules and autograd, relative to a
  // forward one. 0 = the defaults of `name` (host.cpp). Backward runs in C++ without Python, but
  // PyTorch's autograd also allocates and accumulates gradients.
  double backward_share = 0;
  // Host time of an operator in a for-loop optimizer relative to a forward one. Such an update
  // calls plain operators without modules or autograd. On an H100's host it takes 0.33 of the time
  // of ResNet-50's forward operators in Python, and 0.32 in C++ (docs/gpu-results.md).
  double update_share = 0.33;
  int flash_attention = 2;  // version of the fused attention kernels; 3 counts as 2 before Hopper
  bool expandable_segments = false;
  Controller controller;
};

template <class Visitor>
void describe(Visitor& v, Framework& f) {
  v.field("name", f.name, "Training code: plain PyTorch modules, Megatron of 2021, or nanotron.");
  v.field("operator_seconds", f.operator_seconds,
          "Host time of one forward operator; 0 = the machine's, or the framework's own.",
          {.unit = Dimension::seconds, .min = 0, .max = 1e-2});
  v.field(
      "backward_share", f.backward_share,
      "Host time of a backward operator relative to a forward one; 0 = the framework's own: 82% "
      "in PyTorch, 42% in Megatron.",
      {.unit = Dimension::fraction, .min = 0, .max = 10});
  v.field("update_share", f.update_share,
          "Host time of one operator of a for-loop optimizer relative to a forward one.",
          {.unit = Dimension::fraction, .min = 0, .max = 10});
  v.field("flash_attention", f.flash_attention,
          "Version of the fused attention kernels; 3: the kernels for Hopper and newer, including "
          "cuDNN's.",
          {.min = 1, .max = 3});
  v.field(
      "expandable_segments", f.expandable_segments,
      "PyTorch's allocator grows its segments page by page (PYTORCH_CUDA_ALLOC_CONF): memory is "
      "reserved as it is allocated.");
  v.field("controller", f.controller, "How computations are dispatched to hosts.",
          {.single = true});
}

// Host seconds by kind of operator, on one machine with one framework.
struct HostRates {
  double forward_operator = 0;   // seconds
  double backward_operator = 0;  // seconds
  double plain_operator = 0;     // seconds, without modules and autograd: compiled graphs, copies
  double update_operator = 0;    // seconds; operator of a for-loop optimizer
  double launch = 0;             // seconds of each launch beyond the first of an operator
};

HostRates host_rates(const HostSpec& host, const Framework& framework);

// Work of `operators` dispatched operators and `launches` kernels, which take `device_seconds` of
// device time together. Host and device time are spread evenly over the launches. The result is
// exact if all launches are equal (costs/cost.hpp). Without launches it has only host time.
QueuedWork queued(double operator_seconds, double launch_seconds, int operators, int launches,
                  double device_seconds);

}  // namespace lockstep
