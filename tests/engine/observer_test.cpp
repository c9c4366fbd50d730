// Does an observer receive all events, by name, without overlap and for every second of the step?
// Do both executors report the same events, and is the simulation independent of the observer?
#include "engine/observer.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "engine/world.hpp"
#include "on_both.hpp"

namespace lockstep::observer_test {
namespace {

// Records the reported events as text and numbers.
class Listener : public Observer {
 public:
  struct Told {
    std::string text;  // "compute forward fc"
    int lane = 0;
    double start = 0, end = 0;
    Number number = 0, after = 0;
  };
  std::vector<Told> told;
  std::map<std::string, StepSplit> split;  // of the compute stream, by lane
  std::vector<int> ignored;
  std::vector<int> lanes;  // by rank
  std::vector<std::string> links;

  bool watches(std::string_view, int lane) const override {
    return std::count(ignored.begin(), ignored.end(), lane) == 0;
  }
  void on_ranks(std::string_view, std::span<const int> lane_of_rank) override {
    lanes.assign(lane_of_rank.begin(), lane_of_rank.end());
  }
  void on_link(const Link& link) override { links.emplace_back(link.name); }
  void on_work(const Work& work) override {
    static const char* phases[] = {" forward ", " backward ", " optimizer ", " copies "};
    add(work.stream, phases[static_cast<int>(work.phase)] + std::string(work.name), work.start,
        work.end, work.number, work.after);
  }
  void on_transfer(const Transfer& t) override {
    add(t.stream, " " + std::string(t.name) + " " + std::string(t.what) + std::to_string(t.which),
        t.start, t.end, t.number, t.after);
  }
  void on_wait(const Wait& wait) override {
    static const char* causes[] = {"communication", "data_loading", "waiting",
                                   "copies",        "host_bound",   "optimizer"};
    add(wait.stream, std::string(" waits: ") + causes[static_cast<int>(wait.cause)], wait.start,
        wait.end, 0, wait.after);
  }
  void on_step(const Step& step) override {
    add(step.stream, " step " + std::to_string(step.index), step.start, step.end, 0, 0);
  }

  const Told& the(const std::string& text, int lane = 0) const {
    const Told* found = nullptr;
    for (const Told& each : told) {
      if (each.text != text || each.lane != lane) continue;
      EXPECT_EQ(found, nullptr) << text;
      found = &each;
    }
    if (found == nullptr) throw std::runtime_error("nobody told of " + text);
    return *found;
  }
  // Total seconds of events that begin with `prefix`.
  double seconds(const std::string& prefix, int lane = 0) const {
    double sum = 0;
    for (const Told& each : told) {
      if (each.lane == lane && each.text.starts_with(prefix)) sum += each.end - each.start;
    }
    return sum;
  }

