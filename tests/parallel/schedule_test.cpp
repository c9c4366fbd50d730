// Are the schedules' orders PyTorch's, do they run to their end, and is an order that cannot run
// found?
#include "parallel/schedule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <string>

#include "schedules.hpp"

namespace lockstep::schedule_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

PipelineSchedule schedule_named(const std::string& name) {
  return *std::find_if(pipeline_schedules.begin(), pipeline_schedules.end(),
                       [&](PipelineSchedule schedule) { return enum_name(schedule) == name; });
}

std::string text_of(PipelineSchedule schedule, const PipelineShape& shape, int rank,
                    const RankProgram& program) {
  constexpr std::array letters{"F", "B", "I", "W", "RF", "RB", "SF", "SB", "DF", "DB"};
  std::string text;
  for (const Action& action : program) {
    text += " " + std::to_string(part_at(schedule, shape, {rank, action.chunk})) +
            letters[static_cast<std::size_t>(action.deed)] + std::to_string(action.micro);
  }
  return text;
}

// golden/pytorch_schedules.txt names the source of its lines.
TEST(Schedules, AreThoseOfPyTorch) {
  std::ifstream file(GOLDEN_FOLDER "/pytorch_schedules.txt");
  int programs = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    SCOPED_TRACE(line.substr(0, 30));
    std::istringstream words(line);
    std::string name, alive, actions;
    PipelineShape shape;
    int rank = 0;
    words >> name >> shape.stages >> shape.micro_batches >> shape.chunks >> rank >> alive;
    std::getline(words, actions);
    const PipelineSchedule schedule = schedule_named(name);
    ASSERT_THAT(misfits_of(schedule, shape), IsEmpty());
    const RankProgram program = programs_of(schedule, shape)[static_cast<std::size_t>(rank)];
    EXPECT_EQ(text_of(schedule, shape, rank, program), actions);
    if (alive != "-") {
      EXPECT_EQ(std::to_string(in_flight(program).until_weight), alive);
    }
    ++programs;
  }
  EXPECT_EQ(programs, 58);
}

// golden/pytorch_messages.txt holds where PyTorch posts receives and waits for sends.
TEST(Schedules, HaveTheMessagesOfPyTorch) {
  std::ifstream file(GOLDEN_FOLDER "/pytorch_messages.txt");
  int programs = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    SCOPED_TRACE(line.substr(0, 30));
    std::istringstream words(line);
    std::string name, actions;
    PipelineShape shape;
    int rank = 0;
    words >> name >> shape.stages >> shape.micro_batches >> shape.chunks >> rank;
    std::getline(words, actions);
    const PipelineSchedule schedule = schedule_named(name);
    const std::vector<RankProgram> whole =
        with_messages(schedule, shape, programs_of(schedule, shape), true);
    EXPECT_EQ(text_of(schedule, shape, rank, whole[static_cast<std::size_t>(rank)]), actions);
    ++programs;
  }
  EXPECT_EQ(programs, 58);
}

// A random shape that the schedule accepts.
PipelineShape shape_for(PipelineSchedule schedule) {
  PipelineShape shape;
  shape.stages = *rc::gen::inRange(1, 9);
  shape.chunks = *rc::gen::inRange(1, 5);
  shape.micro_batches = *rc::gen::inRange(1, 40);
  shape.group = *rc::gen::element(0, shape.stages, shape.stages + 1);
  if (!misfits_of(schedule, shape).empty()) shape.chunks = usual_chunks(schedule);
  RC_PRE(misfits_of(schedule, shape).empty());
  return shape;
}

RC_GTEST_PROP(Schedules, WithoutMisfitsRunToTheirEnd, ()) {
  const PipelineSchedule schedule =
      *rc::gen::elementOf(std::vector(pipeline_schedules.begin(), pipeline_schedules.end()));
  const PipelineShape shape = shape_for(schedule);
  RC_ASSERT(fault_of(schedule, shape, programs_of(schedule, shape)) == "");
}

