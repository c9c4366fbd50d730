// Dispatch rates of hosts by the framework's year, and the queueing of kernels behind them.
#include "costs/host.hpp"

#include <algorithm>

namespace lockstep {
namespace {

// Megatron-LM of 2021 under full recomputation, fitted to its measured steps
// (docs/device-models.md). Far above a plain dispatch because the operators counted are those that
// launch kernels: the views, transposes, autograd functions and random-state saves between them are
// all in here.
constexpr double megatron_operator_seconds = 47.1e-6;

}  // namespace

HostRates host_rates(const HostSpec& host, const Framework& framework) {
  HostRates rates;
  rates.forward_operator = host.dispatch_seconds;
  // nanotron's layers are Megatron-LM's.
  if (framework.name != FrameworkKind::pytorch) rates.forward_operator = megatron_operator_seconds;
  if (framework.operator_seconds > 0) rates.forward_operator = framework.operator_seconds;
  rates.backward_operator = rates.forward_operator * framework.backward_share;
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
  // max over i of i/n * host + (n-i+1)/n * busy is linear in i: its ends decide.
  work.span = std::max(work.host / launches + work.busy, work.host + work.busy / launches);
  return work;
}

}  // namespace lockstep