 private:
  void add(const Stream& stream, const std::string& text, double start, double end, Number number,
           Number after) {
    EXPECT_LE(start, end) << stream.name << text;
    told.push_back({std::string(stream.name) + text, stream.lane, start, end, number, after});
  }
};

QueuedWork device(double seconds, double host = 0) {
  return {host, seconds, host + seconds};
}

TransferSpec lasting(double seconds, std::string_view name) {
  TransferSpec spec;
  spec.bytes = 1e6 * seconds;
  spec.lone_bytes_per_second = 1e6;
  spec.channels = 24;
  spec.name = name;
  spec.what = "bucket";
  spec.which = 0;
  return spec;
}

double one_and_a_half(Phase, const Occupancy&) {
  return 1.5;
}

// A step with every kind of event: two forward layers, for one of which the host is late; backward
// beside a collective; a copy; an update that the host waits for.
Program a_step(RankGroup& ranks, Communicator& communicator, StreamId copies,
               const NamedWork& forward) {
  ranks.host(0.25, "hook");
  ranks.compute(Phase::forward, forward);
  const TransferSpec spec = lasting(3, "all_reduce");
  const Event reduced = ranks.start(communicator, spec, ranks.record());
  ranks.compute(Phase::backward, device(1), "all backward");
  ranks.wait(reduced);
  const Event copied = ranks.enqueue(copies, 0.5, ranks.record(), true, "cast");
  ranks.wait(copied);
  co_await ranks.host_wait(copied);
  ranks.compute(Phase::optimizer, device(0.125), "SGD");
}

NamedWork two_layers() {
  NamedWork work;
  work.append("conv", device(1, 0.5));
  work.append("view", {0.125, 0, 0.125});
  work.append("fc", device(0.25, 1.75));
  return work;
}

struct Played {
  std::vector<StepRecord> steps;
};

Played play(Observer* observer, Engine engine, RankGroupSpec spec,
            const std::vector<double>& factors) {
  const NamedWork forward = two_layers();
  World world({.engine = engine, .observer = observer});
  RankGroup& ranks = world.add_ranks(std::move(spec));
  Communicator& communicator = ranks.add_communicator("gradients");
  const StreamId copies = ranks.add_stream("casts", WaitCause::copies);
  const auto driver = [&]() -> Program {
    ranks.set_factors(factors);
    for (int step = 0; step < 2; ++step) {
      co_await a_step(ranks, communicator, copies, forward);
      ranks.end_step();
    }
    co_await ranks.await_step(1);
  };
  world.spawn("driver", driver());
  world.run();
  return {ranks.steps()};
}

TEST(Observer, IsToldOfLayersByName) {
  Listener listener;
  play(&listener, Engine::loop, {.name = "ddp"}, {1});
  // On the host the hook comes first and then each layer. On the device, conv starts when issued at
  // 0.75 s, and fc waits until 2.625 s for its host.
  const auto& hook = listener.told.front();
  EXPECT_EQ(hook.text, "host copies hook");
  EXPECT_DOUBLE_EQ(hook.end, 0.25);
  const auto first = [&](const std::string& text) -> const Listener::Told& {
    for (const auto& each : listener.told) {
      if (each.text == text) return each;
    }
    throw std::runtime_error("nobody told of " + text);
  };
  EXPECT_DOUBLE_EQ(first("host forward fc").start, 0.875);
  EXPECT_DOUBLE_EQ(first("host forward fc").end, 2.625);
  EXPECT_DOUBLE_EQ(first("compute forward conv").start, 0.75);
  EXPECT_DOUBLE_EQ(first("compute forward conv").end, 1.75);
  EXPECT_DOUBLE_EQ(first("compute forward fc").start, 2.625);
  EXPECT_DOUBLE_EQ(first("compute forward fc").end, 2.875);
  EXPECT_EQ(first("compute forward fc").after, first("host forward fc").number);
  EXPECT_DOUBLE_EQ(first("compute waits: host_bound").end, 0.75);
  // The collective starts after forward, and the wait for it names it.
  EXPECT_DOUBLE_EQ(first("gradients all_reduce bucket0").start, 2.875);
  EXPECT_DOUBLE_EQ(first("gradients all_reduce bucket0").end, 5.875);
  EXPECT_EQ(first("compute waits: communication").after,
            first("gradients all_reduce bucket0").number);
  EXPECT_DOUBLE_EQ(first("compute waits: communication").start, 3.875);
  EXPECT_EQ(first("gradients all_reduce bucket0").after, first("host copies all_reduce").number);
  EXPECT_DOUBLE_EQ(first("casts copies cast").start, 5.875);
  EXPECT_EQ(first("compute waits: copies").after, first("casts copies cast").number);
  EXPECT_DOUBLE_EQ(first("host waits: copies").end, 6.375);
  EXPECT_DOUBLE_EQ(first("compute step 0").end, 6.5);
  EXPECT_DOUBLE_EQ(first("host step 0").end, 6.375);
}

// On a lane with another device each named part takes its own time on that device, not its share of
// the mean factor.
TEST(Observer, IsToldWhatEachPartTakesOnEachDevice) {
  NamedWork work;
  QueuedWork product = device(1), copy = device(1);
  product.elsewhere[0] = 3;
  work.append("product", product);
  work.append("copy", copy);
  for (const bool interference : {false, true}) {
    Listener listener;
    RankGroupSpec spec{.name = "ddp", .ranks_per_lane = {1, 1}, .device_of_lane = {0, 1}};
    if (interference) spec.slowdown = one_and_a_half;
    World world({.engine = Engine::loop, .observer = &listener});
    RankGroup& ranks = world.add_ranks(std::move(spec));
    ranks.add_communicator("gradients");
    const auto driver = [&]() -> Program {
      ranks.set_factors({1, 2});
      ranks.compute(Phase::forward, work);
      ranks.end_step();
      co_await ranks.await_step(0);
    };
    world.spawn("driver", driver());
    world.run();
    EXPECT_DOUBLE_EQ(listener.seconds("compute forward product", 0), 1);
    EXPECT_DOUBLE_EQ(listener.seconds("compute forward product", 1), 2 * 4);
    EXPECT_DOUBLE_EQ(listener.seconds("compute forward copy", 1), 2 * 1);
    EXPECT_DOUBLE_EQ(ranks.steps().front().lanes.seconds.at(1), 2 * (4 + 1));
  }
}

// Every second of every step is reported once, under the name under which the step's split books
// it. This holds with slow lanes, and with collectives that slow compute down.
TEST(Observer, WhatIsToldAddsUpToTheStep) {
  for (const bool interference : {false, true}) {
    RankGroupSpec spec{.name = "ddp", .ranks_per_lane = {3, 1}};
    if (interference) spec.slowdown = one_and_a_half;
    Listener listener;
    const Played played = play(&listener, Engine::loop, spec, {1, 3});
    StepSplit sum;
    double seconds = 0;
    for (const int lane : {0, 1}) {
      const double weight = spec.ranks_per_lane[static_cast<std::size_t>(lane)] / 4;
      const auto of = [&](const char* text) { return weight * listener.seconds(text, lane); };
      sum.forward += of("compute forward");
      sum.backward += of("compute backward");
      sum.optimizer += of("compute optimizer");
      sum.copies += of("compute copies") + of("compute waits: copies");
      sum.exposed_communication += of("compute waits: communication");
      sum.host_bound += of("compute waits: host_bound");
      sum.waiting += of("compute waits: waiting");
      seconds += of("compute step");
    }
    StepSplit expected;
    double expected_seconds = 0;
    for (const StepRecord& step : played.steps) {
      add(expected, step.split, 1);
      expected_seconds += step.seconds;
    }
    for (const auto part : step_parts) EXPECT_NEAR(sum.*part, expected.*part, 1e-9);
    EXPECT_NEAR(seconds, expected_seconds, 1e-9);
    EXPECT_GT(expected.host_bound, 0);
    EXPECT_GT(expected.waiting, 0);
  }
}

TEST(Observer, NothingOverlapsOnAStream) {
  RankGroupSpec spec{.name = "ddp", .ranks_per_lane = {1, 1}, .slowdown = one_and_a_half};
  Listener listener;
  play(&listener, Engine::loop, spec, {1, 1.25});
  std::map<std::string, std::vector<std::pair<double, double>>> streams;
  for (const auto& each : listener.told) {
    if (each.text.find(" step ") != std::string::npos) continue;
    streams[each.text.substr(0, each.text.find(' ')) + std::to_string(each.lane)].push_back(
        {each.start, each.end});
  }
  EXPECT_EQ(streams.size(), 8u);  // host, compute, gradients and casts, for each of two lanes
  for (auto& [name, spans] : streams) {
    std::sort(spans.begin(), spans.end());
    for (std::size_t i = 1; i < spans.size(); ++i) {
      EXPECT_GE(spans[i].first, spans[i - 1].second - 1e-9) << name;
    }
  }
}

TEST(Observer, HearsTheSameOnBothExecutors) {
  for (const bool interference : {false, true}) {
    on_both([&](Engine engine) {
      RankGroupSpec spec{.name = "ddp", .ranks_per_lane = {3, 1}};
      if (interference) spec.slowdown = one_and_a_half;
      Listener listener;
      play(&listener, engine, spec, {1, 1.25});
      std::vector<double> numbers;
      for (const auto& each : listener.told) {
        numbers.push_back(static_cast<double>(std::hash<std::string>()(each.text) % 1000003));
        numbers.push_back(each.start);
        numbers.push_back(each.end);
      }
      return numbers;
    });
  }
}

TEST(Observer, ChangesNothingAndHearsOnlyWhatItWatches) {
  RankGroupSpec spec{.name = "ddp", .ranks_per_lane = {3, 1}, .slowdown = one_and_a_half};
  Listener listener;
  listener.ignored = {0};
  const Played heard = play(&listener, Engine::loop, spec, {1, 1.25});
  const Played unheard = play(nullptr, Engine::loop, spec, {1, 1.25});
  ASSERT_EQ(heard.steps.size(), unheard.steps.size());
  for (std::size_t i = 0; i < heard.steps.size(); ++i) {
    EXPECT_EQ(heard.steps[i].seconds, unheard.steps[i].seconds);
    for (const auto part : step_parts)
      EXPECT_EQ(heard.steps[i].split.*part, unheard.steps[i].split.*part);
  }
  EXPECT_EQ(listener.lanes, (std::vector<int>{0, 0, 0, 1}));
  for (const auto& each : listener.told) EXPECT_EQ(each.lane, 1);
}

// On a CPU the computing thread issues the work itself, so no separate host is reported.
TEST(Observer, HasNoHostWhereTheThreadComputes) {
  RankGroupSpec spec{.name = "ddp", .one_thread = true};
  Listener listener;
  play(&listener, Engine::loop, spec, {1});
  for (const auto& each : listener.told) EXPECT_FALSE(each.text.starts_with("host")) << each.text;
  EXPECT_NEAR(listener.seconds("compute forward conv"), 2.0, 1e-12);
}

TEST(Observer, HearsOfLinksAndLoneTransfers) {
  Listener listener;
  World world({.observer = &listener});
  const LinkId nic = world.add_link("nic", "NIC", 1e6);
  const auto driver = [&]() -> Program {
    TransferSpec spec;
    spec.bytes = 2e6;
    spec.uses = {{nic, 2e6, 2e6}};
    spec.name = "push";
    co_await world.transfer(spec);
  };
  world.spawn("driver", driver());
  world.run();
  EXPECT_EQ(listener.links, std::vector<std::string>{"nic"});
  EXPECT_DOUBLE_EQ(listener.the("push push -1").end, 2.0);
}

}  // namespace
}  // namespace lockstep::observer_test
