// Does the page of `lockstep report` show the step and the memory peak of the record?

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>

#include "questions/run.hpp"
#include "results/step_timeline.hpp"
#include "scenario/helpers.hpp"
#include "test_folder.hpp"

namespace lockstep::chapter_test {
namespace {

ReportChapter chapter_of(const std::string& text) {
  // The page shows the scenario's file, so it must exist.
  const Scenario scenario = read_scenario(test_folder().write("chapter.yaml", scenario_text(text)));
  return report_chapter(scenario, run_scenario(scenario, {1, {}}), {1, {}});
}

const Prediction& predicted(const ReportChapter& chapter, const std::string& strategy, int gpus) {
  const auto& all = chapter.record.predictions;
  return *std::find_if(all.begin(), all.end(), [&](const Prediction& p) {
    return p.strategy == strategy && p.gpus == gpus;
  });
}

// Every strategy that keeps tensors of its own in memory, on GPUs and on CPUs.
const char* const memory_cases[] = {
    R"(
strategies:
  - ddp
  - {label: views, ddp: {gradient_as_bucket_view: true}}
  - {label: compressed, ddp: {comm_hook: powersgd}}
  - fsdp
  - {label: the first fsdp, fsdp: {version: 1}}
  - {label: offloaded, fsdp: {cpu_offload: true}}
  - zero: {stage: 1}
  - {label: zero 2, zero: {stage: 2}}
  - local_sgd: {every: 4}
  - parameter_server: {consistency: async}
  - {label: servers on GPUs, parameter_server: {placement: gpu}}
)",
    R"(
strategies: [ddp, fsdp]
batch: {per_gpu: 8, accumulation: 4}
optimizer: {name: adam}
)",
    R"(
strategies: [ddp, fsdp]
model: gpt2
precision: amp-bf16
activation_checkpointing: true
)",
    R"(
strategies: [ddp, fsdp]
platform: cpu-loopback-x2
)",
};

TEST(Chapter, WhatLivesAtThePeakIsAllOfIt) {
  for (const std::string text : memory_cases) {
    SCOPED_TRACE(text);
    const ReportChapter chapter = chapter_of("gpus: 2" + text);
    ASSERT_EQ(chapter.memory.size(), chapter.record.predictions.size());
    for (const MemoryCurve& curve : chapter.memory) {
      SCOPED_TRACE(curve.strategy);
      const MemoryUse& use = predicted(chapter, curve.strategy, curve.gpus).memory;
      double sum = 0;
      std::map<std::string, double> by_kind;
      for (const MemoryCurve::Tensors& one : curve.at_peak) {
        sum += one.bytes;
        by_kind[one.kind] += one.bytes;
        EXPECT_GT(one.count, 0) << one.name;
        EXPECT_FALSE(one.name.empty());
      }
      EXPECT_EQ(sum, use.allocated);  // to the byte
      EXPECT_EQ(curve.peak_moment, use.moment);
      EXPECT_LE(curve.at_peak.size(), 16u);
      EXPECT_TRUE(std::is_sorted(curve.at_peak.begin(), curve.at_peak.end() - 1,
                                 [](const auto& a, const auto& b) { return a.bytes > b.bytes; }));
      // The named tensors of a kind are at most as large as the sum of the kind.
      for (const auto& [kind, bytes] : by_kind) {
        if (kind.empty()) continue;
        EXPECT_LE(bytes, use.at_peak.at(kind)) << kind;
      }
    }
  }
}

TEST(Chapter, TheTensorsAtThePeakHaveNames) {
  const ReportChapter chapter = chapter_of(
      "model: vgg16\nbatch: {per_gpu: 2}\noptimizer: {momentum: 0.9}\ngpus: 4\nstrategies: [ddp, "
      "{fsdp: {version: 1}}]\n");
  const auto has = [](const MemoryCurve& curve, const std::string& name, const std::string& kind) {
    return std::any_of(curve.at_peak.begin(), curve.at_peak.end(),
                       [&](const auto& one) { return one.name == name && one.kind == kind; });
  };
  // VGG-16's first linear layer is three quarters of its parameters.
  const double weight = 25088.0 * 4096 * 4;
  EXPECT_TRUE(has(chapter.memory[0], "classifier.0.weight", "parameters"));
  EXPECT_TRUE(has(chapter.memory[0], "classifier.0.weight", "optimizer state"));
  // A block whose remainder would be less than 1 MiB is not split (fact 119).
  EXPECT_GE(chapter.memory[0].at_peak[0].bytes, weight);
  EXPECT_LT(chapter.memory[0].at_peak[0].bytes, weight + (1 << 20));
  EXPECT_TRUE(std::any_of(chapter.memory[0].at_peak.begin(), chapter.memory[0].at_peak.end(),
                          [](const auto& one) { return one.name.starts_with("bucket "); }));
  EXPECT_TRUE(std::any_of(chapter.memory[1].at_peak.begin(), chapter.memory[1].at_peak.end(),
                          [](const auto& one) { return one.kind == "gathered parameters"; }));
}

// The timelines as the page's script unpacks them.
std::vector<StepTimeline> timelines_of(const ReportChapter& chapter) {
  std::vector<StepTimeline> timelines;
  for (const nlohmann::ordered_json& json : chapter.timelines) {
    StepTimeline& timeline = timelines.emplace_back();
    timeline.strategy = json["strategy"];
    timeline.gpus = json["gpus"];
    timeline.seconds = json["seconds"];
    timeline.merged_seconds = json["merged_seconds"];
    for (const auto& packed : json["lanes"]) {
      TimelineLane& lane = timeline.lanes.emplace_back(TimelineLane{packed["name"], {}});
      lane.busy_seconds = packed["busy_seconds"];
      lane.operations = packed["operations"];
      const auto numbers = packed["slices"].get<std::vector<std::int64_t>>();
      std::int64_t time = 0;  // ns
      for (std::size_t i = 0; i < numbers.size(); i += 5) {
        const std::int64_t start = time + numbers[i + 2];
        time = start + numbers[i + 3];
        lane.slices.push_back({static_cast<SliceKind>(numbers[i]),
                               json["names"][static_cast<std::size_t>(numbers[i + 1])],
                               1e-9 * static_cast<double>(start), 1e-9 * static_cast<double>(time),
                               static_cast<int>(numbers[i + 4])});
      }
    }
  }
  return timelines;
}

