// Is every stretch of a measured step attributed to the layer to which it belongs?
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "launch/machine_state.hpp"
#include "launch/processes.hpp"
#include "probes/layers.hpp"
#include "workload/model.hpp"

namespace lockstep::layer_probe_test {
namespace {

LayerProbeResult probe(const TrainingStep& step, std::size_t repetitions) {
  LayerProbeOptions options;
  options.enough = [&](const auto& samples) { return samples.size() >= repetitions; };
  return probe_layers(step, options);
}

TrainingStep step_of(const std::string& model, std::int64_t samples,
                     const std::vector<std::int64_t>& image) {
  StepOptions options;
  options.samples = samples;
  options.image = image;
  return build_step(*load_model(model), options);
}

class ResidualNetworks : public testing::TestWithParam<const char*> {};

TEST_P(ResidualNetworks, EveryLayerWithParametersHasABackward) {
  const TrainingStep step = step_of(GetParam(), 2, {3, 64, 64});
  const LayerProbeResult result = probe(step, 1);
  const LayerSamples& sample = result.samples.front();
  for (std::size_t i = 0; i < step.layers.size(); ++i) {
    EXPECT_GT(sample.forward[i], 0) << step.layers[i].name;
    if (!step.layers[i].parameters.empty()) {
      EXPECT_GT(sample.backward[i], 0) << step.layers[i].name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ResidualNetworks, testing::Values("resnet18", "densenet121"));

// The probe pauses before each step, as a rank that waits for messages does. The pause is in none
// of its figures.
TEST(LayerProbe, PausesBeforeEachStep) {
  constexpr double pause = 0.05;
  LayerProbeOptions options;
  options.pause_seconds = pause;
  options.enough = [](const auto& samples) { return samples.size() >= 4; };
  const auto begin = std::chrono::steady_clock::now();
  const LayerProbeResult result = probe_layers(step_of("lenet5", 2, {}), options);
  const std::chrono::duration<double> all = std::chrono::steady_clock::now() - begin;
  double times = 0;
  for (const LayerSamples& sample : result.samples) {
    times += sample.plain_forward + sample.plain_backward;
    for (const double layer : sample.forward) times += layer;
    for (const double layer : sample.backward) times += layer;
    EXPECT_GE(sample.paused, 2 * pause);
  }
  EXPECT_LT(times, all.count() - 8 * pause);
}

// In a pause the probe reads 192 MiB, which takes any processor at least 5 ms, before each step of
// a millisecond or two. The network's own memory must not change.
TEST(LayerProbe, OthersMemoryGoesThroughTheCachesInPauses) {
  LayerProbeResult result;
  const auto cpu_seconds = [&](double pause, std::size_t repetitions) {
    LayerProbeOptions options;
    options.pause_seconds = pause;
    options.enough = [&](const auto& samples) { return samples.size() >= repetitions; };
    const CpuClocks before = read_cpu_clocks();
    result = probe_layers(step_of("lenet5", 2, {}), options);
    return read_cpu_clocks().own_seconds - before.own_seconds;
  };
  const double few = cpu_seconds(1e-3, 4);
  EXPECT_GT(cpu_seconds(1e-3, 12), few + 16 * 5e-3);
  EXPECT_GT(result.samples.front().paused, 2 * 5e-3);  // the reading takes longer than the pause
  const double peak = result.memory.peak;
  cpu_seconds(0, 4);
  EXPECT_EQ(result.samples.front().paused, 0);
  EXPECT_EQ(result.memory.peak, peak);
}

// One layer of a network with branches is heavy, and its time must be found at that layer. Backward
// runs a shortcut before or after the body beside it in the file.
class HeavyLayer : public testing::TestWithParam<const char*> {};

TEST_P(HeavyLayer, IsFoundWhereItIs) {
  const RunFolder folder;
  const auto out = [](const std::string& name) {
    return name == GetParam() ? std::string("1") : std::string("0");
  };
  // A kernel of 7 x 7 with 64 x 64 channels has 49 times the work of a kernel of 1 x 1.
  const auto conv = [&](const std::string& name) {
    const bool heavy = out(name) == "1";
    return "conv: {out: 64, kernel: " + std::string(heavy ? "7, padding: 3" : "1") + "}\n";
  };
  const std::string file = folder.file("branches.yaml");
  std::ofstream(file) << "title: branches\ninput: {image: [64, 24, 24], classes: 10}\nlayers:\n"
                      << "  - " << conv("first") << "    name: first\n"
                      << "  - residual:\n      layers:\n"
                      << "        - " << conv("body1") << "          name: body1\n"
                      << "        - relu\n"
                      << "        - " << conv("body2") << "          name: body2\n"
                      << "      shortcut:\n"
                      << "        - " << conv("short") << "          name: short\n"
                      << "  - " << conv("last") << "    name: last\n"
                      << "  - adaptive_avg_pool: 1\n  - flatten\n"
                      << "  - linear: classes\n    name: fc\n  - cross_entropy\n";
  StepOptions options;
  options.samples = 8;
  const TrainingStep step = build_step(*load_model(file), options);
  const LayerProbeResult result = probe(step, 5);
  // The fastest repetition of each layer counts, because other programs interrupt some repetitions.
  const auto heaviest = [&](std::vector<double> LayerSamples::*pass) {
    std::vector<double> least = result.samples.front().*pass;
    for (const LayerSamples& sample : result.samples) {
      for (std::size_t i = 0; i < least.size(); ++i) {
        least[i] = std::min(least[i], (sample.*pass)[i]);
      }
    }
    return step
        .layers[static_cast<std::size_t>(std::max_element(least.begin(), least.end()) -
                                         least.begin())]
        .name;
  };
  EXPECT_EQ(heaviest(&LayerSamples::forward), GetParam());
  EXPECT_EQ(heaviest(&LayerSamples::backward), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Places, HeavyLayer,
                         testing::Values("first", "body1", "body2", "short", "last"));

TEST(LayerProbe, MeasuresMemoryBesideTime) {
  const TrainingStep step = step_of("lenet5", 16, {});
  const MeasuredMemory memory = probe(step, 1).memory;
  EXPECT_EQ(memory.parameters, 4.0 * static_cast<double>(step.parameter_count));
  EXPECT_EQ(memory.batch, 16 * (28 * 28 * 4 + 8));
  EXPECT_GT(memory.after_forward, 16 * 6 * 28 * 28 * 4);
  EXPECT_GT(memory.peak, memory.parameters + memory.after_forward);
}

}  // namespace
}  // namespace lockstep::layer_probe_test
