// Do schedules take the time, and keep as many micro-batches in flight, as papers and closed forms
// say?
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "parallel/schedule.hpp"
#include "schedules.hpp"

namespace lockstep::schedule_times_test {
namespace {

using enum PipelineSchedule;

struct Makespan {
  PipelineSchedule schedule;
  int chunks;
  double seconds;
};
void expect_makespans(int stages, int micro_batches, const std::vector<Makespan>& expected,
                      PartTimes stage = {}) {
  for (const Makespan& makespan : expected) {
    SCOPED_TRACE(enum_name(makespan.schedule) + " " + std::to_string(makespan.chunks));
    const PipelineShape shape{stages, makespan.chunks, micro_batches};
    EXPECT_NEAR(times_of(makespan.schedule, shape, stage).makespan, makespan.seconds, 1e-9);
  }
}

// Forward, input gradient and weight gradient each take one unit of time on each rank. An
// independent event simulator gave these figures.
TEST(Makespans, OfUnitWork) {
  expect_makespans(4, 8,
                   {{gpipe, 1, 33},
                    {one_f_one_b, 1, 33},
                    {interleaved, 2, 28.5},
                    {looped_bfs, 2, 28.5},
                    {interleaved, 4, 26.25},
                    {zb1p, 1, 27},
                    {zb1p, 2, 25.5},
                    {zbv, 2, 25.5},
                    {dualpipe_v, 2, 27}});
  expect_makespans(4, 12,
                   {{gpipe, 1, 45},
                    {one_f_one_b, 1, 45},
                    {interleaved, 2, 40.5},
                    {looped_bfs, 2, 40.5},
                    {interleaved, 4, 38.25},
                    {zb1p, 1, 39},
                    {zb1p, 2, 37.5},
                    {zbv, 2, 37.5},
                    {dualpipe_v, 2, 39}});
  expect_makespans(8, 16,
                   {{gpipe, 1, 69},
                    {one_f_one_b, 1, 69},
                    {interleaved, 2, 58.5},
                    {looped_bfs, 2, 58.5},
                    {interleaved, 4, 53.25},
                    {zb1p, 1, 55},
                    {zb1p, 2, 51.5},
                    {zbv, 2, 51.5},
                    {dualpipe_v, 2, 55}});
  expect_makespans(8, 32,
                   {{gpipe, 1, 117},
                    {one_f_one_b, 1, 117},
                    {interleaved, 2, 106.5},
                    {looped_bfs, 2, 106.5},
                    {interleaved, 4, 101.25},
                    {zb1p, 1, 103},
                    {zb1p, 2, 99.5},
                    {zbv, 2, 99.5},
                    {dualpipe_v, 2, 103}});
  expect_makespans(4, 8, {{zb1p, 1, 28.8}, {zb1p, 2, 26.4}, {zbv, 2, 25.95}, {dualpipe_v, 2, 27.9}},
                   {1, 1.3, 0.7});
}

// Figures of the same simulator with messages that take 0.05, 0.1 and 0.2 units (fact H61).
TEST(Makespans, WithTransfers) {
  struct Row {
    PipelineSchedule schedule;
    int chunks;
    std::array<double, 3> seconds;
  };
  for (const Row& row : std::vector<Row>{{gpipe, 1, {105.3, 105.6, 106.2}},
                                         {one_f_one_b, 1, {107.6, 110.2, 115.4}},
                                         {interleaved, 2, {101.2, 101.9, 103.3}},
                                         {zb1p, 1, {99.6, 100.2, 101.4}},
                                         {zb1p, 2, {98.3, 99.1, 100.7}},
                                         {zbv, 2, {98.15, 98.8, 100.1}},
                                         {dualpipe_v, 2, {101.6, 104.3, 110.1}}}) {
    SCOPED_TRACE(enum_name(row.schedule) + " " + std::to_string(row.chunks));
    const PipelineShape shape{4, row.chunks, 32};
    for (const auto& [transfer, seconds] :
         {std::pair{.05, row.seconds[0]}, {.1, row.seconds[1]}, {.2, row.seconds[2]}}) {
      EXPECT_NEAR(times_of(row.schedule, shape, {}, transfer).makespan, seconds, 1e-9);
    }
  }
}

// Fact H61: with messages of x seconds a micro-batch of 1F1B costs F + B + 2 x (p - 1) / p.
TEST(Makespans, ATransferShowsInEveryMicroBatchOf1F1B) {
  for (const int stages : {2, 4, 8}) {
    const double transfer = 0.125;
    const auto seconds = [&](int micro_batches) {
      return times_of(one_f_one_b, {stages, 1, micro_batches}, {}, transfer).makespan;
    };
    const int more = 4 * stages;
    EXPECT_NEAR((seconds(8 * stages + more) - seconds(8 * stages)) / more,
                3 + 2 * transfer * (stages - 1) / stages, 1e-9);
  }
}

// Fact H63: the slowest stage sets the period; its place matters only while the pipeline fills and
// drains.
TEST(Makespans, OfASlowLastStage) {
  const PipelineShape shape{4, 1, 16};
  std::vector<PartTimes> parts(4);
  parts[3] = {1.25, 1.25, 1.25};
  const std::vector<RankProgram> programs = programs_of(one_f_one_b, shape);
  EXPECT_NEAR(pipeline_times(one_f_one_b, shape, programs, parts, 0).makespan, 3 * 3 + 16 * 3.75,
              1e-9);
  EXPECT_NEAR(times_of(one_f_one_b, shape).makespan, 57, 1e-9);
}

struct Drawn {
  int stages = 1, micro_batches = 1;
  PartTimes times;
  double forward() const { return times.forward; }
  double backward() const { return times.backward_input + times.backward_weight; }
};
Drawn drawn(int rounds) {
  Drawn result;
  result.stages = *rc::gen::inRange(1, 9);
  result.micro_batches = result.stages * *rc::gen::inRange(rounds, 6);
  result.times.backward_weight = *rc::gen::inRange(1, 10);
  result.times.forward = result.times.backward_weight + *rc::gen::inRange(0, 5);
  result.times.backward_input = result.times.backward_weight + *rc::gen::inRange(0, 5);
  return result;
}

// A bubble is the share of idle time relative to the ideal m (F + B).
RC_GTEST_PROP(Bubbles, OfGPipeAnd1F1B, ()) {
  const Drawn d = drawn(1);
  const double bubble = (d.stages - 1) * (d.forward() + d.backward());
  const double ideal = d.micro_batches * (d.forward() + d.backward());
  for (const PipelineSchedule schedule : {gpipe, one_f_one_b}) {
    const PipelineTimes times = times_of(schedule, {d.stages, 1, d.micro_batches}, d.times);
    RC_ASSERT(std::abs(times.makespan - ideal - bubble) < 1e-9);
    RC_ASSERT(std::abs(times.bubble() - (d.stages - 1.0) / (d.micro_batches + d.stages - 1.0)) <
              1e-9);
  }
}

RC_GTEST_PROP(Bubbles, OfInterleavedAndLooped, ()) {
  const Drawn d = drawn(1);
  const int chunks = *rc::gen::inRange(1, 5);
  const double whole = d.forward() + d.backward();
  for (const PipelineSchedule schedule : {interleaved, looped_bfs}) {
    const PipelineTimes times = times_of(schedule, {d.stages, chunks, d.micro_batches}, d.times);
    RC_ASSERT(std::abs(times.makespan - d.micro_batches * whole - (d.stages - 1) * whole / chunks) <
              1e-9);
  }
}

RC_GTEST_PROP(Bubbles, OfZeroBubbleH1, ()) {
  const Drawn d = drawn(2);
  const PipelineTimes times = times_of(zb1p, {d.stages, 1, d.micro_batches}, d.times);
  const double bubble =
      (d.stages - 1) * (d.forward() + d.times.backward_input - d.times.backward_weight);
  RC_ASSERT(std::abs(times.makespan - d.micro_batches * (d.forward() + d.backward()) - bubble) <
            1e-9);
}

// If the three passes take equal times, no rank of ZB-H2 and ZB-V waits between its first and its
// last action.
TEST(Bubbles, AreNoneInsideARankOfZeroBubble) {
  for (const int stages : {2, 4, 8}) {
    for (const auto& [schedule, chunks] : {std::pair{zb_h2, 1}, {zbv, 2}}) {
      const PipelineTimes times = times_of(schedule, {stages, chunks, 3 * stages});
      for (std::size_t rank = 0; rank < times.end.size(); ++rank) {
        EXPECT_NEAR(times.end[rank] - times.begin[rank], 9 * stages, 1e-9)
            << enum_name(schedule) << " rank " << rank;
      }
    }
  }
}

// With m <= p, 1F1B takes (m + p - 1)(F + B), and ZB-H1 (m + p - 1)(F + I) + W, with I the input
// gradient and W the weight gradient.
TEST(Bubbles, OfFewMicroBatches) {
  for (int micro_batches = 1; micro_batches <= 8; ++micro_batches) {
    const PipelineShape shape{8, 1, micro_batches};
    EXPECT_NEAR(times_of(one_f_one_b, shape).makespan, (micro_batches + 7) * 3, 1e-9);
    EXPECT_NEAR(times_of(zb1p, shape).makespan, (micro_batches + 7) * 2 + 1, 1e-9);
  }
}

struct Published {
  int stages, micro_batches;
  PartTimes stage;
  double transfer, one_f_one_b, interleaved;
  int chunks;
  double zb_h1;
};
// Bubble rates that the zero-bubble paper computes from profiled milliseconds (arXiv 2401.10241,
// table 5; fact H65). Its interleaved schedule has one layer in each chunk.
TEST(Bubbles, OfTheZeroBubblePaper) {
  for (const Published& row :
       std::vector<Published>{{8, 24, {18.522, 18.086, 9.337}, .601, .2431, .1055, 3, .1585},
                              {8, 64, {18.546, 18.097, 9.321}, .762, .1240, .0443, 3, .0674},
                              {8, 24, {29.718, 29.444, 19.927}, .527, .2347, .0808, 4, .1323},
                              {16, 48, {11.347, 11.248, 8.132}, .377, .2552, .1104, 3, .1397},
                              {32, 96, {10.419, 10.207, 7.715}, .408, .2646, .1493, 2, .1421},
                              {32, 256, {10.402, 10.248, 7.698}, .460, .1352, .0624, 2, .0594}}) {
    SCOPED_TRACE(row.micro_batches);
    const auto bubble = [&](PipelineSchedule schedule, int chunks) {
      return times_of(schedule, {row.stages, chunks, row.micro_batches}, row.stage, row.transfer)
          .bubble();
    };
    EXPECT_NEAR(bubble(one_f_one_b, 1), row.one_f_one_b, .0001);
    EXPECT_NEAR(bubble(zb1p, 1), row.zb_h1, .0001);
    EXPECT_NEAR(bubble(interleaved, row.chunks), row.interleaved, .0035);
  }
  const PartTimes first{18.522, 18.086, 9.337};
  EXPECT_NEAR(times_of(zb_h2, {8, 1, 24}, first, .601).bubble(), .1083, .01);
}

struct Peaks {
  PipelineSchedule schedule;
  int chunks;
  std::vector<InFlight> ranks;
};
// Chunks in flight on each of four stages, until the input gradient and until the weight gradient.
TEST(InFlightPeaks, AreThoseOfTheFactsPage) {
  const auto same = [](std::vector<int> ranks) {
    std::vector<InFlight> result;
    for (const int rank : ranks) result.push_back({rank, rank});
    return result;
  };
  for (const Peaks& row : std::vector<Peaks>{{gpipe, 1, same({32, 32, 32, 32})},
                                             {one_f_one_b, 1, same({4, 3, 2, 1})},
                                             {interleaved, 2, same({11, 9, 7, 5})},
                                             {interleaved, 4, same({19, 17, 15, 13})},
                                             {looped_bfs, 2, same({64, 64, 64, 64})},
                                             {zb1p, 1, {{4, 4}, {3, 4}, {2, 4}, {1, 4}}},
                                             {zb1p, 2, {{8, 8}, {7, 8}, {6, 8}, {5, 8}}},
                                             {zb_h2, 1, {{7, 7}, {5, 7}, {3, 7}, {1, 7}}},
                                             {zbv, 2, same({8, 8, 8, 8})},
                                             {dualpipe_v, 2, same({9, 9, 9, 9})}}) {
    SCOPED_TRACE(enum_name(row.schedule) + " " + std::to_string(row.chunks));
    std::vector<InFlight> ranks;
    for (const RankProgram& program : programs_of(row.schedule, {4, row.chunks, 32})) {
      ranks.push_back(in_flight(program));
    }
    EXPECT_EQ(ranks, row.ranks);
  }
}

}  // namespace
}  // namespace lockstep::schedule_times_test