const TimelineLane& lane(const StepTimeline& timeline, const std::string& name) {
  const auto found = std::find_if(timeline.lanes.begin(), timeline.lanes.end(),
                                  [&](const TimelineLane& one) { return one.name == name; });
  if (found == timeline.lanes.end()) throw std::runtime_error("no lane " + name);
  return *found;
}

TEST(Chapter, ATimelineIsTheStepOfTheRecord) {
  const ReportChapter chapter = chapter_of(
      "model: resnet50\nprecision: amp-fp16\ngpus: [1, 4]\n"
      "strategies: [ddp, fsdp, {parameter_server: {servers: 2}}]\n");
  const std::vector<StepTimeline> timelines = timelines_of(chapter);
  ASSERT_EQ(timelines.size(), 3u);
  for (const StepTimeline& timeline : timelines) {
    SCOPED_TRACE(timeline.strategy);
    EXPECT_EQ(timeline.gpus, 4);
    const Prediction& p = predicted(chapter, timeline.strategy, 4);
    EXPECT_NEAR(timeline.seconds, p.step_seconds, 1e-6 * p.step_seconds);
    for (const TimelineLane& one : timeline.lanes) {
      double before = 0;
      for (const TimelineSlice& slice : one.slices) {
        EXPECT_GE(slice.start, before - 1e-12) << one.name << ": " << slice.name;
        EXPECT_GT(slice.end, slice.start);
        before = slice.end;
      }
      EXPECT_LE(before, timeline.seconds + 1e-9) << one.name;  // times are rounded
    }
    // At every time the compute stream is busy, or its wait has a cause.
    double covered = 0;
    for (const TimelineSlice& slice : lane(timeline, "compute").slices) {
      covered += slice.end - slice.start;
    }
    EXPECT_NEAR(covered, timeline.seconds, 1e-6 * timeline.seconds);
    EXPECT_FALSE(lane(timeline, "host").slices.empty());
  }
  const auto has = [](const TimelineLane& of, const std::string& begin) {
    return std::any_of(of.slices.begin(), of.slices.end(),
                       [&](const TimelineSlice& slice) { return slice.name.starts_with(begin); });
  };
  EXPECT_TRUE(has(lane(timelines[0], "gradients"), "all_reduce bucket 0, "));
  EXPECT_TRUE(has(lane(timelines[1], "shards"), "all_gather "));
  EXPECT_TRUE(has(lane(timelines[1], "shards"), "reduce_scatter "));
  EXPECT_GT(lane(timelines[2], "server 0: compute").busy_seconds, 0);
}

// The record splits the step of the mean rank; with one rank the timeline must split alike.
TEST(Chapter, ATimelineOfOneGpuSplitsAsTheRecordDoes) {
  const ReportChapter chapter = chapter_of("model: vgg16\ngpus: 1\noptimizer: {name: adam}\n");
  const StepTimeline timeline = timelines_of(chapter).at(0);
  std::map<SliceKind, double> seconds;
  for (const TimelineSlice& slice : lane(timeline, "compute").slices) {
    seconds[slice.kind] += slice.end - slice.start;
  }
  const StepSplit& split = predicted(chapter, "ddp", 1).split;
  const double near = 1e-6 * timeline.seconds;
  EXPECT_GT(split.optimizer, 0);
  EXPECT_NEAR(seconds[SliceKind::forward], split.forward, near);
  EXPECT_NEAR(seconds[SliceKind::backward], split.backward, near);
  EXPECT_NEAR(seconds[SliceKind::optimizer], split.optimizer, near);
  EXPECT_NEAR(seconds[SliceKind::data_loading], split.data_loading, near);
  EXPECT_NEAR(seconds[SliceKind::host_bound], split.host_bound, near);
}

// A step may have tens of thousands of kernels; the page merges them into a bounded number of short
// bars.
TEST(Chapter, WhatAPageHoldsIsBounded) {
  const ReportChapter chapter = chapter_of(
      "model: gpt2-xl\ngpus: 8\nstrategies: [ddp, fsdp]\nbatch: {per_gpu: 4, accumulation: 4}\n"
      "simulation: {steps: 3}\n");
  const std::vector<StepTimeline> timelines = timelines_of(chapter);
  ASSERT_EQ(timelines.size(), 2u);
  for (const StepTimeline& timeline : timelines) {
    SCOPED_TRACE(timeline.strategy);
    std::size_t drawn = 0;
    for (const TimelineLane& one : timeline.lanes) {
      drawn += one.slices.size();
      int stands_for = 0;
      for (const TimelineSlice& slice : one.slices) stands_for += slice.merged;
      // a bar stands for its kernels and the waits between them
      EXPECT_GE(stands_for, one.operations) << one.name;
    }
    EXPECT_LE(drawn, 2000u);
    EXPECT_GT(drawn, 500u);
    EXPECT_GT(timeline.merged_seconds, 0);
    EXPECT_LT(timeline.merged_seconds, timeline.seconds / 100);
  }
}

}  // namespace
}  // namespace lockstep::chapter_test