RC_GTEST_PROP(Schedules, ConserveWorkAndBeatNoIdeal, ()) {
  const PipelineSchedule schedule =
      *rc::gen::elementOf(std::vector(pipeline_schedules.begin(), pipeline_schedules.end()));
  const PipelineShape shape = shape_for(schedule);
  PartTimes stage;
  stage.forward = *rc::gen::inRange(1, 10);
  stage.backward_input = *rc::gen::inRange(1, 10);
  stage.backward_weight = *rc::gen::inRange(1, 10);
  const double transfer = 0.25 * *rc::gen::inRange(0, 8);
  const PipelineTimes times = times_of(schedule, shape, stage, transfer);
  const double work = (stage.forward + stage.backward_input + stage.backward_weight) *
                      static_cast<double>(shape.micro_batches);
  for (const double busy : times.busy) RC_ASSERT(std::abs(busy - work) < 1e-6);
  RC_ASSERT(times.makespan > work - 1e-6);
  // The first micro-batch passes every part forward and backward.
  RC_ASSERT(times.makespan >
            (stage.forward + stage.backward_input) * static_cast<double>(shape.stages) - 1e-6);
  RC_ASSERT(times.makespan > times_of(schedule, shape, stage).makespan - 1e-6);
}

// Every message between ranks is posted, received and completed once; the other actions keep their
// order.
RC_GTEST_PROP(Schedules, LoseNoMessage, ()) {
  const PipelineSchedule schedule =
      *rc::gen::elementOf(std::vector(pipeline_schedules.begin(), pipeline_schedules.end()));
  const PipelineShape shape = shape_for(schedule);
  const std::vector<RankProgram> programs = programs_of(schedule, shape);
  const bool keep_outputs = *rc::gen::arbitrary<bool>();
  std::array<int, 10> counts{};
  const std::vector<RankProgram> whole = with_messages(schedule, shape, programs, keep_outputs);
  for (std::size_t rank = 0; rank < whole.size(); ++rank) {
    RankProgram actions;
    for (const Action& action : whole[rank]) {
      ++counts[static_cast<std::size_t>(action.deed)];
      if (!is_message(action.deed)) actions.push_back(action);
    }
    RC_ASSERT(actions == programs[rank]);
  }
  int far = 0;  // neighbouring parts on different ranks
  for (int part = 1; part < shape.parts(); ++part) {
    far += place_of(schedule, shape, part).rank != place_of(schedule, shape, part - 1).rank;
  }
  for (std::size_t deed = 4; deed < counts.size(); ++deed) {
    RC_ASSERT(counts[deed] == far * shape.micro_batches);
  }
}

RC_GTEST_PROP(Schedules, HaveEachPartAtOnePlace, ()) {
  const PipelineSchedule schedule =
      *rc::gen::elementOf(std::vector(pipeline_schedules.begin(), pipeline_schedules.end()));
  const PipelineShape shape = shape_for(schedule);
  for (int part = 0; part < shape.parts(); ++part) {
    const PartPlace place = place_of(schedule, shape, part);
    RC_ASSERT(place.rank >= 0 && place.rank < shape.stages);
    RC_ASSERT(part_at(schedule, shape, place) == part);
  }
}

RC_GTEST_PROP(Schedules, SettleWithAsManyInFlight, ()) {
  const PipelineSchedule schedule =
      *rc::gen::elementOf(std::vector(pipeline_schedules.begin(), pipeline_schedules.end()));
  const PipelineShape shape = shape_for(schedule);
  const PipelineShape settled = settled_shape(schedule, shape);
  RC_ASSERT(misfits_of(schedule, settled).empty());
  RC_ASSERT(settled.micro_batches <= shape.micro_batches);
  const std::vector<RankProgram> whole = programs_of(schedule, shape);
  const std::vector<RankProgram> programs = programs_of(schedule, settled);
  for (std::size_t rank = 0; rank < whole.size(); ++rank) {
    RC_ASSERT(in_flight(programs[rank]) == in_flight(whole[rank]));
  }
}

