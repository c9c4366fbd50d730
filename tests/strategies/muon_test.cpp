// Muon needs whole matrices: do strategies that have these pay for it, and do others refuse it?
#include <gmock/gmock.h>

#include "costs/roofline_costs.hpp"
#include "ps_job.hpp"
#include "strategies/common/replica.hpp"
#include "strategies/table.hpp"
#include "workload/model.hpp"

namespace lockstep::muon_test {
namespace {

using ::testing::HasSubstr;

// GPT-2's first blocks on GPUs with a price for matrix products.
Job gpt(int gpus, OptimizerKind rule = OptimizerKind::muon) {
  Job job = lockstep::testing::toy_job(gpus);
  StepOptions options;
  options.samples = 1;
  options.sequence = 128;
  options.parameters = {{"layers", 2}};
  job.step = std::make_shared<const TrainingStep>(build_step(*load_model("gpt"), options));
  job.optimizer.implementation = OptimizerImplementation::fused;
  job.optimizer.name = rule;
  job.optimizer = for_model(job.optimizer, *job.step);
  Device& device = job.machine.device;
  device.fp32_flops = 20e12;
  device.bf16_flops = 300e12;
  device.memory_bandwidth = 2e12;
  job.costs = std::make_shared<RooflineCosts>(job.machine, Framework{});
  return job;
}

constexpr double matrices = 2 * 12 * 768.0 * 768;

double kind(const MemoryUse& memory, const char* name) {
  const auto found = memory.at_peak.find(name);
  return found == memory.at_peak.end() ? 0 : found->second;
}

TEST(Muon, ReplicasKeepOneMomentumOfEachMatrix) {
  const auto strategy = make_strategy(DdpOptions{});
  const MemoryUse muon = strategy->memory(gpt(8)),
                  adamw = strategy->memory(gpt(8, OptimizerKind::adamw));
  EXPECT_NEAR(kind(adamw, "optimizer state") - kind(muon, "optimizer state"), 4 * matrices, 1e5);
}

TEST(Muon, TemporariesAreOfOneMatrix) {
  const Job job = gpt(1);
  const OptimizerMemory memory = replica_memory_plan(job).optimizer;
  ASSERT_EQ(memory.others.size(), 8u);
  EXPECT_EQ(memory.state_bytes_per_element, 8);
  const TensorUpdate& wide = memory.others[2];  // the matrix of 3072 x 768
  EXPECT_EQ(wide.state_bytes_per_element, 4);
  const double all = 3072.0 * 768, gram = 768.0 * 768;
  EXPECT_EQ(wide.temporaries, (std::vector<double>{4 * all, 2 * all, 2 * gram, 2 * gram, 2 * all}));
}

TEST(Muon, ServersOnGpusUpdateWholeTensors) {
  ParameterServerOptions options;
  options.placement = ServerPlacement::gpu;
  const auto one = make_strategy(options);
  const double muon = one->memory(gpt(4)).at_peak.at("parameter server");
  const double adamw = one->memory(gpt(4, OptimizerKind::adamw)).at_peak.at("parameter server");
  // Muon keeps 4 bytes less of each element of a matrix, and needs temporaries of the largest
  // matrix, which fused AdamW does not.
  const double largest = 3072.0 * 768 * 8 + 4 * 768.0 * 768;
  EXPECT_NEAR(adamw - muon, 4 * matrices - largest, 3e5);

  // Two servers work in parallel, each on its own matrices. With AdamW the update takes almost no
  // time.
  const auto step_of = [](const Job& job, int servers) {
    ParameterServerOptions of;
    of.placement = ServerPlacement::gpu;
    of.servers = servers;
    of.keys = KeyRule::balanced;
    return make_strategy(of)->simulate(job).step_seconds.back();
  };
  const Job with = gpt(2), without = gpt(2, OptimizerKind::adamw);
  const auto update = [](const Job& job) {
    return job.costs
        ->optimizer(job.optimizer, job.step->precision,
                    static_cast<double>(job.step->parameter_count), 28)
        .span;
  };
  const double more = update(with) - update(without);
  EXPECT_NEAR(step_of(with, 1) - step_of(without, 1), more, 0.02 * more);
  EXPECT_LT(step_of(with, 2) - step_of(without, 2), 0.9 * more);
  EXPECT_GT(step_of(with, 2) - step_of(without, 2), 0.4 * more);
}

std::optional<Diagnostic> misfit(const StrategyOptions& options, bool on_cpu = false,
                                 OptimizerKind name = OptimizerKind::muon) {
  OptimizerSpec optimizer;
  optimizer.name = name;
  Device device;
  device.architecture = on_cpu ? Architecture::cpu : Architecture::ampere;
  return make_strategy(options)->optimizer_misfit(optimizer, device);
}

TEST(Muon, ShardsAreRefused) {
  const auto fsdp = misfit(FsdpOptions{});
  ASSERT_TRUE(fsdp);
  EXPECT_EQ(fsdp->field, "fsdp");
  EXPECT_EQ(fsdp->message,
            "muon orthogonalises whole matrices, and FSDP's ranks keep shards of them");
  EXPECT_THAT(fsdp->hint, HasSubstr("adamw"));
  ASSERT_TRUE(misfit(ZeroOptions{}));
  EXPECT_THAT(misfit(ZeroOptions{})->message, HasSubstr("ZeRO's ranks update shares of them"));
  EXPECT_FALSE(misfit(FsdpOptions{}, false, OptimizerKind::adamw));
  EXPECT_FALSE(misfit(ZeroOptions{}, false, OptimizerKind::lamb));
  EXPECT_FALSE(misfit(DdpOptions{}));
  EXPECT_FALSE(misfit(LocalSgdOptions{}));
}

TEST(Muon, ServersWithoutWholeMatricesAreRefused) {
  ParameterServerOptions options;
  ASSERT_TRUE(misfit(options));  // servers on the host's cores
  EXPECT_EQ(misfit(options)->field, "parameter_server.placement");
  EXPECT_FALSE(misfit(options, true));  // on CPUs the ranks are on the host's cores, too
  options.consistency = Consistency::elastic;
  EXPECT_FALSE(misfit(options));  // the workers update
  options.consistency = Consistency::async;
  options.placement = ServerPlacement::gpu;
  EXPECT_FALSE(misfit(options));
  options.servers = 2;
  ASSERT_TRUE(misfit(options));
  EXPECT_EQ(misfit(options)->field, "parameter_server.keys");
  EXPECT_THAT(misfit(options)->message, HasSubstr("split-large cuts them"));
  options.keys = KeyRule::ranges;
  EXPECT_TRUE(misfit(options));
  for (const KeyRule whole : {KeyRule::hash, KeyRule::balanced}) {
    options.keys = whole;
    EXPECT_FALSE(misfit(options));
  }
  options.partition_bytes = 4e6;
  ASSERT_TRUE(misfit(options));
  EXPECT_EQ(misfit(options)->field, "parameter_server.partition_size");
  EXPECT_FALSE(misfit(options, false, OptimizerKind::adamw));
}

}  // namespace
}  // namespace lockstep::muon_test
