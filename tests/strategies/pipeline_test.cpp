// Do simulated pipelines follow closed forms, and take the times of their schedules played alone?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline_job.hpp"

namespace lockstep::testing {
namespace {

constexpr double forward_seconds = 1e5, backward_seconds = 2e5;

struct Case {
  PipelineSchedule schedule;
  PipelineShape shape;
};

std::vector<Case> cases() {
  return {
      {PipelineSchedule::gpipe, {4, 1, 8, 0}},       {PipelineSchedule::one_f_one_b, {4, 1, 8, 0}},
      {PipelineSchedule::interleaved, {4, 2, 8, 0}}, {PipelineSchedule::looped_bfs, {4, 2, 8, 0}},
      {PipelineSchedule::zb1p, {4, 1, 8, 0}},        {PipelineSchedule::zb1p, {4, 2, 8, 0}},
      {PipelineSchedule::zb_h2, {4, 1, 12, 0}},      {PipelineSchedule::zbv, {4, 2, 8, 0}},
      {PipelineSchedule::dualpipe_v, {4, 2, 8, 0}}};
}

// Narayanan et al. 2021, section 2.2: m micro-batches on p stages take (m + p - 1) times the
// forward and backward of one.
TEST(Pipeline, GpipeAndOneForwardOneBackwardTakeTheBubbleOfTheirStages) {
  for (const auto schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b}) {
    for (const auto& [stages, micro] : {std::pair{2, 2}, {4, 8}, {4, 32}, {8, 16}}) {
      const Numbers result = simulate(pipeline_job(schedule, {stages, 1, micro, 0}), DdpOptions{});
      const double expected = (micro + stages - 1) * (forward_seconds + backward_seconds);
      EXPECT_NEAR(result.step, expected, 1e-8 * expected) << enum_name(schedule) << stages;
      EXPECT_NEAR(result.split.bubble, (stages - 1) * (forward_seconds + backward_seconds),
                  1e-8 * expected);
    }
  }
}

// Gradient clipping needs the norm of all gradients, a barrier at the end of the step. Without it a
// stage may begin the next step early, and the step would differ from the schedule's.
TEST(Pipeline, EveryScheduleTakesWhatItsOrderTakesAlone) {
  for (const Case& c : cases()) {
    const auto programs = programs_of(c.schedule, c.shape);
    const std::vector<PartTimes> parts(
        static_cast<std::size_t>(c.shape.parts()),
        {forward_seconds, backward_seconds / 2, backward_seconds / 2});
    const double alone = pipeline_times(c.schedule, c.shape, programs, parts, 0).makespan;
    Job job = pipeline_job(c.schedule, c.shape);
    job.gradient_clipping = 1;
    const Numbers result = simulate(job, DdpOptions{});
    EXPECT_NEAR(result.step, alone, 1e-8 * alone)
        << enum_name(c.schedule) << " with " << c.shape.chunks << " chunks";
  }
}

// Hosts that take longer than devices; the hosts of the first and the last stage take longest.
class SlowHosts final : public StageCosts {
 public:
  explicit SlowHosts(double slower) : slower_(slower) {}
  LayerCost layer(const TrainingStep& step, std::size_t index) const override {
    LayerCost cost = StageCosts::layer(step, index);
    const std::string& name = step.layers[index].name;
    const double host = slower_ * (name == "layer0" ? slowest : name == "layer3" ? last : 1);
    for (QueuedWork* work : {&cost.forward, &cost.backward}) {
      work->host = work->span = host * work->busy;
    }
    return cost;
  }
  static constexpr double slowest = 1.0125, last = 1.005;

