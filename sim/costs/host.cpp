#include "costs/host.hpp"

#include <algorithm>

namespace lockstep {
namespace {

// Python around one operator, relative to plain PyTorch modules.
double python_factor(FrameworkKind kind) {
  switch (kind) {
    case FrameworkKind::pytorch:
      return 1;
    case FrameworkKind::megatron:
      return 2;
  }
  return 1;
}

}  // namespace

HostRates host_rates(const HostSpec& host, const Framework& framework) {
  HostRates rates;
  rates.forward_operator = framework.operator_seconds > 0
                               ? framework.operator_seconds
                               : host.dispatch_seconds * python_factor(framework.name);
  rates.backward_operator = rates.forward_operator * framework.backward_share;
  rates.launch = host.launch_seconds;
  return rates;
}

QueuedWork queued(double operator_seconds, double launch_seconds, int operators, int launches,
                  double device_seconds) {
  QueuedWork work;
  work.host = operators * operator_seconds + std::max(0, launches - operators) * launch_seconds;
  if (launches <= 0) return work;
  work.busy = device_seconds;
  // max over i of i/n * host + (n-i+1)/n * busy is linear in i: its ends decide.
  work.span = std::max(work.host / launches + work.busy, work.host + work.busy / launches);
  return work;
}

}  // namespace lockstep
