// Are strategy options read as a user writes them, and are mistakes found?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/describe.hpp"
#include "strategies/common/stragglers.hpp"
#include "strategies/table.hpp"

namespace lockstep::options_test {
namespace {

using ::testing::HasSubstr;

std::string error_of(const std::string& text) {
  try {
    read_text<StrategyOptions>(text, "f.yaml");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Options, BareNameTakesEveryDefault) {
  const auto ddp = std::get<DdpOptions>(read_text<StrategyOptions>("ddp", "f.yaml"));
  EXPECT_EQ(ddp.bucket_bytes, 25 * 1024.0 * 1024);
  EXPECT_EQ(ddp.first_bucket_bytes, 1024.0 * 1024);
  const auto fsdp = std::get<FsdpOptions>(read_text<StrategyOptions>("fsdp", "f.yaml"));
  EXPECT_EQ(fsdp.backward_prefetch, BackwardPrefetch::pre);
  EXPECT_TRUE(fsdp.limit_all_gathers);
  EXPECT_TRUE(std::holds_alternative<ParameterServerOptions>(
      read_text<StrategyOptions>("parameter_server", "f.yaml")));
}

TEST(Options, FsdpOptionsAreReadWithTheirUnits) {
  const auto options = std::get<FsdpOptions>(read_text<StrategyOptions>(
      "fsdp: {version: 2, sharding: hybrid_shard, wrap: {min_parameters: 1M}, cpu_offload: true,\n"
      "       backward_prefetch: post, gather_element_size: 2 B, shard_group: 4}",
      "f.yaml"));
  EXPECT_EQ(options.version, 2);
  EXPECT_EQ(options.sharding, Sharding::hybrid_shard);
  EXPECT_EQ(options.wrap.policy, WrapPolicy::automatic);
  EXPECT_EQ(options.wrap.min_parameters, 1e6);
  EXPECT_TRUE(options.cpu_offload);
  EXPECT_EQ(options.backward_prefetch, BackwardPrefetch::post);
  EXPECT_EQ(options.gather_bytes, 2);
  EXPECT_EQ(options.shard_group, 4);
}

TEST(Options, DdpAndParameterServerOptionsAreReadWithTheirUnits) {
  const auto ddp = std::get<DdpOptions>(read_text<StrategyOptions>(
      "ddp: {bucket_size: 50 MiB, comm_hook: fp16-compress, overlap: false}", "f.yaml"));
  EXPECT_EQ(ddp.bucket_bytes, 50 * 1024.0 * 1024);
  EXPECT_TRUE(std::holds_alternative<Fp16Hook>(ddp.comm_hook));
  EXPECT_FALSE(ddp.overlap);
  const auto server = std::get<ParameterServerOptions>(read_text<StrategyOptions>(
      "parameter_server: {consistency: ssp, staleness_bound: 5, servers: 2,\n"
      "                   placement: worker-host, partition_size: 4 MiB}",
      "f.yaml"));
  EXPECT_EQ(server.consistency, Consistency::ssp);
  EXPECT_EQ(server.staleness_bound, 5);
  EXPECT_EQ(server.servers, 2);
  EXPECT_EQ(server.placement, ServerPlacement::worker_host);
  EXPECT_EQ(server.partition_bytes, 4 * 1024.0 * 1024);
}

TEST(Options, StragglersAreReadAsDistributions) {
  const auto stragglers = read_text<Stragglers>(
      "{per_step: {pareto: {alpha: 2.5, scale: 5%}}, per_rank: 1%,\n"
      " slow_ranks: [{rank: 3, factor: 1.5}]}",
      "f.yaml");
  const auto& tail = std::get<ParetoTail>(stragglers.per_step.value());
  EXPECT_EQ(tail.alpha, 2.5);
  EXPECT_EQ(tail.scale, 0.05);
  EXPECT_EQ(stragglers.per_rank_sigma.value(), 0.01);
  ASSERT_EQ(stragglers.slow_ranks.size(), 1u);
  EXPECT_EQ(stragglers.slow_ranks[0].rank, 3);
  EXPECT_EQ(stragglers.slow_ranks[0].factor, 1.5);
  EXPECT_FALSE(read_text<Stragglers>("{per_rank: 0}", "f.yaml").per_step.has_value());
}

TEST(Options, MistakesAreLocated) {
  EXPECT_THAT(error_of("fsdp: {shardin: full_shard}"), HasSubstr("did you mean 'sharding'"));
  EXPECT_THAT(error_of("fsdp: {sharding: fullshard}"), HasSubstr("full_shard"));
  EXPECT_THAT(error_of("fsdp: {version: 3}"), HasSubstr("f.yaml:1:"));
  EXPECT_THAT(error_of("fsdp: {gather_element_size: 16 B}"), HasSubstr("gather_element_size"));
  EXPECT_THAT(error_of("fsdp: {wrap: {policy: blocks}}"), HasSubstr("did you mean 'block'"));
  EXPECT_THAT(error_of("ddp: {bucket_size: 25}"), HasSubstr("bucket_size"));
  EXPECT_THAT(error_of("parameter_server: {servers: 0}"), HasSubstr("servers"));
  EXPECT_THAT(error_of("zeroo"), HasSubstr("parameter_server"));
}

TEST(Options, ExpandedExportReadsBackToTheSameOptions) {
  FsdpOptions options;
  options.wrap = {WrapPolicy::size, 1.5e6};
  options.sharding = Sharding::hybrid_shard_zero2;
  options.reduce_bytes = 4;
  options.use_orig_params = true;
  const std::string text = emit_yaml(options);
  const auto again = read_text<FsdpOptions>(text, "f.yaml");
  EXPECT_EQ(emit_yaml(again), text);
  EXPECT_EQ(again.wrap.min_parameters, 1.5e6);
  EXPECT_EQ(again.reduce_bytes, 4);
  EXPECT_TRUE(again.use_orig_params);
}

// A collective over all nodes runs at the speed of the slowest link, also if the slowest node is
// the last one. Nodes without a rank do not count.
TEST(LinkSpeeds, TheSlowestLinkOfTheNodesInUseCounts) {
  Job job;
  job.machine.gpus_per_node = 8;
  job.mesh.data = 17;  // three nodes
  const auto left = [&](int node) {
    job.stragglers.slow_links = {{.link = LinkClass::nic, .node = node, .speed = 0.25, .from = 2}};
    return least_speed_left(job, LinkClass::nic, {.time = 2});
  };
  EXPECT_EQ(left(0), 0.25);
  EXPECT_EQ(left(2), 0.25);
  EXPECT_EQ(left(3), 1);
  left(2);
  EXPECT_EQ(least_speed_left(job, LinkClass::nic, {.time = 1}), 1);
  EXPECT_EQ(least_speed_left(job, LinkClass::nvlink, {.time = 2}), 1);
  Neighbour& neighbour = job.stragglers.neighbours.emplace_back();
  neighbour.nodes = {1};
  neighbour.share = 0.5;
  EXPECT_EQ(least_speed_left(job, LinkClass::nic, {.time = 1}), 0.5);
}

// The expected values are means of the largest of N standard normal draws, from tables of order
// statistics.
TEST(RankSpeeds, TheSlowestOfManyRanksIsAsSlowAsItIsOnAverage) {
  const std::vector<std::pair<int, double>> largest{
      {2, 0.564}, {8, 1.424}, {100, 2.508}, {1000, 3.241}};
  Job job;
  job.stragglers.per_rank_sigma = 0.02;
  for (const auto& [ranks, sigmas] : largest) {
    job.mesh.data = ranks;
    const std::vector<double> factors = RankSpeeds(job).factors(0);
    const double slowest = *std::max_element(factors.begin(), factors.end());
    EXPECT_NEAR((slowest - 1) / 0.02, sigmas, 0.07) << ranks;  // lanes are a tenth of sigma apart
  }
}

}  // namespace
}  // namespace lockstep::options_test