// An order is faulty if an action is missing, repeated, or placed before another action that it
// needs.
RC_GTEST_PROP(Schedules, ThatAreSpoiledHaveAFault, ()) {
  const PipelineSchedule schedule =
      *rc::gen::elementOf(std::vector(pipeline_schedules.begin(), pipeline_schedules.end()));
  const PipelineShape shape = shape_for(schedule);
  std::vector<RankProgram> programs = programs_of(schedule, shape);
  RankProgram& program = programs[static_cast<std::size_t>(*rc::gen::inRange(0, shape.stages))];
  const auto place = *rc::gen::inRange<std::size_t>(0, program.size());
  const auto at = program.begin() + static_cast<std::ptrdiff_t>(place);
  switch (*rc::gen::inRange(0, 3)) {
    case 0:
      program.erase(at);
      break;
    case 1:
      program.push_back(*at);
      break;
    default:
      RC_PRE(at->deed != Deed::forward);
      program.insert(program.begin(), *at);
      program.erase(program.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
  RC_ASSERT(fault_of(schedule, shape, programs) != "");
}

TEST(Schedules, OfRanksThatWaitForEachOtherAreFound) {
  const PipelineShape shape{2, 1, 2};
  const auto schedule = PipelineSchedule::one_f_one_b;
  // The first rank needs a gradient that the last rank computes only after the second micro-batch's
  // forward.
  const std::vector<RankProgram> programs{{{Deed::forward, 0, 0},
                                           {Deed::backward, 0, 0},
                                           {Deed::forward, 0, 1},
                                           {Deed::backward, 0, 1}},
                                          {{Deed::forward, 0, 0},
                                           {Deed::forward, 0, 1},
                                           {Deed::backward, 0, 0},
                                           {Deed::backward, 0, 1}}};
  EXPECT_EQ(fault_of(schedule, shape, programs),
            "rank 0: backward of micro-batch 0 in chunk 0 waits for ever");
}

TEST(Schedules, OfTooFewRanksHaveAFault) {
  const PipelineShape shape{2, 1, 1};
  EXPECT_EQ(fault_of(PipelineSchedule::gpipe, shape, std::vector<RankProgram>{without_pipeline(1)}),
            "1 programs of 2 ranks");
  EXPECT_EQ(
      fault_of(PipelineSchedule::gpipe, {1, 1, 3}, std::vector<RankProgram>{without_pipeline(3)}),
      "");
}

struct Misfitting {
  PipelineSchedule schedule;
  PipelineShape shape;
  std::string field, hint;
};
// PyTorch raises ValueError for each of these shapes, or has no such form of the schedule.
TEST(Misfits, SayWhatWouldFit) {
  using enum PipelineSchedule;
  for (const Misfitting& misfitting : std::vector<Misfitting>{
           {gpipe, {4, 2, 8}, "pipeline.chunks", "gpipe has 1"},
           {one_f_one_b, {4, 2, 8}, "pipeline.chunks", "interleaved"},
           {zb_h2, {4, 2, 8}, "pipeline.chunks", "zb1p"},
           {zbv, {4, 1, 8}, "pipeline.chunks", "zbv has 2"},
           {dualpipe_v, {4, 3, 8}, "pipeline.chunks", "dualpipe-v has 2"},
           {dualpipe_v, {4, 2, 7}, "batch", "8 micro-batches or more can"},
           {interleaved, {4, 2, 9}, "batch", "8 or 12 micro-batches can"},
           {zb1p, {4, 2, 9}, "batch", "8 or 12 micro-batches can"},
           {interleaved, {4, 2, 10, 4}, "batch", "8 or 12 micro-batches do not"},
           {interleaved, {4, 2, 8, 3}, "batch", "4 micro-batches or more"},
           {interleaved, {4, 2, 8, 9}, "batch", "up to all"}}) {
    SCOPED_TRACE(enum_name(misfitting.schedule));
    const std::vector<ScheduleMisfit> misfits = misfits_of(misfitting.schedule, misfitting.shape);
    ASSERT_EQ(misfits.size(), 1U);
    EXPECT_EQ(misfits[0].field, misfitting.field);
    EXPECT_THAT(misfits[0].hint, HasSubstr(misfitting.hint));
    EXPECT_NE(misfits[0].message, "");
  }
}

// Examples from ScheduleInterleaved1F1B: rounds must be equal, but need not have as many
// micro-batches as there are stages.
TEST(Misfits, AreNoneWhereRoundsAreEqual) {
  EXPECT_THAT(misfits_of(PipelineSchedule::interleaved, {4, 2, 10}), IsEmpty());
  EXPECT_THAT(misfits_of(PipelineSchedule::interleaved, {4, 2, 3}), IsEmpty());
  // With one chunk there are no rounds.
  EXPECT_THAT(misfits_of(PipelineSchedule::zb1p, {4, 1, 9}), IsEmpty());
}

}  // namespace
}  // namespace lockstep::schedule_test
