// Do the repetitions of a machine that changes its speed give the right profile?
#include "cli/layers_digest.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "core/random.hpp"
#include "workload/step.hpp"

namespace lockstep::layers_digest_test {
namespace {

using nlohmann::json;

// The true forward time of layer i is i + 1 ms; backward takes twice as long.
double true_forward(std::size_t layer) {
  return 1e-3 * static_cast<double>(layer + 1);
}

// One repetition. The machine was `plain` times slower during the plain step, and `observed` times
// slower during the observed step.
json repetition(std::size_t layers, double plain, double observed) {
  json sample;
  double forward = 0;
  for (std::size_t i = 0; i < layers; ++i) {
    sample["forward"].push_back(true_forward(i) * observed);
    sample["backward"].push_back(2 * true_forward(i) * observed);
    forward += true_forward(i);
  }
  sample["plain"] = {forward * plain, 2 * forward * plain};
  sample["optimizer"] = 0.1;
  sample["calm"] = true;
  sample["host"] = {0, 0, 0};
  return sample;
}

struct Digested {
  Profile profile;
  Measured line;
  std::size_t layers = 0;
};

Digested digested(
    const std::vector<std::pair<double, double>>& speeds,
    const std::function<void(json& rank)>& change = [](json&) {}) {
  LayersJob job;
  job.model = "lenet5";
  job.step.samples = 4;
  job.optimizer.momentum = 0.9;
  job.optimizer.implementation = OptimizerImplementation::for_loop;  // the default of `calibrate`
  Digested result;
  result.layers = build_step(*load_model(job.model), job.step).layers.size();
  json rank;
  for (const auto& [plain, observed] : speeds) {
    rank["samples"].push_back(repetition(result.layers, plain, observed));
  }
  rank["memory"] = {{"parameters", 1e6}, {"buffers", 2e3},           {"optimizer_state", 3e6},
                    {"peak", 7e6},       {"saved_activations", 4e5}, {"reserved", 8e6},
                    {"kept", 0.0}};
  rank["memory"]["forward_workspace"] = rank["memory"]["backward_workspace"] = json::array();
  change(rank);
  digest(job, {rank}, result.profile, result.line);
  return result;
}

void expect_true_layers(const Digested& result, double factor) {
  const std::vector<ProfileLayer>& layers = result.profile.models.at(0).batches.at(0).layers;
  ASSERT_EQ(layers.size(), result.layers);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    EXPECT_NEAR(layers[i].forward_seconds, factor * true_forward(i), 1e-9) << layers[i].name;
    EXPECT_NEAR(layers[i].backward_seconds.value(), 2 * factor * true_forward(i), 1e-9)
        << layers[i].name;
  }
}

TEST(LayersDigest, AnObserversCostIsShownAndTakenOut) {
  const Digested result = digested({{1, 1.02}, {1, 1.02}, {1, 1.02}});
  EXPECT_NEAR(result.line.layers_over_step, 1.02, 1e-9);
  expect_true_layers(result, 1);
}

// The median of the ratios is right. The ratio of the medians is wrong: the plain steps have 2, the
// observed ones 1.01.
TEST(LayersDigest, AMachineThatChangesItsSpeedIsComparedWithItself) {
  const Digested result =
      digested({{1, 1.01}, {1, 1.01}, {2, 2.02}, {2, 1}, {2, 1}, {3, 3.03}, {2, 2.02}});
  EXPECT_NEAR(result.line.layers_over_step, 1.01, 1e-9);
  expect_true_layers(result, 2);
}

// One layer was interrupted in one repetition, which does not mean that the others were faster.
TEST(LayersDigest, AnInterruptedLayerChangesNothing) {
  const auto interrupt = [](json& rank) { rank["samples"][1]["backward"][0] = 1.0; };
  const Digested result = digested({{1, 1}, {1, 1}, {1, 1}}, interrupt);
  EXPECT_NEAR(result.line.layers_over_step, 1, 1e-9);
  expect_true_layers(result, 1);
}

TEST(LayersDigest, KeepsTheSpreadOfEveryFigureAndTheMemory) {
  const auto uneasy = [](json& rank) {
    json& samples = rank["samples"];
    for (std::size_t i = 0; i < 5; ++i) {
      samples[i]["optimizer"] = 0.1 + 0.01 * static_cast<double>(i);
      samples[i]["forward"][0] = true_forward(0) * (1 + 0.1 * static_cast<double>(i));
    }
  };
  const Digested result = digested({{1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, uneasy);
  const ProfileBatch& batch = result.profile.models.at(0).batches.at(0);
  // The interquartile range is relative to the step, of which the layer is a small part.
  EXPECT_NEAR(batch.layers[0].forward_iqr, 0.2 / 1.2, 0.01);
  EXPECT_LT(batch.layers[1].backward_iqr, 0.01);
  EXPECT_NEAR(result.profile.optimizers.at(0).iqr, 0.02 / 0.12, 1e-9);
  ASSERT_TRUE(batch.memory);
  EXPECT_DOUBLE_EQ(batch.memory->peak, 7e6);
  EXPECT_DOUBLE_EQ(batch.memory->saved_activations, 4e5);
  EXPECT_DOUBLE_EQ(batch.memory->reserved, 8e6);
}

// Only convolutions have workspaces. Memory that came and went during other layers belongs to their
// tensors, which the simulator knows.
TEST(LayersDigest, WorkspacesAreConvolutions) {
  EXPECT_FALSE(digested({{1, 1}}).profile.models.at(0).batches.at(0).layers[0].forward_workspace);
  const Profile profile = digested({{1, 1}}, [](json& rank) {
                            json& memory = rank["memory"];
                            const std::size_t layers = rank["samples"][0]["forward"].size();
                            memory["forward_workspace"] = std::vector<double>(layers, 3e6);
                            memory["backward_workspace"] = std::vector<double>(layers, 4e6);
                          }).profile;
  const ProfileBatch& batch = profile.models.at(0).batches.at(0);
  int convolutions = 0;
  for (const ProfileLayer& layer : batch.layers) {
    EXPECT_EQ(layer.forward_workspace.has_value(), layer.backward_workspace.has_value());
    if (!layer.forward_workspace) continue;
    ++convolutions;
    EXPECT_EQ(*layer.forward_workspace, 3e6);
    EXPECT_EQ(*layer.backward_workspace, 4e6);
  }
  EXPECT_EQ(convolutions, 2);  // LeNet-5 has two convolutions
}

// The machine gets slower and slower, every other step takes longer, and one step is interrupted.
// Comparison with neighbors removes the trend, not the interruption.
TEST(LayersDigest, SingleStepsAreComparedWithTheirNeighbours) {
  std::vector<std::pair<double, double>> speeds;
  for (int i = 0; i < 40; ++i) speeds.emplace_back((1 + 0.01 * i) * (1 + 0.1 * (i % 2)), 1);
  speeds[20].first *= 1.5;
  const auto not_calm = [](json& rank) { rank["samples"][20]["calm"] = false; };
  const ProfileBatch batch = digested(speeds, not_calm).profile.models.at(0).batches.at(0);
  ASSERT_EQ(batch.step_factors.size(), 40u);
  for (std::size_t i = 0; i < 40; ++i) {
    // The first and the last steps have neighbors on one side only.
    const bool at_an_end = i < 8 || i >= 32;
    EXPECT_NEAR(batch.step_factors[i], i == 20 ? 1.5 : 1, at_an_end ? 0.05 : 0.025) << i;
  }
}

// The kept memory depends on the number of library handles, which differs from model to model.
TEST(LayersDigest, WhatIsKeptIsTheMedianOfTheModels) {
  Profile profile;
  for (const double kept : {72e6, 64e6, 108e6}) {
    const Profile one =
        digested({{1, 1}}, [&](json& rank) { rank["memory"]["kept"] = kept; }).profile;
    EXPECT_EQ(one.models.at(0).batches.at(0).memory->kept, kept);
    profile.models.push_back(one.models.at(0));
  }
  summarise_models(profile);
  EXPECT_EQ(profile.allocator.kept_bytes, 72e6);
  profile.models.clear();  // a profile of an earlier format has only the figure of all models
  summarise_models(profile);
  EXPECT_EQ(profile.allocator.kept_bytes, 72e6);
}

TEST(LayersDigest, HostTimeIsByOperatorAndOfGpusOnly) {
  Profile of_cpu = digested({{1, 1}, {1, 1}}).profile;
  summarise_models(of_cpu);
  EXPECT_EQ(of_cpu.host.operator_seconds, 0);
  LayersJob job;
  job.model = "lenet5";
  job.step.samples = 4;
  int forward = 0, backward = 0, parameters = 0;
  for (const Layer& layer : build_step(*load_model(job.model), job.step).layers) {
    for (const Kernel& kernel : layer.forward) forward += kernel.operators;
    for (const Kernel& kernel : layer.backward) backward += kernel.operators;
    parameters += static_cast<int>(layer.parameters.size());
  }
  Profile profile;
  profile.host.launch_seconds = 2e-6;  // measured by another probe
  for (const double seconds : {5e-6, 6e-6, 20e-6}) {
    const Profile one = digested({{1, 1}, {1, 1}, {1, 1}}, [&](json& rank) {
                          for (json& sample : rank["samples"]) {
                            // SGD with momentum: three operators for each parameter.
                            sample["host"] = {seconds * forward, 0.5 * seconds * backward,
                                              0.25 * seconds * 3 * parameters};
                          }
                          // an interrupted repetition
                          rank["samples"][1]["host"] = {1.0, 1.0, 1.0};
                        }).profile;
    EXPECT_NEAR(one.models.at(0).batches.at(0).operator_seconds, seconds, 1e-12);
    profile.models.push_back(one.models.at(0));
  }
  summarise_models(profile);
  EXPECT_NEAR(profile.host.operator_seconds, 6e-6, 1e-12);
  EXPECT_NEAR(profile.host.backward_operator_seconds, 3e-6, 1e-12);
  EXPECT_NEAR(profile.host.update_operator_seconds, 1.5e-6, 1e-12);
  EXPECT_EQ(profile.host.launch_seconds, 2e-6);
}

TEST(StreamsDigest, CopiesOfAGpusOwnProbeStay) {
  json rank;
  rank["copies"] = json::array({{1024, {2e-6, 1e-6, 3e-6}}});
  rank["updates"] = json::array({{1024, {5e-6}}});
  LayersJob job;
  Profile profile;
  profile.copies = {{8192, 9e-6}};
  job.device = "cuda:0";
  digest_streams(job, {rank}, profile);
  ASSERT_EQ(profile.copies.size(), 1u);
  EXPECT_DOUBLE_EQ(profile.copies[0].seconds, 9e-6);
  job.device = "cpu";
  digest_streams(job, {rank}, profile);
  EXPECT_DOUBLE_EQ(profile.copies[0].seconds, 2e-6);
  EXPECT_DOUBLE_EQ(profile.copies[0].iqr, 0.5);
  EXPECT_EQ(profile.optimizers.size(), 1u);
}

TEST(HookDigest, MediansOfAllRanksReplaceTheSameSettings) {
  LayersJob job;
  job.model = "lenet5";
  job.hook = {.hook = CodedHook::top_k, .fraction = 0.1};
  const auto rank = [](double first, double second) {
    json value;
    value["points"] = {{{"bytes", 4096.0}, {"samples", {{first, 1e-3}, {second, 3e-3}}}}};
    return value;
  };
  Profile profile;
  profile.hooks.push_back({*job.hook, "resnet18", {{1, {1, 1}}}});
  profile.hooks.push_back({{.hook = CodedHook::powersgd, .rank = 4}, "resnet18", {}});
  digest_hook(job, {rank(1e-3, 2e-3), rank(2e-3, 9e-3)}, profile);
  ASSERT_EQ(profile.hooks.size(), 2u);
  EXPECT_EQ(profile.hooks[0].settings.hook, CodedHook::powersgd);
  EXPECT_EQ(profile.hooks[1].model, "lenet5");
  ASSERT_EQ(profile.hooks[1].points.size(), 1u);
  EXPECT_EQ(profile.hooks[1].points[0].bytes, 4096);
  EXPECT_EQ(profile.hooks[1].points[0].seconds, (std::vector<double>{2e-3, 2e-3}));
}

// The jitter that the profile has after `repetitions` repetitions, of which repetition i was slowed
// down by `speed(i)`.
double sigma_of(int repetitions, const std::function<double(int)>& speed) {
  std::vector<std::pair<double, double>> speeds;
  for (int i = 0; i < repetitions; ++i) speeds.emplace_back(speed(i), 1);
  const Digested result = digested(speeds);
  EXPECT_DOUBLE_EQ(result.line.step_sigma, result.profile.models.at(0).batches.at(0).step_sigma);
  return result.line.step_sigma;
}

double draw(int i) {
  return lognormal_draw({1, 0, static_cast<std::uint32_t>(i), 0}, 0.1);
}

TEST(LayersDigest, SigmaIsThatOfIndependentSteps) {
  // the error of a standard deviation of 400 draws is 0.006
  EXPECT_NEAR(sigma_of(400, draw), 0.1, 0.01);
  EXPECT_DOUBLE_EQ(sigma_of(2, draw), 0);  // too few repetitions
}

TEST(LayersDigest, WhatDriftsOrTakesTurnsIsNoJitter) {
  EXPECT_LT(sigma_of(100, [](int i) { return 1 + 0.01 * i; }), 0.02);
  EXPECT_NEAR(sigma_of(100, [](int i) { return i % 2 == 0 ? 1 : 1.2; }), 0, 1e-12);
  const auto drifting = [](int i) { return draw(i) * (i < 200 ? 1 : 2) * (1 + 0.001 * i); };
  EXPECT_NEAR(sigma_of(400, drifting), 0.1, 0.01);
}

TEST(LayersDigest, FewInterruptionsAreNoJitter) {
  const auto interrupted = [](int i) { return draw(i) * (i % 20 == 7 ? 30 : 1); };
  EXPECT_NEAR(sigma_of(400, interrupted), 0.1, 0.02);
}

}  // namespace
}  // namespace lockstep::layers_digest_test
