// Do variants of the parameter server in a whole job have the right costs, and the right schedules
// for the replay of the training (elastic averaging, compression, weighting, backup workers)?
#include <gtest/gtest.h>

#include <filesystem>

#include "core/errors.hpp"
#include "ps_fixture.hpp"
#include "ps_job.hpp"
#include "results/schedule.hpp"
#include "test_folder.hpp"

namespace lockstep::testing::ps_variant_jobs_test {
namespace {

constexpr double exact = 1e-9;
constexpr double elements = 50e6;
constexpr double host_rate = 0.8 * 200e9;  // bytes/s of streaming
constexpr double device_rate = 1e12;       // bytes/s, as in FixedCosts

double copy_of(double bytes) {
  return 8e-6 + bytes / 24e9;
}
double server_update(const Job& job) {
  return host_optimizer_seconds(job.optimizer, job.step->precision, elements, job.machine.host);
}
constexpr double compute = 30.1e-3;  // with the host's start

// With one worker nothing waits, and every part is its formula.
StrategyResult alone(const ParameterServerOptions& options) {
  Job job = toy_job(1);
  job.simulation.steps = 40;
  return ParameterServer(options).simulate(job);
}

// In EASGD the worker updates its own weights in every batch. In every tau-th batch both sets of
// weights meet on the server (four streams of M bytes), and the result moves the worker's weights
// (three streams) while the host issues the first layers.
TEST(ElasticAveraging, AStepIsOwnUpdatesAndAShareOfAnExchange) {
  for (const int every : {1, 2, 5}) {
    ParameterServerOptions options;
    options.consistency = Consistency::elastic;
    options.exchange_every = every;
    const StrategyResult result = alone(options);
    const double own = 30e-3 + 12 * elements / device_rate;
    const double exchange = 2 * copy_of(kModelBytes) + 4 * kModelBytes / host_rate;
    const double move = 3 * kModelBytes / device_rate;
    EXPECT_NEAR(mean_of(result), own + (move + exchange) / every, exact) << every;
    EXPECT_NEAR(result.split.optimizer, 12 * elements / device_rate, exact);
    EXPECT_NEAR(result.split.copies, move / every, exact);
    EXPECT_NEAR(busy_of(result, "PCIe"), kModelBytes / every, 1);
    EXPECT_NEAR(total(result.split) / mean_of(result), 1, exact);
  }
}

TEST(ExchangeEvery, AddsUpGradientsOfSoManyBatches) {
  const Job job = toy_job(1);
  for (const int every : {1, 4}) {
    ParameterServerOptions options;
    options.exchange_every = every;
    const double exchange = 2 * copy_of(kModelBytes) + server_update(job);
    EXPECT_NEAR(mean_of(alone(options)), 30e-3 + (0.1e-3 + exchange) / every, exact) << every;
  }
}

// The push is halved by a cast, one read of four and one write of two bytes; weights return in
// full.
TEST(Compression, HalvesThePushOnly) {
  ParameterServerOptions options;
  options.compression = HalfPush{};
  const double cast = 6 * elements / device_rate;
  const StrategyResult result = alone(options);
  EXPECT_NEAR(
      mean_of(result),
      compute + cast + copy_of(kModelBytes / 2) + server_update(toy_job(1)) + copy_of(kModelBytes),
      exact);
  EXPECT_NEAR(result.split.copies, cast, exact);
}

// A share of the elements travels with an index of four bytes for each element. Their choice reads
// all gradients eight times.
TEST(Compression, TopKSendsAShareWithIndices) {
  for (const double share : {0.01, 0.1}) {
    ParameterServerOptions options;
    options.compression = TopK{share};
    const StrategyResult result = alone(options);
    const double choice = 8 * kModelBytes / device_rate;
    EXPECT_NEAR(mean_of(result),
                compute + choice + copy_of(2 * share * kModelBytes) + server_update(toy_job(1)) +
                    copy_of(kModelBytes),
                exact)
        << share;
    EXPECT_NEAR(result.split.copies, choice, exact);
  }
}

// DC-ASGD keeps the weights that each worker read (fact 85) and reads them for the correction. With
// an adaptive lambda it also reads and writes a mean square of the gradients.
TEST(Compensation, CostsTheServerStreamsAndMemory) {
  ParameterServerOptions options;
  options.consistency = Consistency::async;
  const double plain = mean_of(alone(options));
  options.placement = ServerPlacement::gpu;
  const double without = ParameterServer(options).memory(toy_job(4)).allocated;
  for (const bool adaptive : {false, true}) {
    options.weighting = adaptive ? Weighting::compensated_adaptive : Weighting::compensated;
    options.placement = ServerPlacement::cpu;
    EXPECT_NEAR(mean_of(alone(options)) - plain, (adaptive ? 4 : 2) * kModelBytes / host_rate,
                exact);
    options.placement = ServerPlacement::gpu;
    // A tensor of 20 MB takes ten blocks of 2 MiB.
    EXPECT_EQ(ParameterServer(options).memory(toy_job(4)).allocated - without,
              (adaptive ? 5 : 4) * 10 * 10 * 2 * 1024.0 * 1024);
  }
}

TEST(ModifiedAsync, TakesTheTimeOfItsBoundWhateverItsWeights) {
  ParameterServerOptions modified, bounded;
  modified.consistency = Consistency::modified_async;
  bounded.consistency = Consistency::ssp;
  modified.staleness_bound = bounded.staleness_bound = 1;
  Job job = toy_job(4);
  job.stragglers.slow_ranks.push_back({2, 1.7});
  const double expected = mean_of(ParameterServer(bounded).simulate(job));
  EXPECT_EQ(mean_of(ParameterServer(modified).simulate(job)), expected);
  modified.weighting = Weighting::none;
  EXPECT_EQ(mean_of(ParameterServer(modified).simulate(job)), expected);
  // Without its bound and with rarer exchanges it is faster.
  modified.staleness_bound = 1000;
  EXPECT_LT(mean_of(ParameterServer(modified).simulate(job)), 0.95 * expected);
  modified.staleness_bound = 1;
  modified.exchange_every = 8;
  EXPECT_LT(mean_of(ParameterServer(modified).simulate(job)), expected);
}

// --- schedules for the replay

UpdateSchedule schedule_of(const ParameterServerOptions& options, int gpus = 4) {
  Job job = toy_job(gpus);
  job.stragglers.per_step = Lognormal{0.4};
  job.simulation.schedule_file = test_folder().file("schedule.bin");
  ParameterServer(options).simulate(job);
  return read_schedule(job.simulation.schedule_file);
}

TEST(Schedules, OfEveryConsistencySayWhatWasExchanged) {
  for (const Consistency consistency :
       {Consistency::sync, Consistency::async, Consistency::ssp, Consistency::softsync,
        Consistency::elastic, Consistency::modified_async}) {
    ParameterServerOptions options;
    options.consistency = consistency;
    options.splitting = 2;
    options.exchange_every = 2;
    const UpdateSchedule schedule = schedule_of(options);
    EXPECT_EQ(schedule.workers, 4);
    EXPECT_EQ(schedule.local_steps, 2);
    const bool elastic = consistency == Consistency::elastic;
    EXPECT_EQ(schedule.exchange, elastic ? Exchange::elastic : Exchange::gradients);
    EXPECT_EQ(schedule.elasticity, elastic ? 0.9 / 4 : 0);
    const bool ages = consistency == Consistency::modified_async;
    EXPECT_EQ(schedule.weighting, ages ? Weighting::age : Weighting::none);
    std::map<std::int64_t, int> of_update;
    for (const ScheduledPush& push : schedule.pushes) ++of_update[push.applied];
    const int pushes = consistency == Consistency::sync       ? 4
                       : consistency == Consistency::softsync ? 2
                                                              : 1;
    EXPECT_GE(of_update.size(), 5U);
    for (const auto& [update, count] : of_update) EXPECT_EQ(count, pushes) << update;
  }
}

TEST(Schedules, OfBackupWorkersNameWhatWasDropped) {
  ParameterServerOptions options;
  options.backup_workers = 1;
  std::map<std::int64_t, int> of_update;
  const UpdateSchedule schedule = schedule_of(options);
  for (const ScheduledPush& push : schedule.pushes) ++of_update[push.applied];
  EXPECT_GT(of_update[0], 0);
  of_update.erase(0);
  for (const auto& [update, count] : of_update) EXPECT_EQ(count, 3) << update;
}

TEST(Schedules, SayWhatIsLeftOfAGradient) {
  ParameterServerOptions options;
  EXPECT_EQ(schedule_of(options).pushed_as, PushedAs::whole);
  options.compression = HalfPush{};
  EXPECT_EQ(schedule_of(options).pushed_as, PushedAs::halves);
  options.compression = TopK{0.02};
  EXPECT_EQ(schedule_of(options).pushed_as, PushedAs::largest);
  EXPECT_EQ(schedule_of(options).largest_share, 0.02);
}

// --- refused and noted options

// For eight workers the splittings 5, 6 and 7 make an update of each push, as 8 does; 3 makes an
// update of two pushes, as 4 does.
TEST(Softsync, SaysWhichSplittingAnUnevenOneIs) {
  const auto notes = [](int splitting, int workers) {
    ParameterServerOptions options;
    options.consistency = Consistency::softsync;
    options.splitting = splitting;
    Job job = toy_job(workers);
    job.simulation.steps = 4;
    return ParameterServer(options).simulate(job).notes;
  };
  const std::vector<std::string> none;
  for (const int even : {1, 2, 4, 8}) EXPECT_EQ(notes(even, 8), none) << even;
  EXPECT_EQ(notes(5, 1), none);
  for (const int uneven : {5, 6, 7, 9}) {
    const std::string number = std::to_string(uneven);
    EXPECT_EQ(notes(uneven, 8),
              std::vector{"splitting " + number +
                          " of 8 workers is an update for each push: 8 in a round of all workers, "
                          "as splitting 8"});
  }
  EXPECT_EQ(notes(3, 8), std::vector<std::string>{
                             "splitting 3 of 8 workers is an update for every 2 pushes: 4 in a "
                             "round of all workers, as splitting 4"});
  EXPECT_EQ(notes(3, 7), std::vector<std::string>{
                             "splitting 3 of 7 workers is an update for every 2 pushes: 3.5 in a "
                             "round of all workers"});
}

TEST(BackupWorkers, AreFewerThanTheWorkers) {
  ParameterServerOptions options;
  options.backup_workers = 4;
  EXPECT_THROW(ParameterServer(options).simulate(toy_job(4)), ConfigError);
  EXPECT_GE(mean_of(ParameterServer(options).simulate(toy_job(5))), 30e-3);
}

}  // namespace
}  // namespace lockstep::testing::ps_variant_jobs_test
