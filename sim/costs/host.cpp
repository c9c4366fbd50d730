// Computes the host's seconds per operator from a machine and a framework, and queues equal kernels
// at even distances. The span of n equal items is a maximum of linear functions, so a closed form
// replaces n calls of append().
#include "costs/host.hpp"

#include <algorithm>

namespace lockstep {
namespace {

// Seconds per operator of Megatron-LM of 2021 under full recomputation, fitted to its measured
// steps (docs/device-models.md). The number is far above the time of one dispatch, because only
// operators that launch kernels are counted: it includes the views, transposes, autograd functions
// and saves of the random state between them.
constexpr double megatron_operator_seconds = 47.1e-6;

// Host time of a backward operator relative to a forward one. PyTorch's share is the median of 25
// genuine steps on an H100; without any one of their 12 networks it is 0.79 to 0.88
// (calibrate/oracle/gpu/steps.py --hosts, docs/gpu-results.md). Megatron's share is from the fit
// above.
constexpr double pytorch_backward_share = 0.82, megatron_backward_share = 0.42;

// Host time of an operator without modules and autograd relative to a forward one: an operator of a
// compiled graph's wrapper, of a copy or of a communication hook. It was not measured. The estimate
// lies between the 0.33 of an update in a loop (host.hpp) and the share of autograd.
constexpr double plain_share = 0.42;

double own_backward_share(FrameworkKind kind) {
  return kind == FrameworkKind::pytorch ? pytorch_backward_share : megatron_backward_share;
}

}  // namespace

HostRates host_rates(const HostSpec& host, const Framework& framework) {
  HostRates rates;
  rates.forward_operator = host.dispatch_seconds;
  // nanotron's layers are Megatron-LM's.
  if (framework.name != FrameworkKind::pytorch) rates.forward_operator = megatron_operator_seconds;
  if (framework.operator_seconds > 0) rates.forward_operator = framework.operator_seconds;
  const double given = framework.backward_share;
  rates.backward_operator =
      rates.forward_operator * (given > 0 ? given : own_backward_share(framework.name));
  rates.plain_operator = rates.forward_operator * (given > 0 ? given : plain_share);
  rates.update_operator = rates.forward_operator * framework.update_share;
  rates.launch = host.launch_seconds;
  return rates;
}

QueuedWork queued(double operator_seconds, double launch_seconds, int operators, int launches,
                  double device_seconds) {
  QueuedWork work;
  work.host = operators * operator_seconds + std::max(0, launches - operators) * launch_seconds;
  if (launches <= 0) return work;
  work.busy = device_seconds;
  // host * i / n + busy * (n - i + 1) / n is linear in i, so its maximum over i = 1 ... n is at an
  // end.
  work.span = std::max(work.host / launches + work.busy, work.host + work.busy / launches);
  return work;
}

}  // namespace lockstep
