// Does every shipped file load and run? Each file has its own test, so that a new file is tested as
// soon as it exists.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/data.hpp"
#include "core/yaml.hpp"
#include "hardware/machine.hpp"
#include "helpers.hpp"
#include "questions/run.hpp"
#include "results/render.hpp"
#include "schema/accepts.hpp"
#include "workload/model.hpp"
#include "written.hpp"

namespace lockstep::shipped_files_test {
namespace {

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  const std::string root = data_folder("");
  if (name.starts_with(root)) name.erase(0, root.size());
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

class ShippedScenario : public testing::TestWithParam<std::string> {};

// MFU is relative to the peak in half precision, which products in fp8 and fp4 exceed up to twice
// and four times.
double most_mfu(const Scenario& scenario) {
  const auto narrow = [](const LowPrecision& low) { return low.is_used(); };
  const bool any = std::any_of(
      scenario.strategies.begin(), scenario.strategies.end(), [&](const StrategyEntry& entry) {
        return narrow(entry.low_precision.value_or(scenario.low_precision));
      });
  return any ? 4 : 1;
}

void expect_parts_add_up(const ResultRecord& record, double most) {
  for (const Prediction& p : record.predictions) {
    SCOPED_TRACE(p.strategy + " on " + std::to_string(p.gpus));
    const double step = p.step_seconds;
    ASSERT_TRUE(std::isfinite(step));
    EXPECT_GT(step, 0);
    EXPECT_NEAR(sum(p.split), step, 1e-9 * step);
    for (const auto part : step_parts) EXPECT_GE(p.split.*part, -1e-9 * step);
    EXPECT_LE(p.gpu_utilisation, 1 + 1e-9);
    EXPECT_GT(p.mfu, 0);
    // Winograd's algorithm for 3x3 convolutions, used in fp32, saves up to 9/4 of the
    // multiplications that model FLOPs count.
    EXPECT_LT(p.mfu, p.precision == "fp32" ? 9.0 / 4 : most);
    EXPECT_LT(p.step_interval.low, p.step_seconds);
    EXPECT_GT(p.step_interval.high, p.step_seconds);
    EXPECT_LE(p.memory.allocated, p.memory.reserved);
    EXPECT_LE(p.memory.reserved, p.memory.device);
    EXPECT_NEAR(p.provenance.measured + p.provenance.interpolated + p.provenance.modelled, 1, 1e-9);
    EXPECT_FALSE(p.bottleneck.empty());
    for (const auto& t : p.traffic) EXPECT_LE(t.busy, 1 + 1e-9) << t.link_class;
  }
}

// The parts of the prediction must add up, and a figure that changes must be noticed: write the
// golden file anew with LOCKSTEP_WRITE_GOLDEN=1 and read the difference.
TEST_P(ShippedScenario, PredictsWhatIsWrittenDownInJsonAsItsSchemaSays) {
  Scenario s = read_scenario(GetParam());
  s.simulation.steps = std::min<std::int64_t>(s.simulation.steps, 6);
  const ResultRecord record = run_scenario(s);
  expect_parts_add_up(record, most_mfu(s));
  const auto document = nlohmann::json::parse(render_json(record));
  static const auto schema = nlohmann::json::parse(result_schema());
  EXPECT_FALSE(document["predictions"].empty());
  EXPECT_EQ(schema_faults(schema, document), "");

  std::vector<Written> found;
  for (const Prediction& p : record.predictions) found.push_back(written_of(p));
  expect_as_written_down("predictions.csv",
                         std::filesystem::relative(GetParam(), data_folder("")).string(), found);
}

// The file as the explorer saves it, without comments and in other lines, has the same meaning.
TEST_P(ShippedScenario, WrittenAnewAsksTheSame) {
  const Node node = Node::parse_file(GetParam());
  EXPECT_EQ(write_scenario(read_scenario_text(document_text(node), GetParam())),
            write_scenario(read_scenario(GetParam())));
}

// Asynchronous workers are chaotic, but their first updates are equal on both engines, so two steps
// are compared. tests/strategies/ps_executors_test.cpp compares statistics over seeds.
TEST_P(ShippedScenario, IsTheSameOnBothEngines) {
  Scenario s = read_scenario(GetParam());
  s.simulation.steps = std::min<std::int64_t>(s.simulation.steps, 4);
  std::vector<Point> points = expand(s);
  const auto simulate_on = [&](Engine engine) {
    for (Point& point : points) point.job.simulation.engine = engine;
    return simulate(points);
  };
  for (Point& point : points) {
    const auto* servers = std::get_if<ParameterServerOptions>(&s.strategies[point.entry].options);
    if (servers != nullptr && servers->consistency != Consistency::sync) {
      point.job.simulation.steps = std::min<std::int64_t>(point.job.simulation.steps, 2);
      point.seeds = 1;
    }
  }
  const auto loop = simulate_on(Engine::loop);
  const auto simgrid = simulate_on(Engine::simgrid);
  ASSERT_EQ(loop.size(), simgrid.size());
  for (std::size_t i = 0; i < loop.size(); ++i) {
    const StrategyResult &a = loop[i], &b = simgrid[i];
    SCOPED_TRACE(i);
    EXPECT_EQ(a.engine, Engine::loop);
    EXPECT_EQ(b.engine, Engine::simgrid);
    const double step = mean(a.step_seconds);
    const bool chaotic = a.worker_steps.has_value();
    EXPECT_NEAR(a.first_step_seconds, b.first_step_seconds, (chaotic ? 1e-6 : 1e-9) * step);
    if (chaotic) continue;
    ASSERT_EQ(a.step_seconds.size(), b.step_seconds.size());
    for (std::size_t k = 0; k < a.step_seconds.size(); ++k) {
      EXPECT_NEAR(a.step_seconds[k], b.step_seconds[k], 1e-9 * step) << k;
    }
    for (const auto part : step_parts) EXPECT_NEAR(a.split.*part, b.split.*part, 1e-9 * step);
    EXPECT_NEAR(a.device_busy, b.device_busy, 1e-9 * step);
    ASSERT_EQ(a.traffic.size(), b.traffic.size());
    for (std::size_t k = 0; k < a.traffic.size(); ++k) {
      EXPECT_NEAR(a.traffic[k].busy, b.traffic[k].busy, 1e-9);
      EXPECT_NEAR(a.traffic[k].bytes, b.traffic[k].bytes, 1e-9 * a.traffic[k].bytes);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(, ShippedScenario, testing::ValuesIn(shipped_scenarios()), test_name);

class ShippedModel : public testing::TestWithParam<std::string> {};

TEST_P(ShippedModel, RunsOnOneGpuAndOnTwo) {
  const auto results =
      simulate(expand(scenario_of("model: " + GetParam() +
                                  "\nbatch: {micro: 1}\ngpus: [1, 2]\n"
                                  "precision: amp-bf16\nsimulation: {steps: 2}\n")));
  for (const auto& r : results) {
    EXPECT_GT(mean(r.step_seconds), 0);
    EXPECT_GT(r.memory.allocated, 0);
  }
}
INSTANTIATE_TEST_SUITE_P(, ShippedModel, testing::ValuesIn(known_models()), test_name);

class ShippedPlatform : public testing::TestWithParam<std::string> {};

TEST_P(ShippedPlatform, RunsASmallModelOnAllOfItsFirstNodes) {
  const Machine machine = load_machine(GetParam());
  const int gpus = machine.gpus_per_node * std::min(2, machine.max_nodes);
  const auto results =
      simulate(expand(scenario_of("platform: " + GetParam() + "\ngpus: " + std::to_string(gpus) +
                                  "\nstrategies: [ddp, fsdp, parameter_server]\n"
                                  "simulation: {steps: 2}\n")));
  for (const auto& r : results) {
    EXPECT_GT(mean(r.step_seconds), 0);
    for (const auto& t : r.traffic) {
      EXPECT_TRUE(gpus > 1 || (t.link_class != "NVLink" && t.link_class != "NIC"));
    }
    EXPECT_TRUE(gpus == 1 || !r.traffic.empty());
  }
}
INSTANTIATE_TEST_SUITE_P(, ShippedPlatform, testing::ValuesIn(known_machines()), test_name);

class ShippedDevice : public testing::TestWithParam<std::string> {};

TEST_P(ShippedDevice, RunsASmallModel) {
  const auto points =
      expand(scenario_of("platform: a100-sxm4-80gb-x1\nsimulation: {steps: 2}\n"), {},
             [](Machine& machine, Framework&) { machine.device = load_device(GetParam()); });
  EXPECT_EQ(points[0].job.machine.device.name, GetParam());
  EXPECT_GT(mean(simulate(points)[0].step_seconds), 0);
}
INSTANTIATE_TEST_SUITE_P(, ShippedDevice, testing::ValuesIn(known_devices()), test_name);

// No YAML file lies where no test reads it. (Clusters are tested in
// tests/cluster/question_test.cpp, measurements of a GPU in acceptance.measured and
// cuda.the_h100s_figures_are_fitted.)
TEST(ShippedFiles, EveryYamlFileIsOneOfThese) {
  namespace fs = std::filesystem;
  std::size_t files = 0;
  for (const char* folder : {"models", "platforms", "scenarios"}) {
    for (const auto& entry : fs::recursive_directory_iterator(data_folder(folder))) {
      const bool measurement = entry.path().string().find("/measurements/") != std::string::npos;
      if (entry.path().extension() == ".yaml" && !measurement) ++files;
    }
  }
  EXPECT_EQ(files, known_models().size() + known_machines().size() + known_devices().size() +
                       shipped_scenarios().size() +
                       files_in(data_folder("scenarios/cluster"), ".yaml").size() +
                       files_in(data_folder("scenarios/alternatives"), ".yaml").size());
}

}  // namespace
}  // namespace lockstep::shipped_files_test
