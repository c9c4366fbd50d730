// Does a timeline that was thinned out for a page still show the step?
#include "results/step_timeline.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace lockstep::step_timeline_test {
namespace {

using testing::ElementsAre;
using Json = nlohmann::ordered_json;

// 60 short forward operations, a long one, a pause, 30 short backward operations, and a transfer.
StepTimeline step() {
  StepTimeline timeline{"ddp", 4, 0, 2, 1, {}};
  TimelineLane& compute = timeline.lanes.emplace_back(TimelineLane{"compute", {}});
  double time = 0;
  const auto add = [&](SliceKind kind, const std::string& name, double seconds) {
    compute.slices.push_back({kind, name, time, time + seconds});
    time += seconds;
  };
  for (int i = 0; i < 60; ++i) add(SliceKind::forward, "f" + std::to_string(i), 0.001);
  add(SliceKind::forward, "long", 0.4);
  add(SliceKind::exposed_communication, "", 0.1);
  time += 0.2;
  for (int i = 0; i < 30; ++i) add(SliceKind::backward, "b", 0.002);
  timeline.lanes.push_back({"gradients", {{SliceKind::transfer, "all_reduce", 0.2, 0.9}}});
  return timeline;
}

TEST(StepTimeline, WhatFitsIsLeftAsItIs) {
  StepTimeline timeline = step();
  thin_out(timeline, 1000);
  EXPECT_EQ(timeline.lanes[0].slices.size(), 92u);
  EXPECT_EQ(timeline.merged_seconds, 0);
  EXPECT_EQ(timeline.lanes[0].operations, 91);  // a wait does not count
  EXPECT_NEAR(timeline.lanes[0].busy_seconds, 0.52, 1e-12);
  EXPECT_EQ(timeline.lanes[0].longest.front().name, "long");
  EXPECT_EQ(timeline.lanes[0].longest.size(), 3u);
}

TEST(StepTimeline, NeighboursOfOneKindAreDrawnAsOne) {
  StepTimeline timeline = step();
  thin_out(timeline, 20);
  std::vector<std::string> names;
  std::vector<int> merged;
  double busy = 0;
  const TimelineLane& compute = timeline.lanes[0];
  for (const TimelineSlice& slice : compute.slices) {
    names.push_back(slice.name);
    merged.push_back(slice.merged);
    busy += is_wait(slice.kind) ? 0 : slice.end - slice.start;
  }
  // A bar of 1/128 s holds eight forward operations or four backward ones; bars of 1/256 s would be
  // more than twenty.
  EXPECT_EQ(timeline.merged_seconds, 1.0 / 128);
  EXPECT_THAT(merged, ElementsAre(8, 8, 8, 8, 8, 8, 8, 4, 1, 1, 4, 4, 4, 4, 4, 4, 4, 2));
  EXPECT_EQ(names[0], "f0");
  EXPECT_EQ(compute.slices[0].last_name, "f7");
  EXPECT_EQ(names[8], "long");
  EXPECT_NEAR(busy, compute.busy_seconds, 1e-12);
  EXPECT_EQ(compute.operations, 91);  // the count of real operations stays
  EXPECT_EQ(timeline.lanes[1].slices.size(), 1u);
}

// Kernels with waits between them stay bars of kernels, even if very few bars are allowed.
TEST(StepTimeline, WhatAlternatesIsDrawnAsWhatTakesLonger) {
  StepTimeline timeline{"fsdp", 4, 0, 2, 1, {{"compute", {}}}};
  for (int i = 0; i < 1000; ++i) {
    const double start = 0.001 * i;
    auto& slices = timeline.lanes[0].slices;
    slices.push_back({SliceKind::backward, "b" + std::to_string(i), start, start + 0.0007});
    slices.push_back({SliceKind::exposed_communication, "", start + 0.0007, start + 0.001});
  }
  thin_out(timeline, 300);
  const TimelineLane& lane = timeline.lanes[0];
  EXPECT_LE(lane.slices.size(), 300u);
  EXPECT_GT(lane.slices.size(), 100u);
  int stands_for = 0;
  double before = 0;
  for (const TimelineSlice& slice : lane.slices) {
    EXPECT_EQ(slice.kind, SliceKind::backward);
    EXPECT_GE(slice.start, before - 1e-12);
    before = slice.end;
    stands_for += slice.merged;
  }
  EXPECT_EQ(stands_for, 2000);
  EXPECT_EQ(lane.operations, 1000);
  EXPECT_NEAR(lane.busy_seconds, 0.7, 1e-9);  // the waits do not count
}

TEST(StepTimeline, ThePageHasEveryTime) {
  StepTimeline timeline = step();
  thin_out(timeline, 20);
  const Json page = json_of(timeline);
  EXPECT_EQ(page["seconds"], 1);
  for (std::size_t i = 0; i < timeline.lanes.size(); ++i) {
    const Json& numbers = page["lanes"][i]["slices"];
    const std::vector<TimelineSlice>& slices = timeline.lanes[i].slices;
    ASSERT_EQ(numbers.size(), 5 * slices.size());
    double time = 0;
    for (std::size_t k = 0; k < slices.size(); ++k) {
      const auto number = [&](std::size_t field) { return numbers[5 * k + field].get<double>(); };
      EXPECT_EQ(number(0), static_cast<double>(slices[k].kind));
      const std::string name = page["names"][numbers[5 * k + 1].get<std::size_t>()];
      EXPECT_TRUE(name.starts_with(slices[k].name));
      EXPECT_EQ(name.ends_with(slices[k].last_name), true) << name;
      EXPECT_NEAR(time + 1e-9 * number(2), slices[k].start, 1e-9);
      time += 1e-9 * (number(2) + number(3));
      EXPECT_NEAR(time, slices[k].end, 1e-9);
      EXPECT_EQ(number(4), slices[k].merged);
    }
  }
}

TEST(StepTimeline, ThePageHasWhatALaneDoes) {
  StepTimeline timeline = step();
  thin_out(timeline, 20);
  const Json lane = json_of(timeline)["lanes"][1];
  EXPECT_DOUBLE_EQ(lane["busy_seconds"], 0.7);
  EXPECT_EQ(lane["operations"], 1);
  EXPECT_EQ(lane["longest"][0]["name"], "all_reduce");
  EXPECT_EQ(lane["longest"][0]["kind"], static_cast<int>(SliceKind::transfer));
  EXPECT_DOUBLE_EQ(lane["longest"][0]["seconds"], 0.7);
}

}  // namespace
}  // namespace lockstep::step_timeline_test