 private:
  double slower_;
};

// The first stage's host sets the pace in the end. Its gradients come last, so its host is far
// ahead at first, and the last stage's host sets the pace. Then stages between the two keep this
// pace for a while.
TEST(Pipeline, IsNotSteadyBeforeHostsAndStagesHaveLostTheirLead) {
  constexpr int micro = 8;
  for (const double slower : {1.4, 4.0}) {
    Job job = pipeline_job(PipelineSchedule::one_f_one_b, {4, 1, micro, 0}, 1, 1,
                           std::make_shared<SlowHosts>(slower));
    job.simulation.steps = 100;
    const Numbers result = simulate(job, DdpOptions{});
    const double pace = SlowHosts::slowest * slower * (forward_seconds + backward_seconds);
    EXPECT_EQ(result.extrapolated, 1);
    EXPECT_NEAR(result.step, micro * pace, 1e-8 * result.step) << slower;
  }
}

const auto endless = {PipelineSchedule::pipedream, PipelineSchedule::pipedream_2bw};

// PipeDream (Narayanan et al. 2019, section 3.2): once the pipeline is full, no stage waits.
TEST(PipeDream, KeepsEveryStageBusy) {
  for (const auto schedule : endless) {
    for (const auto& [stages, micro] : {std::pair{2, 2}, {4, 4}, {4, 9}, {8, 16}}) {
      const Numbers result = simulate(pipeline_job(schedule, {stages, 1, micro, 0}), DdpOptions{});
      const double expected = micro * (forward_seconds + backward_seconds);
      EXPECT_NEAR(result.step, expected, 1e-8 * expected) << stages << " stages, " << micro;
      EXPECT_NEAR(result.split.bubble, 0, 1e-8 * expected);
      EXPECT_EQ(result.extrapolated, 1);
    }
  }
  // Each micro-batch is an update here, and more micro-batches are in flight than a step has.
  const auto one = pipeline_job(PipelineSchedule::pipedream, {6, 1, 1, 0});
  EXPECT_NEAR(simulate(one, DdpOptions{}).step, forward_seconds + backward_seconds, 1e-3);
}

class OneSlowStage final : public StageCosts {
 public:
  LayerCost layer(const TrainingStep& step, std::size_t index) const override {
    LayerCost cost = StageCosts::layer(step, index);
    if (step.layers[index].name != "layer1") return cost;
    for (QueuedWork* work : {&cost.forward, &cost.backward}) work->busy = work->span *= 1.5;
    return cost;
  }
};

TEST(PipeDream, GoesAtThePaceOfItsSlowestStage) {
  Job job = pipeline_job(PipelineSchedule::pipedream, {4, 1, 3, 0}, 1, 1,
                         std::make_shared<OneSlowStage>());
  job.simulation.steps = 60;
  const double expected = 3 * 1.5 * (forward_seconds + backward_seconds);
  EXPECT_NEAR(simulate(job, DdpOptions{}).step, expected, 1e-8 * expected);
}

// Fact H61: as many micro-batches are in flight as stages follow, so none is left to hide a
// message. Each message costs twice its time on all stages but one.
TEST(PipeDream, WaitsForMessagesInEachRound) {
  const auto step = [](PipelineSchedule schedule, double message) {
    Job job = pipeline_job(schedule, {4, 1, 8, 0});
    job.communication_scale = 1;
    const double alone = collective_cost(job.machine, neighbour_group(job), Collective::send_recv,
                                         job.step->layers.front().output_bytes)
                             .seconds();
    job.communication_scale = message / alone;
    return simulate(job, DdpOptions{}).step;
  };
  for (const double message : {0.1 * forward_seconds, 0.5 * forward_seconds}) {
    const double expected = 8 * (forward_seconds + backward_seconds + 2 * message * 3 / 4);
    const double found = step(PipelineSchedule::pipedream, message);
    EXPECT_NEAR(found, expected, 1e-3 * expected);
    EXPECT_LT(found, step(PipelineSchedule::one_f_one_b, message));
  }
}

TEST(PipeDream, SendsWhatADrainedStepSends) {
  for (const int data : {1, 2}) {
    Job job = pipeline_job(PipelineSchedule::one_f_one_b, {4, 1, 8, 0}, data);
    job.communication_scale = 1;
    const double drained = simulate(job, DdpOptions{}).traffic;
    job.parallel.pipeline.schedule = PipelineSchedule::pipedream;
    EXPECT_NEAR(simulate(job, DdpOptions{}).traffic / drained, 1, 1e-9) << data;
  }
}

TEST(PipeDream, BothExecutorsAgree) {
  Job job = pipeline_job(PipelineSchedule::pipedream, {4, 1, 3, 0}, 2);
  job.communication_scale = 1e6;
  job.simulation.engine = Engine::loop;
  const Numbers loop = simulate(job, DdpOptions{});
  EXPECT_NEAR(sum(loop.split), loop.step, 1e-9 * loop.step);
  job.simulation.engine = Engine::simgrid;
  EXPECT_LT(difference(loop, simulate(job, DdpOptions{})), 1e-9);
}

// Fact H75: PipeDream keeps a version of a stage's weights for each micro-batch in flight,
// PipeDream-2BW two versions.
TEST(PipeDream, KeepsTheWeightsOfWhatIsInFlight) {
  const auto memory = [](PipelineSchedule schedule, int micro) {
    std::vector<double> bytes;
    const Job job = pipeline_job(schedule, {4, 1, micro, 0});
    for (const MemoryUse& stage : make_strategy(DdpOptions{})->stage_memory(job)) {
      bytes.push_back(stage.allocated);
    }
    return bytes;
  };
  constexpr double weights = 4000, block = 512;
  const auto few =
      memory(PipelineSchedule::pipedream, 6);  // one further version, except on the last stage
  const auto many = memory(PipelineSchedule::pipedream, 1);
  const auto two = memory(PipelineSchedule::pipedream_2bw, 6);
  for (const std::size_t stage : {0U, 1U, 2U, 3U}) {
    const double ahead = 3.0 - static_cast<double>(stage);
    const double one = ahead > 0 ? 1 : 0;
    EXPECT_NEAR(many[stage] - few[stage], (ahead - one) * weights, 2 * block) << stage;
    EXPECT_NEAR(two[stage] - few[stage], (1 - one) * weights, 2 * block) << stage;
  }
}

// Narayanan et al. 2019, section 3.3: a stage's gradient is of weights that are as many updates old
// as stages follow the stage.
TEST(PipeDream, IsAsStaleAsItsStagesAreFarFromTheEnd) {
  const Job job = pipeline_job(PipelineSchedule::pipedream, {4, 1, 1, 0}, 2);
  UpdateSchedule schedule = synchronous_schedule(2, 10, 1, 1);
  make_strategy(DdpOptions{})->describe_updates(job, schedule);
  ASSERT_EQ(schedule.message_count(), 4);
  ASSERT_EQ(schedule.pushes.size(), 80U);
  for (const ScheduledPush& push : schedule.pushes) {
    EXPECT_EQ(push.read, std::max<std::int64_t>(0, push.applied - 1 - (3 - push.message)));
  }
  std::vector<int> parameters;
  for (const auto& message : schedule.messages) {
    for (const ParameterPiece& piece : message) parameters.push_back(piece.parameter);
  }
  EXPECT_THAT(parameters, ::testing::ElementsAre(0, 1, 2, 3));
}

TEST(Pipeline, PartsOfTheStepAddUpToIt) {
  for (const Case& c : cases()) {
    Job job = pipeline_job(c.schedule, c.shape, 2);
    job.communication_scale = 1e6;
    const Numbers result = simulate(job, DdpOptions{});
    EXPECT_NEAR(sum(result.split), result.step, 1e-9 * result.step) << enum_name(c.schedule);
  }
}

TEST(Pipeline, BothExecutorsAgree) {
  for (const Case& c : cases()) {
    for (const StrategyOptions& options :
         {StrategyOptions{DdpOptions{}}, StrategyOptions{FsdpOptions{}},
          StrategyOptions{ZeroOptions{}}}) {
      Job job = pipeline_job(c.schedule, c.shape, 2);
      job.communication_scale = 1e6;
      job.simulation.engine = Engine::loop;
      const Numbers loop = simulate(job, options);
      job.simulation.engine = Engine::simgrid;
      EXPECT_LT(difference(loop, simulate(job, options)), 1e-9) << enum_name(c.schedule);
    }
  }
}

}  // namespace
}  // namespace lockstep::testing
