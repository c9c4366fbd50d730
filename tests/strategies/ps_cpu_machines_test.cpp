// With servers on hosts with and without GPUs (BytePS), does an exchange reach its optimum?
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <utility>

#include "core/errors.hpp"
#include "costs/collective.hpp"
#include "ps_job.hpp"
#include "strategies/parameter_server/build.hpp"

namespace lockstep::testing::ps_cpu_machines_test {
namespace {

constexpr double nic = 10e9;

// Machines with one GPU each. Only the NICs take time; copies, sums and updates cost nothing.
Job nics_alone(int gpu_machines) {
  Job job = toy_job(gpu_machines, 1);
  job.machine.host.memory_bandwidth = 0;
  job.machine.pcie.generation = 12;
  job.machine.fabric.latency_seconds = 0;
  return job;
}

ParameterServerOptions byteps(int cpu_machines) {
  ParameterServerOptions options;
  options.placement = ServerPlacement::worker_and_own_hosts;
  options.own_hosts = cpu_machines;
  options.update = UpdatePlace::workers;
  options.keys = KeyRule::ranges;
  return options;
}

// The time of an exchange in units of M / B (one model over one NIC): the step without compute and
// the workers' update. Each message is cut into `parts` parts.
double exchange(int n, int k, int parts, int credit = 0) {
  PsJob ps = build_parameter_server(nics_alone(n), byteps(k));
  ps.system.credit = credit;
  std::vector<PsMessage> messages;
  for (int part = 0; part < parts; ++part) {
    for (PsMessage message : ps.system.messages) {
      for (double* bytes : {&message.push_bytes, &message.pull_bytes}) *bytes /= parts;
      messages.push_back(message);
    }
  }
  ps.system.messages = messages;
  for (PsRoute& route : ps.system.routes) route.latency = 0;
  const PsTrace trace = run_parameter_server(ps.system);
  const double step = trace.step_ends[3] - trace.step_ends[2];
  return (step - ps.system.segments[0].work.busy - 30e-3) / (kModelBytes / nic);
}

double optimum(double n, double k) {
  return 2 * n * (n - 1) / (n * n + k * n - 2 * k);
}

// Fact H127: the NICs of all machines carry equally much, the optimum, up to the rounding to whole
// elements.
TEST(CpuMachines, EveryNicCarriesTheSame) {
  for (const auto& [n, k] : {std::pair{2, 0}, {4, 0}, {4, 1}, {4, 2}, {4, 4}, {7, 5}, {8, 3}}) {
    const StrategyResult result = ParameterServer(byteps(k)).simulate(nics_alone(n));
    for (const LinkTraffic& traffic : result.traffic) {
      if (traffic.link_class != "NIC") continue;
      EXPECT_NEAR(traffic.bytes / (optimum(n, k) * kModelBytes), 1, 1e-6) << n << " " << k;
      EXPECT_NEAR(traffic.total_bytes / (2 * (n + k) * traffic.bytes), 1, 1e-6) << n << " " << k;
    }
  }
}

// The pushes of one part and the answers of the part before share the NICs evenly. Without CPU
// machines the time is a ring's.
TEST(CpuMachines, NoneIsAsFastAsARing) {
  for (const int n : {2, 4, 8}) {
    for (const int parts : {1, 4, 64}) {
      EXPECT_NEAR(exchange(n, 0, parts) / (2.0 * (n - 1) / n), 1, 1e-9) << n << " " << parts;
    }
  }
}

// With as many CPU machines as GPU machines the time is M / B, plus the first part's push or the
// last part's answer, beside which nothing else runs.
TEST(CpuMachines, AsManyAsGpuMachinesHalveIt) {
  for (const int n : {2, 4, 8}) {
    for (const int parts : {1, 4, 64}) {
      EXPECT_NEAR(exchange(n, n, parts) / (1 + 1.0 / parts), 1, 1e-9) << n << " " << parts;
    }
  }
}

// With fewer CPU machines, messages to these are longer than others. With one message in flight to
// each server, the short messages end first. If n = 4, two are left, which use 2 B / 4: the
// time is 1.6 M / B instead of 1.2.
TEST(CpuMachines, AWindowComesNearTheOptimum) {
  EXPECT_NEAR(exchange(4, 2, 64), 1.6 + 1.0 / 64, 1e-9);
  double last = 2;
  for (const int parts : {16, 64, 256}) {
    const double now = exchange(4, 2, parts, 6) / optimum(4, 2);
    EXPECT_GE(now, 1 - 1e-9);
    EXPECT_LT(now, last);
    last = now;
  }
  EXPECT_LT(last, 1.03);
}

// The tolerance allows for the first part's push and the last part's answer, which do not wait
// without CPU machines.
RC_GTEST_PROP(CpuMachines, OneMoreIsNeverSlower, ()) {
  constexpr int parts = 64;
  const int n = *rc::gen::inRange(2, 7), k = *rc::gen::inRange(0, n);
  const double fewer = exchange(n, k, parts, n + k);
  RC_ASSERT(exchange(n, k + 1, parts, n + k + 1) <= fewer + 2.0 / parts);
}

TEST(CpuMachines, MoreThanGpuMachinesAreRefused) {
  EXPECT_THROW(ParameterServer(byteps(3)).simulate(nics_alone(2)), ConfigError);
  EXPECT_NO_THROW(ParameterServer(byteps(1)).simulate(nics_alone(1)));
}

// Three nodes of eight GPUs have one server: the sum of each node travels once.
TEST(LocalReduction, ANodePushesAndPullsOnce) {
  Job job = nics_alone(24);
  job.machine.gpus_per_node = 8;
  ParameterServerOptions options;
  options.placement = ServerPlacement::own_hosts;
  options.update = UpdatePlace::workers;
  options.local_reduction = true;
  const StrategyResult result = ParameterServer(options).simulate(job);
  const CommGroup node = group_of(job.machine, 8);
  const double local =
      collective_cost(job.machine, node, Collective::reduce_scatter, kModelBytes).seconds() +
      collective_cost(job.machine, node, Collective::all_gather, kModelBytes).seconds();
  const double latency = host_device_copy(job.machine, 1).latency_seconds +
                         host_host_copy(job.machine, 1).latency_seconds;
  const double update = 50e6 * 12 / 1e12;
  EXPECT_NEAR(mean_of(result), 30e-3 + update + local + 2 * (latency + 3 * kModelBytes / nic),
              1e-9);
  EXPECT_DOUBLE_EQ(busy_of(result, "NIC"), 3 * kModelBytes);
  EXPECT_NEAR(total(result.split) / mean_of(result), 1, 1e-9);
}

// The server does the work of three pushes, not of 24.
TEST(LocalReduction, AServerSumsOnceForEachNode) {
  Job job = toy_job(24, 8);
  job.machine.host.memory_bandwidth = 1e9;
  ParameterServerOptions options;
  options.local_reduction = true;
  const PsMessage message = build_parameter_server(job, options).system.messages.front();
  const double all = message.keep_seconds + 23 * message.accumulate_seconds;
  EXPECT_NEAR(all / ((2 + 3 * 2) * kModelBytes / 0.8e9), 1, 1e-9);
}

// The worker keeps the optimizer's state; the server on the worker's GPU keeps none.
TEST(WorkersUpdate, TheStateIsTheirs) {
  Job job = toy_job(4);
  job.optimizer.name = OptimizerKind::adam;
  ParameterServerOptions options;
  const double without = ParameterServer(options).memory(job).allocated;
  options.update = UpdatePlace::workers;
  EXPECT_GE(ParameterServer(options).memory(job).allocated - without, 2 * kModelBytes);
  EXPECT_EQ(ParameterServer(options).updater(job), Updater::device);
  EXPECT_GT(ParameterServer(options).simulate(job).split.optimizer, 0);
}

}  // namespace
}  // namespace lockstep::testing::ps_cpu_machines_test
