// Pipelines in the simulated world against closed forms and against their schedules played alone.
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

// Narayanan et al. 2021, section 2.2: m micro-batches on p stages take (m + p - 1) times one.
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

// The norm of all gradients is a barrier at the end of the step; without it stages may begin the next step.
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

// Hosts that need longer than devices: those of the two ends of the pipeline longest.
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

// The first stage's gradients come last, when its host is far ahead already. As long as that lead lasts, the
// last stage's host sets the pace; after that, stages between them keep it on for a while.
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
