// Does any prediction change unintentionally? The scenarios have options that were drawn together
// (tests/fuzz/draw_scenarios.py). Besides the prediction, the golden file holds checksums of the
// traffic, the trace and the idle options.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/data.hpp"
#include "engine/observer.hpp"
#include "helpers.hpp"
#include "memory/moments.hpp"
#include "written.hpp"

namespace lockstep::drawn_test {
namespace {

using Json = nlohmann::json;

constexpr int blocks = 8;  // blocks of scenarios that run in parallel

double sum_of_numbers(const Json& json) {
  if (json.is_number()) return json.get<double>();
  double sum = 0;
  if (!json.is_structured()) return sum;
  for (const Json& part : json) sum += sum_of_numbers(part);
  return sum;
}

// Sums over all events of two lanes of each group; the order of events has no effect.
class Heard final : public Observer {
 public:
  bool watches(std::string_view, int lane) const override { return lane < 2; }
  void on_link(const Link& link) override { links += link.bytes_per_second * link.count; }
  void on_work(const Work& work) override {
    told(work.stream, work.start, work.end, work.after);
    said += code(work.name) + static_cast<int>(work.phase);
  }
  void on_transfer(const Transfer& transfer) override {
    told(transfer.stream, transfer.start, transfer.end, transfer.after);
    said += code(transfer.name) + code(transfer.what) + transfer.which;
    bytes += transfer.bytes;
    ready += transfer.ready;
  }
  void on_wait(const Wait& wait) override {
    told(wait.stream, wait.start, wait.end, wait.after);
    said += static_cast<int>(wait.cause);
  }
  void on_step(const Step& step) override {
    told(step.stream, step.start, step.end, 0);
    said += step.index;
  }

  double links = 0, said = 0, bytes = 0, ready = 0, events = 0, caused = 0, seconds = 0, ends = 0;

 private:
  static int code(std::string_view text) {
    int sum = 0;
    for (const char c : text) sum = (31 * sum + c) % 1009;
    return sum;
  }
  void told(const Stream& stream, double start, double end, Number after) {
    ++events;
    if (after != 0) ++caused;
    said += code(stream.group) + code(stream.name);
    seconds += (end - start) * (1 + stream.lane);
    ends += end;
  }
};

// Adds the sums of the first steps' events, and of their memory log.
void add_heard(const Point& point, Written& written) {
  Job job = point.job;
  job.simulation.engine = Engine::loop;  // a process can start SimGrid only once
  job.simulation.steps = 1;
  Heard heard;
  MemoryLog memory;
  point.strategy->memory(job, {.log = &memory});
  job.simulation.observer = &heard;
  point.strategy->simulate(job);
  double live = 0;
  for (const LiveTensors& tensors : memory.at_peak) {
    live += static_cast<double>(tensors.count * tensors.bytes);
  }
  for (const auto& [name, figure] : {std::pair{"links", heard.links},
                                     {"events", heard.events},
                                     {"caused", heard.caused},
                                     {"said", heard.said},
                                     {"in events", heard.seconds},
                                     {"their ends", heard.ends},
                                     {"ready", heard.ready},
                                     {"carried", heard.bytes},
                                     {"live", live},
                                     {"moments", static_cast<double>(memory.moments.size())}}) {
    written.figures.emplace_back(name, figure);
  }
}

Written found_of(const std::string& text) {
  const Scenario scenario = read_scenario_text(text, "drawn.yaml");
  const Point point = expand(scenario).at(0);
  const StrategyResult result = simulate({point}).at(0);
  const Prediction p = summarise_point(scenario, point, result);
  Written written = written_of(p);
  written.name = text;
  const auto add = [&](const char* name, double figure) {
    written.figures.emplace_back(name, figure);
  };
  double busy = 0, all_bytes = 0;
  for (const LinkTraffic& t : p.traffic) {
    busy += t.busy;
    all_bytes += t.total_bytes;
  }
  double kinds = 0, weight = 0;
  for (const auto& [kind, bytes] : p.memory.at_peak) kinds += ++weight * bytes;
  add("median", p.median_step_seconds);
  add("least communication", point.strategy->least_communication_seconds(point.job));
  add("links' busy", busy);
  add("all traffic", all_bytes);
  add("device memory", p.memory.device);
  add("memory by kind", kinds);
  add("simulated", p.simulated_steps + 0.1 * p.extrapolated);
  add("measured", p.provenance.measured);
  add("interpolated", p.provenance.interpolated);
  add("idle options", static_cast<double>(point.strategy->idle_options(point.job).size()));
  add("sent", sum_of_numbers(point.strategy->communication(point.job)));
  add_heard(point, written);
  return written;
}

class DrawnScenarios : public testing::TestWithParam<int> {};

TEST_P(DrawnScenarios, ArePredictedAsWrittenDown) {
  std::ifstream in(data_folder("") + "/tests/scenario/golden/drawn.jsonl");
  std::vector<Written> found;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    if (number++ % blocks == GetParam()) found.push_back(found_of(line));
  }
  EXPECT_FALSE(found.empty());
  expect_as_written_down("drawn.csv", std::to_string(GetParam()), found);
}
INSTANTIATE_TEST_SUITE_P(, DrawnScenarios, testing::Range(0, blocks));

}  // namespace
}  // namespace lockstep::drawn_test
