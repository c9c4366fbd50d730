// Do strategies on CPUs account for the differences from GPUs: communication on the computing core,
// no host that runs ahead, and measured curves in place of the model?
#include <gtest/gtest.h>

#include "strategies/parameter_server/build.hpp"
#include "strategies/parameter_server/parameter_server.hpp"
#include "toy_job.hpp"

namespace lockstep::testing::cpu_test {
namespace {

constexpr double near = 1e-9;

CollectiveCurve curve(const char* name, int nodes, double seconds, double cores) {
  // 1 MB takes `seconds`, other sizes in proportion.
  return {.collective = name,
          .ranks = 2,
          .nodes = nodes,
          .bytes = {1e6, 1e9},
          .seconds = {seconds, 1e3 * seconds},
          .host_seconds = {cores * seconds, cores * 1e3 * seconds},
          .source = "test"};
}

// Two ranks on a host of two cores. A layer takes 1 ms forward and 2 ms backward and has a weight
// of 4 MB. A collective occupies `cores` of a core and takes 1 ms per MB.
Job cpu_job(int layers, double cores) {
  Job job = toy_job(layers, 1e6, 2);
  job.machine = {};
  job.machine.name = "two cores";
  job.machine.device.architecture = Architecture::cpu;
  job.machine.device.memory_bytes = 8e9;
  job.machine.gpus_per_node = 2;
  job.machine.intra = IntraLink::host;
  job.machine.host.cores = 2;
  for (const char* name : {"all_reduce", "all_gather", "reduce_scatter"})
    job.machine.collectives.push_back(curve(name, 1, 1e-3, cores));
  job.simulation.interference = true;
  return job;
}

DdpOptions one_bucket_per_layer() {
  DdpOptions options;
  options.bucket_bytes = options.first_bucket_bytes = 4e6;
  options.gradient_as_bucket_view = true;
  return options;
}

// With two layers and a bucket each: the first bucket's all-reduce of 4 ms runs beside the last 2
// ms of backward, the second bucket's runs alone.
TEST(DdpOnCpu, CommunicationTakesFromTheCoreThatComputes) {
  const auto step = [](double cores) {
    return simulate(cpu_job(2, cores), one_bucket_per_layer());
  };
  const double before = 2e-3 + 2e-3;  // forward and the backward of the last layer
  const double after = 4e-3 + 1e-3;   // the second all-reduce and the optimizer
  const double copy = 8e6 / 1e12;     // a gradient is read and written into its bucket
  // A collective on a quarter of a core stretches 2 ms of compute to 8/3 ms, within the first
  // all-reduce.
  EXPECT_NEAR(step(0.25).step, before + copy + 4e-3 + after, near);
  EXPECT_NEAR(step(0.25).split.backward, 2e-3 + 2e-3 / 0.75, near);
  // On half a core compute takes 4 ms and the second gradient's copy a bit more; the all-reduce has
  // its half and is not slowed.
  EXPECT_NEAR(step(0.5).step, before + copy + 4e-3 + copy + after, near);
  // On a whole core both run at half speed until compute and the second copy are done.
  const double beside = 2 * (2e-3 + copy);
  EXPECT_NEAR(step(1).step, before + copy + beside + (4e-3 - beside / 2) + after, near);
  EXPECT_NEAR(step(1).split.backward, 2e-3 + 4e-3, near);
}

TEST(DdpOnCpu, BothExecutorsAgree) {
  for (const double cores : {0.25, 0.5, 1.0}) {
    for (const int layers : {2, 7}) {
      Job job = cpu_job(layers, cores);
      job.stragglers.per_step = Lognormal{0.2};
      job.simulation.engine = Engine::loop;
      const Numbers loop = simulate(job, one_bucket_per_layer());
      job.simulation.engine = Engine::simgrid;
      EXPECT_LT(difference(loop, simulate(job, one_bucket_per_layer())), near);
    }
  }
}

// Measured speeds replace the fair share of the core: beside each other compute runs at 0.4 of its
// speed and the first all-reduce at 0.25.
TEST(DdpOnCpu, MeasuredSpeedsReplaceTheSharedCore) {
  Job job = cpu_job(2, 1);
  for (CollectiveCurve& curve : job.machine.collectives) {
    curve.compute_speed = {0.4, 0.4};
    curve.speed_beside_compute = {0.25, 0.25};
  }
  const Numbers result = simulate(job, one_bucket_per_layer());
  const double copy = 8e6 / 1e12;
  const double beside = (2e-3 + copy) / 0.4;
  EXPECT_NEAR(result.step, 4e-3 + copy + beside + (4e-3 - beside / 4) + 4e-3 + 1e-3, near);
  EXPECT_NEAR(result.split.backward, 2e-3 + 2e-3 / 0.4, near);
  // If the same bytes take twice as long, the collective takes half as much from compute.
  job.communication_scale = 2;
  const Numbers slow = simulate(job, one_bucket_per_layer());
  EXPECT_NEAR(slow.split.backward, 2e-3 + 2e-3 / 0.7, near);
}

TEST(DdpOnCpu, SpareCoresCarryTheCommunication) {
  Job job = cpu_job(2, 1);
  const double shared = simulate(job, one_bucket_per_layer()).step;
  job.machine.host.cores = 4;
  const Numbers spare = simulate(job, one_bucket_per_layer());
  EXPECT_NEAR(spare.split.backward, 4e-3, near);
  EXPECT_LT(spare.step, shared);
  job.machine.host.cores = 2;
  job.simulation.interference = false;
  EXPECT_NEAR(simulate(job, one_bucket_per_layer()).step, spare.step, near);
}

// Encoding occupies the computing thread for 3 ms. Decoding runs for half a millisecond on the
// thread that carries the message: the first bucket's decoding runs beside backward and delays it
// by as much, the second bucket's runs alone.
TEST(DdpOnCpu, MeasuredHooksDecodeOnTheThreadThatCarries) {
  class Measured final : public ToyCosts {
    std::vector<QueuedWork> hook_stages(const HookSettings& settings, double) const override {
      if (!same_work(settings, {.fraction = 1.0 / 16, .ranks = 2})) return {};
      return {{0, 3e-3, 3e-3}, {0, 5e-4, 5e-4}};
    }
  };
  Job job = cpu_job(2, 0);
  DdpOptions options = one_bucket_per_layer();
  options.comm_hook = TopKHook{1.0 / 16};  // a megabyte is gathered
  const double modelled = simulate(job, options).step;
  job.costs = std::make_shared<Measured>();
  const double copy = 8e6 / 1e12, gather = 1e-3, decode = 5e-4;
  const double lone = 4e-3 + 2 * (copy + 3e-3) + 2e-3 + gather + decode + 1e-3;
  EXPECT_NEAR(simulate(job, options).step, lone + decode, near);
  job.machine.host.cores = 4;
  EXPECT_NEAR(simulate(job, options).step, lone, near);
  job = toy_job(2, 1e6, 2);
  const Numbers gpu = simulate(job, options);
  job.costs = std::make_shared<Measured>();
  EXPECT_EQ(simulate(job, options).step, gpu.step);
  EXPECT_LT(modelled, lone);
}

// The whole model is compressed, so the plain message is empty and is skipped.
TEST(DdpOnCpu, MeasuredPowerSgdSkipsEmptyMessages) {
  class Measured final : public ToyCosts {
    std::vector<QueuedWork> hook_stages(const HookSettings& settings, double) const override {
      if (!same_work(settings, {.hook = CodedHook::powersgd, .rank = 2})) return {};
      return {{0, 1e-3, 1e-3}, {0, 2e-3, 2e-3}, {0, 4e-3, 4e-3}, {0, 8e-3, 8e-3}};
    }
  };
  Job job = cpu_job(1, 0);
  job.costs = std::make_shared<Measured>();
  DdpOptions options = one_bucket_per_layer();
  options.comm_hook = PowerSgdHook{2};
  const double copy = 8e6 / 1e12, least = 1e-3;  // the time of the smallest point of the curve
  EXPECT_NEAR(simulate(job, options).step, 3e-3 + copy + 15e-3 + 2 * least + 1e-3, near);
}

TEST(DdpOnCpu, CopiesOutOfBucketsAreSavedByViews) {
  DdpOptions options = one_bucket_per_layer();
  const double views = simulate(cpu_job(2, 0), options).split.copies;
  options.gradient_as_bucket_view = false;
  EXPECT_NEAR(views, 2 * 8e6 / 1e12, near * 1e-3);
  EXPECT_NEAR(simulate(cpu_job(2, 0), options).split.copies, 2 * views, near * 1e-3);
}

// The computing thread itself waits for parameters, so all 3 x 4 collectives of 4 ms are exposed
// without prefetch. A GPU's host would run ahead and gather beside compute.
TEST(FsdpOnCpu, WithoutPrefetchEveryCollectiveIsExposed) {
  FsdpOptions options;
  options.wrap.min_parameters = 1;
  options.backward_prefetch = BackwardPrefetch::none;
  const Numbers cpu = simulate(cpu_job(4, 0), options);
  EXPECT_NEAR(cpu.split.exposed_communication, 48e-3, near);
  EXPECT_NEAR(cpu.split.host_bound, 0, near);
  EXPECT_NEAR(cpu.split.forward + cpu.split.backward, 12e-3, near);
  EXPECT_NEAR(sum(cpu.split), cpu.step, near);
  Job gpu = cpu_job(4, 0);
  gpu.machine.device.architecture = Architecture::ampere;
  EXPECT_LT(simulate(gpu, options).split.exposed_communication, 48e-3 - 2e-3);
}

Job server_job(int cores, double seconds_per_megabyte) {
  Job job = cpu_job(4, 0);
  job.machine.host.cores = cores;
  job.machine.collectives.push_back(curve("send_recv", 1, seconds_per_megabyte, 1));
  return job;
}

// Forward takes 4 ms and backward 8 ms; 16 MB are pushed and pulled at 2 ms per MB.
TEST(ServerOnCpu, MessagesTakeWhatTheirCurveSays) {
  ParameterServerOptions options;
  options.consistency = Consistency::async;
  options.serial = true;
  Job job = server_job(3, 2e-3);
  job.mesh.data = 1;
  const double one_message = job.costs->stream(2 * 16e6, 4).span;  // out of four gradients
  EXPECT_NEAR(simulate(job, options).step, 12e-3 + one_message + 32e-3 + 1e-3 + 32e-3, near);
  job.communication_scale = 0.5;
  EXPECT_NEAR(simulate(job, options).step, 12e-3 + one_message + 16e-3 + 1e-3 + 16e-3, near);
}

TEST(ServerOnCpu, TransfersComeFromTheirCurve) {
  ParameterServerOptions options;
  options.serial = true;
  Job job = server_job(3, 2e-3);
  job.mesh.data = 1;
  const auto provenance = [&] { return ParameterServer(options).simulate(job).provenance; };
  // between two points of the curve; the layers are modelled
  EXPECT_GT(provenance().interpolated, 0.5);
  job.machine.collectives.clear();
  EXPECT_EQ(provenance().interpolated, 0);
}

TEST(ServerOnCpu, SharesACoreOnlyWhereThereAreTooFew) {
  ParameterServerOptions options;
  options.consistency = Consistency::async;
  const auto shared = [&](int cores) {
    return build_parameter_server(server_job(cores, 1e-4), options).system.core_of_server;
  };
  EXPECT_EQ(shared(2), std::vector<int>{0});
  EXPECT_EQ(shared(3), std::vector<int>{-1});
  options.servers = 3;
  EXPECT_EQ(shared(3), (std::vector<int>{-1, 0, 1}));
  EXPECT_EQ(shared(2), (std::vector<int>{0, 1, 0}));
}

TEST(ServerOnCpu, MessagesOnOneCoreTakeWhatWasMeasuredThere) {
  ParameterServerOptions options;
  options.serial = true;
  for (const int cores : {1, 2}) {
    Job job = server_job(cores, 2e-3);
    job.mesh.data = 1;
    const double before = simulate(job, options).step;
    for (CollectiveCurve& curve : job.machine.collectives) {
      for (const double seconds : curve.seconds) curve.one_core_seconds.push_back(1.25 * seconds);
    }
    const double messages = cores == 1 ? 2 * 0.25 * 32e-3 : 0;  // there and back
    EXPECT_NEAR(simulate(job, options).step, before + messages, near) << cores;
  }
}

// Two workers keep the server busy with their messages. By the curve a quarter of 16 MB is still in
// the buffers when the server takes the next push; the largest size would give 0.5 MB. A server
// that serves several workers at once gains nothing.
TEST(ServerOnCpu, IsFreeByWhatBuffersHoldOfAMessageOfThatSize) {
  ParameterServerOptions options;
  options.consistency = Consistency::async;
  options.serial = true;
  Job job = server_job(3, 2e-3);
  CollectiveCurve& messages = job.machine.collectives.back();
  messages.bytes = {1e6, 16e6, 1e9};
  messages.seconds = {2e-3, 32e-3, 2};
  messages.host_seconds = {};
  messages.sender_seconds = {1e-3, 24e-3, 1.999};
  EXPECT_NEAR(simulate(job, options).step, 2 * (32e-3 + 1e-3 + 24e-3), near);
  options.serial = false;
  const double step = simulate(job, options).step;
  job.machine.collectives.back().sender_seconds.clear();
  EXPECT_EQ(simulate(job, options).step, step);
}

// Hosts of GPUs have other cores for these threads.
TEST(ServerOnGpu, NeverSharesACore) {
  ParameterServerOptions options;
  Job job = toy_job();
  job.machine.host.cores = 1;
  job.simulation.interference = true;
  EXPECT_EQ(build_parameter_server(job, options).system.core_of_server, std::vector<int>{-1});
}

}  // namespace
}  // namespace lockstep::testing::cpu_test
