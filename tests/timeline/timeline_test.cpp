// Is a timeline a trace as PyTorch's profiler writes it, does it show every second of the step
// under the names of the layers, and do both executors give the same timeline? Run with
// LOCKSTEP_WRITE_GOLDEN=1 to write the golden file anew, and read the difference.
#include "timeline/timeline.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "../strategies/toy_job.hpp"
#include "core/statistics.hpp"
#include "questions/run.hpp"
#include "scenario/helpers.hpp"
#include "source_dir.hpp"

namespace lockstep::timeline_test {
namespace {

using Json = nlohmann::json;
using testing::toy_job;
using testing::ToyCosts;

struct Case {
  const char* name;
  StrategyOptions options;
  Job job;
};

// Four layers on eight GPUs; host and device take times of the same order.
Job small_job() {
  auto costs = std::make_shared<ToyCosts>();
  costs->forward = {0.8e-3, 1e-3, 1.1e-3};
  costs->backward = {0.3e-3, 2e-3, 2.1e-3};
  Job job = toy_job(4, 10e6, 8, costs);
  job.simulation.interference = true;
  job.simulation.engine = Engine::loop;  // a process can start SimGrid only once
  job.gradient_clipping = 1;
  return job;
}

std::vector<Case> cases() {
  std::vector<Case> result;
  DdpOptions ddp;
  ddp.bucket_bytes = 60e6;
  result.push_back({"ddp", ddp, small_job()});
  Job slow = small_job();
  slow.stragglers.slow_ranks = {{3, 1.5}};
  slow.accumulation = 2;
  slow.data_loading_seconds = 20e-3;
  result.push_back({"ddp, a slow rank that waits for data", ddp, slow});
  Job cpu = small_job();
  cpu.machine.device.architecture = Architecture::cpu;
  cpu.machine.host.cores = 64;
  result.push_back({"ddp on cpus", ddp, cpu});
  for (const int version : {1, 2}) {
    FsdpOptions fsdp;
    fsdp.version = version;
    fsdp.wrap.policy = WrapPolicy::size;
    fsdp.wrap.min_parameters = 10'000'000;
    result.push_back({version == 1 ? "fsdp1" : "fsdp2", fsdp, small_job()});
  }
  FsdpOptions hybrid;
  hybrid.sharding = Sharding::hybrid_shard;
  hybrid.shard_group = 4;
  result.push_back({"hybrid", hybrid, small_job()});
  ParameterServerOptions sync;
  sync.servers = 2;
  Job served = small_job();
  served.machine.host.memory_bandwidth = 200e9;  // updates take time
  result.push_back({"synchronous servers", sync, served});
  return result;
}

struct Traced {
  StrategyResult result;
  Json events;
};

Traced trace(const StrategyOptions& options, Job job, TimelineOptions shown) {
  Timeline timeline(job, shown);
  job.simulation.observer = &timeline;
  Traced traced;
  traced.result = make_strategy(options)->simulate(job);
  traced.events = Json::parse("[" + timeline.events("", 0) + "]");
  return traced;
}

// The trace of the last steps, which stand for the extrapolated rest, with every rank.
Traced trace(const Case& of) {
  const StrategyResult found = make_strategy(of.options)->simulate(of.job);
  EXPECT_TRUE(found.extrapolated) << of.name;
  TimelineOptions shown;
  shown.last_step = found.simulated_steps - 1;
  shown.first_step = shown.last_step - 2;
  for (int rank = 0; rank < of.job.mesh.gpus(); ++rank) shown.ranks.push_back(rank);
  return trace(of.options, of.job, shown);
}

// rounded to tenths of a nanosecond, so that sums are exact
double ns(const Json& event, const char* field) {
  return std::round(event[field].get<double>() * 1e4) / 10;
}
bool is_slice(const Json& event) {
  return event["ph"] == "X";
}
using Track = std::pair<int, int>;
Track track_of(const Json& event) {
  return {event["pid"].get<int>(), event["tid"].get<int>()};
}
std::map<Track, std::string> track_names(const Json& events) {
  std::map<Track, std::string> names;
  for (const Json& event : events) {
    if (event["name"] == "thread_name") names[track_of(event)] = event["args"]["name"];
  }
  return names;
}
std::set<int> processes(const Json& events, const std::string& beginning) {
  std::set<int> found;
  for (const Json& event : events) {
    if (event["name"] != "process_name") continue;
    if (event["args"]["name"].get<std::string>().starts_with(beginning))
      found.insert(event["pid"].get<int>());
  }
  return found;
}

TEST(Timeline, IsAChromeTraceWhoseSlicesNest) {
  for (const Case& of : cases()) {
    const Json events = trace(of).events;
    const auto names = track_names(events);
    std::map<Track, std::vector<std::pair<double, double>>> tracks;
    for (const Json& event : events) {
      ASSERT_TRUE(event["ph"].is_string() && event["ts"].is_number() && event["pid"].is_number() &&
                  event["tid"].is_number() && event["name"].is_string())
          << event;
      if (!is_slice(event)) continue;
      EXPECT_GE(ns(event, "dur"), 0) << of.name << event;
      EXPECT_EQ(names.count(track_of(event)), 1u) << of.name << event;
      tracks[track_of(event)].push_back({ns(event, "ts"), -ns(event, "dur")});
    }
    for (auto& [track, slices] : tracks) {
      std::sort(slices.begin(), slices.end());
      std::vector<double> open;
      for (const auto& [start, length] : slices) {
        while (!open.empty() && open.back() <= start + 0.05) open.pop_back();
        if (!open.empty()) {
          EXPECT_LE(start - length, open.back() + 0.05) << of.name << " " << names.at(track);
          // slices of other tracks follow each other
          EXPECT_EQ(names.at(track), "host") << of.name;
        }
        open.push_back(start - length);
      }
    }
  }
}

// In the trace, the work and the waits of the ranks' compute streams add up to the parts of the
// record's step.
TEST(Timeline, AddsUpToTheStepOfTheRecord) {
  for (const Case& of : cases()) {
    const Traced traced = trace(of);
    const auto names = track_names(traced.events);
    const auto ranks = processes(traced.events, "rank ");
    ASSERT_EQ(ranks.size(), 8u);
    std::map<std::string, double> parts;
    for (const Json& event : traced.events) {
      if (!is_slice(event) || ranks.count(event["pid"].get<int>()) == 0) continue;
      const std::string& track = names.at(track_of(event));
      if (event["cat"] == "wait") {
        parts[event["name"]] += ns(event, "dur");
      } else if (track.ends_with("compute")) {
        parts[event["args"]["phase"]] += ns(event, "dur");
      }
    }
    const StepSplit& split = traced.result.split;
    const std::map<std::string, double> expected{
        {"forward", split.forward},
        {"backward", split.backward},
        {"optimizer", split.optimizer},
        {"copies", split.copies},
        {"data loading", split.data_loading},
        {"exposed communication", split.exposed_communication},
        {"host-bound", split.host_bound},
        {"waiting", split.waiting}};
    const double step = mean(traced.result.step_seconds);
    for (const auto& [part, seconds] : expected) {
      EXPECT_NEAR(parts[part] * 1e-9 / (3 * 8), seconds, 1e-6 * step) << of.name << " " << part;
    }
    EXPECT_EQ(parts.size(), [&] {
      for (const auto& [part, seconds] : expected) parts.try_emplace(part, 0);
      return expected.size();
    }()) << of.name;
  }
}

TEST(Timeline, NamesEveryLayerInEveryStep) {
  for (const Case& of : cases()) {
    const Json events = trace(of).events;
    const auto names = track_names(events);
    const int passes = 3 * of.job.accumulation * 8;
    for (const Layer& layer : of.job.step->layers) {
      int forward = 0, backward = 0, host = 0;
      for (const Json& event : events) {
        if (!is_slice(event) || !event.contains("args")) continue;
        const Json& arguments = event["args"];
        if (arguments.value("Module", "") == layer.name) ++host;
        const std::string name = event["name"];
        if (!names.at(track_of(event)).ends_with("compute") || !name.starts_with(layer.name))
          continue;
        forward += arguments.value("phase", "") == "forward";
        backward += arguments.value("phase", "") == "backward";
      }
      EXPECT_EQ(forward, passes) << of.name << " " << layer.name;
      EXPECT_EQ(backward, passes) << of.name << " " << layer.name;
      const bool hosted = of.job.machine.device.architecture != Architecture::cpu;
      EXPECT_EQ(host, hosted ? 2 * passes : 0) << of.name << " " << layer.name;
    }
  }
}

// Each arrow begins inside a slice and ends inside a slice, not earlier than it began.
TEST(Timeline, ArrowsArePaired) {
  for (const Case& of : cases()) {
    const std::string_view name = of.name;
    std::set<std::string> kinds;
    const Json events = trace(of).events;
    std::map<Track, std::vector<std::pair<double, double>>> slices;
    for (const Json& event : events) {
      if (is_slice(event)) {
        slices[track_of(event)].push_back({ns(event, "ts"), ns(event, "ts") + ns(event, "dur")});
      }
    }
    std::map<std::pair<std::string, std::int64_t>, std::vector<Json>> arrows;
    for (const Json& event : events) {
      if (event["ph"] == "s" || event["ph"] == "f")
        arrows[{event["cat"], event["id"]}].push_back(event);
    }
    for (const auto& [key, ends] : arrows) {
      ASSERT_EQ(ends.size(), 2u) << of.name;
      EXPECT_EQ(ends[0]["ph"], "s");
      EXPECT_EQ(ends[1]["ph"], "f");
      EXPECT_LE(ns(ends[0], "ts"), ns(ends[1], "ts") + 0.05);
      for (const Json& end : ends) {
        const auto& there = slices[track_of(end)];
        EXPECT_TRUE(std::any_of(there.begin(), there.end(),
                                [&](const auto& slice) {
                                  return slice.first <= ns(end, "ts") + 0.05 &&
                                         ns(end, "ts") <= slice.second + 0.05;
                                }))
            << of.name << end;
      }
      kinds.insert(key.first);
    }
    // An arrow leads from a collective or a pull to the wait that it ends, from a host to a kernel,
    // and from a push to the server's work.
    EXPECT_TRUE(kinds.contains("ends")) << of.name;
    EXPECT_EQ(kinds.contains("ac2g"), name != "ddp on cpus") << name;
    if (name == "synchronous servers") {
      EXPECT_TRUE(kinds.contains("follows"));
    }
  }
}

// The track, start and length of all slices, in the order of the trace.
std::vector<double> slices_on(Engine engine, const Case& of) {
  Job job = of.job;
  job.simulation.engine = engine;
  job.simulation.steps = 2;
  std::vector<std::array<double, 4>> slices;
  const Json events = trace(of.options, job, {.ranks = {0, 3, 7}, .last_step = 2}).events;
  for (const Json& event : events) {
    if (!is_slice(event)) continue;
    const auto [process, track] = track_of(event);
    slices.push_back({double(process), double(track), event["ts"], event["dur"]});
  }
  std::sort(slices.begin(), slices.end());
  std::vector<double> numbers;
  for (const auto& slice : slices) numbers.insert(numbers.end(), slice.begin(), slice.end());
  return numbers;
}

TEST(Timeline, IsTheSameOnBothExecutors) {
  for (const Case& of : cases()) {
    const auto loop = slices_on(Engine::loop, of);
    const auto simgrid = in_child([&] { return slices_on(Engine::simgrid, of); });
    ASSERT_EQ(loop.size(), simgrid.size()) << of.name;
    const double rounding = 1.01e-4;  // us
    for (std::size_t i = 0; i < loop.size(); ++i)
      ASSERT_NEAR(loop[i], simgrid[i], rounding) << of.name;
  }
}

TEST(Timeline, ShowsOneRankOfThoseThatAreAlike) {
  Job job = small_job();
  job.mesh.data = 4096;
  job.simulation.steps = 3;
  EXPECT_EQ(processes(trace(DdpOptions{}, job, {}).events, "rank ").size(), 1u);
  job.stragglers.per_step = Lognormal{0.1};
  const Json events = trace(DdpOptions{}, job, {}).events;
  EXPECT_EQ(processes(events, "rank ").size(), 4u);
  EXPECT_LT(events.dump().size(), 200'000u);
}

TEST(Timeline, CountsWhatLinksCarry) {
  const Json events = trace(cases().front()).events;
  double last = -1, most = 0;
  for (const Json& event : events) {
    if (event["ph"] != "C") continue;
    EXPECT_EQ(event["name"], "NVLink");
    last = event["args"]["GB/s"];
    EXPECT_GE(last, 0);
    most = std::max(most, last);
  }
  EXPECT_EQ(last, 0);
  EXPECT_GT(most, 50);  // of twelve links of 25 GB/s
  EXPECT_LE(most, 300);
}

// For every shipped way to train, the memory counter reaches the reported peak exactly, and its
// times never decrease.
TEST(Timeline, CountsTheMemoryWhosePeakIsReported) {
  for (const char* text :
       {"strategies: [ddp]\n", "strategies: [fsdp]\n", "strategies: [fsdp: {version: 2}]\n",
        "strategies: [local_sgd: {every: 2}]\n",
        "strategies: [zero: {stage: 2, gather: with-forward}]\n",
        "strategies: [parameter_server: {placement: worker-host}]\n",
        "strategies: [ddp]\nbatch: {per_gpu: 16, accumulation: 4}\noptimizer: {name: adamw}\n",
        "strategies: [fsdp: {sync_every_micro_batch: false}]\nbatch: {per_gpu: 16, accumulation: "
        "4}\n",
        "strategies: [ddp]\nmodel: gpt2\nactivation_checkpointing: true\n"}) {
    SCOPED_TRACE(text);
    const Scenario scenario = scenario_of(std::string("gpus: 4\nsimulation: {steps: 4}\n") + text);
    const Point point = expand(scenario).front();
    Job job = point.job;
    MemoryLog log;
    const MemoryUse use = point.strategy->memory(job, {.log = &log});
    ASSERT_FALSE(log.moments.empty());
    std::int64_t most = 0;
    for (const MemoryMoment& moment : log.moments) {
      most = std::max(most, total_bytes(moment.highest));
    }
    EXPECT_EQ(static_cast<double>(most), use.allocated);
    Timeline timeline(job, {.ranks = {0}, .first_step = 1, .last_step = 2});
    timeline.set_memory(log);
    job.simulation.observer = &timeline;
    point.strategy->simulate(job);
    const Json events = Json::parse("[" + timeline.events("", 0) + "]");
    double highest = 0, time = 0, by_kind = 0;
    std::size_t values = 0;
    for (const Json& event : events) {
      if (event["ph"] != "C") continue;
      if (event["name"] == "memory by kind") {
        by_kind = 0;
        for (const auto& [kind, bytes] : event["args"].items()) by_kind += bytes.get<double>();
      }
      if (event["name"] != "allocated memory") continue;
      const double bytes = event["args"]["bytes"];
      EXPECT_NEAR(bytes, by_kind, 1e-8 * bytes);  // the file has ten digits
      EXPECT_GE(event["ts"], time);
      time = event["ts"];
      highest = std::max(highest, bytes);
      ++values;
    }
    EXPECT_NEAR(highest, use.allocated, 1e-8 * highest);
    // the counter changes more often than there are layers
    EXPECT_GT(values, job.step->layers.size());
  }
}

// The curves that the page shows are thinned out for the screen, and still reach the peaks of the
// record.
TEST(Timeline, ThePagesMemoryCurvesReachThePeak) {
  const Scenario scenario =
      read_scenario(LOCKSTEP_SOURCE_DIR "/scenarios/activation_checkpointing.yaml");
  const ReportChapter chapter = report_chapter(scenario, run_scenario(scenario, {1, {}}));
  ASSERT_EQ(chapter.memory.size(), scenario.strategies.size());
  for (const MemoryCurve& curve : chapter.memory) {
    EXPECT_LE(curve.moments.size(), 400u);
    const auto peak =
        std::max_element(curve.moments.begin(), curve.moments.end(),
                         [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
    const auto p =
        std::find_if(chapter.record.predictions.begin(), chapter.record.predictions.end(),
                     [&](const Prediction& other) {
                       return other.strategy == curve.strategy && other.gpus == curve.gpus;
                     });
    ASSERT_NE(p, chapter.record.predictions.end());
    EXPECT_EQ(peak->bytes, p->memory.allocated);
    EXPECT_EQ(peak->text, p->memory.moment);
  }
}

TEST(Timeline, IsAsReviewed) {
  Job job = toy_job(2, 10e6, 2, cases().front().job.costs);
  job.simulation.steps = 1;
  Timeline timeline(job, {.last_step = 1});
  job.simulation.observer = &timeline;
  make_strategy(DdpOptions{})->simulate(job);
  const TraceHeader header{
      .title = "ddp on 2 GPUs", .device = "toy", .backend = "nccl", .ranks = 2};
  const std::string text = trace_document(header, timeline.events("ddp on 2 GPUs: ", 0));
  const std::string path = LOCKSTEP_SOURCE_DIR "/tests/timeline/golden/trace.json";
  if (std::getenv("LOCKSTEP_WRITE_GOLDEN") != nullptr) std::ofstream(path) << text;
  std::ostringstream golden;
  golden << std::ifstream(path).rdbuf();
  EXPECT_EQ(text, golden.str());
}

}  // namespace
}  // namespace lockstep::timeline_test
