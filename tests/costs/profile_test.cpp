// Does a profile survive writing and reading, and does each answer come from where it says?
#include "costs/profile.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "core/errors.hpp"
#include "costs/collective_curve.hpp"
#include "costs/roofline_costs.hpp"
#include "kernel_test_device.hpp"
#include "source_dir.hpp"
#include "test_folder.hpp"

namespace lockstep::profile_test {
namespace {

const std::string path = LOCKSTEP_SOURCE_DIR "/tests/costs/data/profile_small.yaml";

TrainingStep two_layers(std::int64_t samples) {
  TrainingStep step;
  step.model = "two_layers";
  step.precision = Precision::amp_fp16;
  step.samples = samples;
  step.input_bytes = 1000.0 * samples;
  Kernel kernel;
  kernel.bytes_read = kernel.bytes_written = 1e6 * samples;
  for (const char* name : {"first", "second"}) {
    Layer layer;
    layer.name = name;
    layer.forward = {kernel};
    layer.backward = {kernel, kernel};
    step.layers.push_back(layer);
  }
  return step;
}

struct Served {
  std::shared_ptr<const ComputeCosts> fallback;
  std::unique_ptr<ComputeCosts> costs;
};
Served served() {
  Machine machine;
  machine.device = round_device();
  const auto fallback = std::make_shared<RooflineCosts>(machine);
  return {fallback, profile_costs(std::make_shared<Profile>(load_profile(path)), fallback)};
}

TEST(Profile, TextReadsBackEqual) {
  const Profile profile = load_profile(path);
  const std::string text = profile_text(profile);
  const Profile again = parse_profile(Node::parse_text(text, "again.yaml"));
  EXPECT_EQ(profile_text(again), text);
  EXPECT_EQ(again.device, "a100-sxm4-80gb");
  ASSERT_EQ(again.models.size(), 1u);
  ASSERT_EQ(again.models[0].batches.size(), 3u);
  EXPECT_DOUBLE_EQ(again.models[0].batches[1].layers[0].backward_seconds.value(), 700e-6);
  ASSERT_EQ(again.collectives.size(), 1u);
  EXPECT_DOUBLE_EQ(again.collectives[0].points[1].bytes, 32 * 1024.0 * 1024.0);
  EXPECT_DOUBLE_EQ(again.host.operator_seconds, 6e-6);
  EXPECT_DOUBLE_EQ(again.models[0].batches[0].layers[0].backward_iqr, 0.03);
  ASSERT_TRUE(again.models[0].batches[0].memory);
  EXPECT_DOUBLE_EQ(again.models[0].batches[0].memory->peak, 900e6);
  EXPECT_FALSE(again.models[0].batches[1].memory);
  EXPECT_DOUBLE_EQ(again.copies[0].iqr, 0.05);
}

TEST(Profile, JitterIsThatOfTheStepThatWasMeasured) {
  Profile profile = load_profile(path);
  profile.models[0].batches[1].step_sigma = 0.07;
  const Profile again = parse_profile(Node::parse_text(profile_text(profile), "again.yaml"));
  EXPECT_DOUBLE_EQ(measured_step_sigma(again, two_layers(32)), 0.07);
  EXPECT_DOUBLE_EQ(measured_step_sigma(again, two_layers(8)), 0);
  EXPECT_DOUBLE_EQ(measured_step_sigma(again, two_layers(16)), 0);
  TrainingStep other = two_layers(32);
  other.precision = Precision::fp32;
  EXPECT_DOUBLE_EQ(measured_step_sigma(again, other), 0);
}

TEST(Profile, IsReadAgainOnlyWhereItsFileHasChanged) {
  namespace fs = std::filesystem;
  const fs::path folder = test_folder().file("profile");
  const auto write = [&](const Profile& profile) {
    test_folder().write("profile/profile.yaml", profile_text(profile));
  };
  Profile profile = load_profile(path);
  write(profile);
  const auto first = shared_profile(folder.string());
  EXPECT_EQ(profile_text(*first), profile_text(profile));
  EXPECT_EQ(shared_profile((folder / "profile.yaml").string()), first);  // the same object
  EXPECT_EQ(shared_profile((folder / ".." / folder.filename()).string()), first);
  EXPECT_NE(shared_profile(path), first);
  profile.host.operator_seconds = 12.5e-6;
  write(profile);
  EXPECT_EQ(shared_profile(folder.string())->host.operator_seconds, 12.5e-6);
  std::ofstream(folder / "profile.yaml") << "format: 1\nnonsense: 3\n";
  EXPECT_THROW(shared_profile(folder.string()), ConfigError);
  EXPECT_THROW(shared_profile(folder.string()), ConfigError);
  fs::remove_all(folder);
  EXPECT_THROW(shared_profile(folder.string()), ConfigError);
  EXPECT_EQ(first->host.operator_seconds, 6e-6);  // an object handed out earlier stays unchanged
}

TEST(Profile, NoiseOfABusyMachineIsKeptAsItWas) {
  Profile profile = load_profile(path);
  profile.noise.relative_spread = 15.25;
  const Profile again = parse_profile(Node::parse_text(profile_text(profile), "again.yaml"));
  EXPECT_DOUBLE_EQ(again.noise.relative_spread, 15.25);
}

TEST(Profile, FolderStandsForTheProfileInIt) {
  const std::filesystem::path folder = test_folder().path();
  try {
    load_profile(folder.string());
    ADD_FAILURE() << "an empty folder was read";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr((folder / "profile.yaml").string()));
  }
  std::filesystem::copy_file(path, folder / "profile.yaml");
  EXPECT_EQ(profile_text(load_profile(folder.string())), profile_text(load_profile(path)));
}

TEST(Profile, MeasuredBatchIsServedAsMeasured) {
  const Served s = served();
  const LayerCost cost = s.costs->layer(two_layers(8), 1);
  EXPECT_EQ(cost.forward.provenance, Provenance::measured);
  EXPECT_DOUBLE_EQ(cost.forward.busy, 40e-6);
  EXPECT_DOUBLE_EQ(cost.backward.busy, 90e-6);
  EXPECT_DOUBLE_EQ(cost.forward.host, 6e-6);
  EXPECT_DOUBLE_EQ(cost.backward.host, 8e-6);
}

TEST(Profile, ABackwardPassThatWasNotMeasuredStaysModelled) {
  const auto profile = std::make_shared<Profile>(load_profile(path));
  for (ProfileLayer& layer : profile->models[0].batches[0].layers) layer.backward_seconds.reset();
  const Profile again = parse_profile(Node::parse_text(profile_text(*profile), "again.yaml"));
  EXPECT_FALSE(again.models[0].batches[0].layers[0].backward_seconds);
  const Served s = served();
  const auto costs = profile_costs(profile, s.fallback);
  for (const bool checkpointed : {false, true}) {
    // 20 lies between batches, of which one has a backward time
    for (const std::int64_t samples : {8, 20}) {
      TrainingStep step = two_layers(samples);
      step.layers[0].checkpointed = checkpointed;
      const LayerCost cost = costs->layer(step, 0);
      const LayerCost modelled = s.fallback->layer(step, 0);
      EXPECT_DOUBLE_EQ(cost.forward.busy, s.costs->layer(step, 0).forward.busy);
      EXPECT_NE(cost.forward.provenance, Provenance::modelled);
      EXPECT_DOUBLE_EQ(cost.backward.busy, modelled.backward.busy);
      EXPECT_DOUBLE_EQ(cost.backward.host, modelled.backward.host);
      EXPECT_EQ(cost.backward.provenance, Provenance::modelled);
    }
  }
}

TEST(Profile, BatchBetweenTwoNearOnesIsInterpolated) {
  const Served s = served();
  const LayerCost cost = s.costs->layer(two_layers(20), 0);
  EXPECT_EQ(cost.forward.provenance, Provenance::interpolated);
  EXPECT_NEAR(cost.forward.busy, 220e-6, 1e-12);
  EXPECT_NEAR(cost.backward.busy, 450e-6, 1e-12);
}

TEST(Profile, NothingIsGuessedAcrossAnOrderOfMagnitudeOrBeyondTheEnds) {
  const Served s = served();
  for (const std::int64_t samples : {4, 100, 4096}) {
    const TrainingStep step = two_layers(samples);
    const LayerCost cost = s.costs->layer(step, 0);
    EXPECT_EQ(cost.forward.provenance, Provenance::modelled) << samples;
    EXPECT_DOUBLE_EQ(cost.forward.busy, s.fallback->layer(step, 0).forward.busy);
  }
}

TEST(Profile, NeighboursAreTheMeasuredBatchesBesideAModelledOne) {
  const Profile profile = load_profile(path);
  const auto beside = [&](std::int64_t samples) {
    return neighbouring_batches(profile, two_layers(samples));
  };
  EXPECT_THAT(beside(4), testing::ElementsAre(8));
  EXPECT_THAT(beside(100), testing::ElementsAre(32, 1024));
  EXPECT_THAT(beside(4096), testing::ElementsAre(1024));
  EXPECT_THAT(beside(8), testing::IsEmpty());   // measured
  EXPECT_THAT(beside(20), testing::IsEmpty());  // interpolated
  TrainingStep other = two_layers(4);
  other.model = "other";
  EXPECT_THAT(neighbouring_batches(profile, other), testing::IsEmpty());
}

// Between measured batches that are far apart, the modelled time is multiplied by the batches'
// measured-to-modelled ratios. A ratio counts fully at its own batch and not at all an order of
// magnitude away; where two batches are near, their mean counts.
TEST(Profile, AnotherBatchIsModelledAndScaledByItsNeighbours) {
  const Served s = served();
  const auto profile = std::make_shared<Profile>(load_profile(path));
  const auto beside = [&](const TrainingStep& step) {
    std::vector<TrainingStep> neighbours;
    for (const std::int64_t samples : neighbouring_batches(*profile, step)) {
      neighbours.push_back(two_layers(samples));
      neighbours.back().layers[1].checkpointed = step.layers[1].checkpointed;
    }
    return profile_costs(profile, s.fallback, std::move(neighbours));
  };
  const auto off = [&](std::int64_t samples, double measured) {
    return measured / s.fallback->layer(two_layers(samples), 1).backward.busy;
  };
  const auto power = [](double from, double to) { return 1 - std::pow(std::log10(to / from), 4); };
  const auto factor = [&](std::int64_t samples) {
    return beside(two_layers(samples))->layer(two_layers(samples), 1).backward.busy /
           s.fallback->layer(two_layers(samples), 1).backward.busy;
  };
  EXPECT_NEAR(factor(4), std::pow(off(8, 90e-6), power(8, 4)), 1e-9);
  EXPECT_NEAR(factor(4096), std::pow(off(1024, 7e-3), power(1024, 4096)), 1e-9);
  const double both = power(32, 200) + power(1024, 200);
  ASSERT_GT(both, 1);
  EXPECT_NEAR(factor(200),
              std::pow(off(32, 240e-6), power(32, 200) / both) *
                  std::pow(off(1024, 7e-3), power(1024, 200) / both),
              1e-9);
  EXPECT_NEAR(factor(1025), off(1024, 7e-3), 2e-3);
  EXPECT_DOUBLE_EQ(factor(10240), 1);
  EXPECT_DOUBLE_EQ(factor(100000), 1);

  TrainingStep step = two_layers(4);
  const LayerCost cost = beside(step)->layer(step, 1);
  EXPECT_EQ(cost.backward.provenance, Provenance::modelled);
  EXPECT_DOUBLE_EQ(cost.forward.host, 6e-6);  // the profile's, as for measured batches
  step.layers[1].checkpointed = true;
  EXPECT_NEAR(beside(step)->layer(step, 1).backward.busy, cost.forward.busy + cost.backward.busy,
              1e-12);
  step.layers[0].name = "unknown";
  EXPECT_DOUBLE_EQ(beside(step)->layer(step, 0).forward.busy,
                   s.fallback->layer(step, 0).forward.busy);
}

TEST(Profile, OtherModelPrecisionOrInputIsModelled) {
  const Served s = served();
  TrainingStep step = two_layers(8);
  step.precision = Precision::fp32;
  EXPECT_EQ(s.costs->layer(step, 0).forward.provenance, Provenance::modelled);
  step = two_layers(8);
  step.input_bytes *= 2;
  EXPECT_EQ(s.costs->layer(step, 0).forward.provenance, Provenance::modelled);
  step = two_layers(8);
  step.layers[0].name = "unknown";
  EXPECT_EQ(s.costs->layer(step, 0).forward.provenance, Provenance::modelled);
  EXPECT_EQ(s.costs->layer(step, 1).forward.provenance, Provenance::measured);
}

TEST(Profile, CheckpointedLayerRunsItsForwardAgain) {
  const Served s = served();
  TrainingStep step = two_layers(8);
  step.layers[0].checkpointed = true;
  EXPECT_DOUBLE_EQ(s.costs->layer(step, 0).backward.busy, 300e-6);
}

// An operator's own cost includes its first kernel's launch; each further kernel costs one launch.
TEST(Profile, TheHostLaunchesEveryKernelOfALayer) {
  const Served s = served();
  Profile profile = load_profile(path);
  profile.host.operator_seconds = 5e-6;
  profile.host.launch_seconds = 2e-6;
  profile.models[0].batches[0].operator_seconds = 0;
  const auto costs = profile_costs(std::make_shared<Profile>(profile), s.fallback);
  TrainingStep step = two_layers(profile.models[0].batches[0].samples);
  EXPECT_NEAR(costs->layer(step, 0).forward.host, 5e-6, 1e-12);
  step.layers[0].forward[0].launches = 3;
  step.layers[0].forward.push_back(step.layers[0].forward[0]);
  EXPECT_NEAR(costs->layer(step, 0).forward.host, 2 * 5e-6 + 4 * 2e-6, 1e-12);
}

TEST(Profile, ABatchThatKnowsItsHostTimeDoesNotTakeTheDevices) {
  const Served s = served();
  Profile profile = load_profile(path);
  const auto host = [&] {
    return profile_costs(std::make_shared<Profile>(profile), s.fallback)
        ->layer(two_layers(8), 0)
        .forward.host;
  };
  const double of_all = host();
  profile.models[0].batches[0].operator_seconds = 3 * profile.host.operator_seconds;
  EXPECT_NEAR(host() - of_all, 2 * profile.host.operator_seconds, 1e-12);  // one operator
  // The measured time of an operator includes all its launches.
  TrainingStep step = two_layers(8);
  step.layers[0].forward[0].launches = 5;
  const auto costs = profile_costs(std::make_shared<Profile>(profile), s.fallback);
  EXPECT_NEAR(costs->layer(step, 0).forward.host, 3 * profile.host.operator_seconds, 1e-12);
}

// An update in a loop takes the sum of its tensors' times. A measured update takes its measured
// time.
TEST(Profile, AnUpdateInALoopIsTheSumOfItsTensors) {
  const Served s = served();
  Profile profile;
  const OptimizerSpec sgd{.momentum = 0.9, .implementation = OptimizerImplementation::for_loop};
  const auto entry = [&](double elements, int tensors, double seconds) {
    profile.optimizers.push_back({.name = OptimizerKind::sgd,
                                  .implementation = OptimizerImplementation::for_loop,
                                  .momentum = true,
                                  .elements = elements,
                                  .tensors = tensors,
                                  .seconds = seconds});
  };
  // a network of many small tensors among single large ones; the order of entries must not matter
  entry(8e6, 364, 9e-3);
  entry(16e6, 1, 4e-3);
  entry(4e6, 1, 1e-3);
  const auto costs = profile_costs(std::make_shared<Profile>(profile), s.fallback);
  const auto update = [&](double elements, int tensors) {
    return costs->optimizer(sgd, Precision::fp32, elements, tensors);
  };
  EXPECT_DOUBLE_EQ(update(8e6, 364).busy, 9e-3);
  EXPECT_EQ(update(8e6, 364).provenance, Provenance::measured);
  EXPECT_NEAR(update(8e6, 1).busy, 2e-3, 1e-12);
  EXPECT_EQ(update(8e6, 1).provenance, Provenance::interpolated);
  EXPECT_NEAR(update(48e6, 3).busy, 12e-3, 1e-12);
  EXPECT_EQ(update(48e6, 3).provenance, Provenance::interpolated);
  EXPECT_EQ(update(1e12, 1).provenance, Provenance::modelled);
}

// A measured update includes the host's time, unless the profile states the host's time separately.
TEST(Profile, AMeasuredUpdateCostsTheHostWhatTheProfileSays) {
  const Served s = served();
  Profile profile;
  profile.optimizers.push_back({.name = OptimizerKind::sgd,
                                .implementation = OptimizerImplementation::for_loop,
                                .elements = 1e6,
                                .tensors = 100,
                                .seconds = 1e-4});
  const OptimizerSpec sgd{.implementation = OptimizerImplementation::for_loop};
  const auto update = [&] {
    return profile_costs(std::make_shared<Profile>(profile), s.fallback)
        ->optimizer(sgd, Precision::fp32, 1e6, 100);
  };
  EXPECT_EQ(update().host, 0);
  EXPECT_DOUBLE_EQ(update().span, 1e-4);
  profile.host.operator_seconds = 5e-6;
  EXPECT_NEAR(update().host, 5e-6 * optimizer_traffic(sgd, Precision::fp32, 1e6, 100).operators,
              1e-12);
  EXPECT_DOUBLE_EQ(update().busy, 1e-4);
  EXPECT_GT(update().span, update().host);
  // The operators of an update in a loop run outside of modules and autograd, and their host time
  // is measured separately.
  profile.host.update_operator_seconds = 2e-6;
  EXPECT_NEAR(update().host, 2e-6 * optimizer_traffic(sgd, Precision::fp32, 1e6, 100).operators,
              1e-12);
}

TEST(Profile, OptimizerAndCopiesInterpolateToo) {
  const Served s = served();
  OptimizerSpec sgd;
  sgd.momentum = 0.9;
  sgd.implementation = OptimizerImplementation::fused;
  EXPECT_NEAR(s.costs->optimizer(sgd, Precision::amp_fp16, 3e6, 8).busy, 60e-6, 1e-12);
  EXPECT_DOUBLE_EQ(s.costs->optimizer(sgd, Precision::amp_fp16, 3e7, 8).busy,
                   s.fallback->optimizer(sgd, Precision::amp_fp16, 3e7, 8).busy);
  EXPECT_NEAR(s.costs->stream(3 * 8 * 1024.0 * 1024.0, 3).busy, 33e-6, 1e-12);
  const auto update = [&](double elements) {
    return s.costs->optimizer(sgd, Precision::amp_fp16, elements, 8).provenance;
  };
  EXPECT_EQ(update(1e6), Provenance::measured);
  EXPECT_EQ(update(3e6), Provenance::interpolated);
  EXPECT_EQ(update(3e7), Provenance::modelled);
  EXPECT_EQ(s.costs->stream(3 * 8 * 1024.0 * 1024.0, 3).provenance, Provenance::measured);
  EXPECT_EQ(s.costs->stream(4 * 1024.0 * 1024.0, 1).provenance, Provenance::interpolated);
  EXPECT_EQ(s.costs->stream(1e12, 1).provenance, Provenance::modelled);
}

Profile with_hooks(const std::string& hooks) {
  return parse_profile(Node::parse_text(
      "format: 1\ndevice: cpu-core\nhooks:\n" + hooks + "complete: true\n", "hooks.yaml"));
}

TEST(Profile, WorkOfHooksIsServedBySize) {
  const auto profile = std::make_shared<Profile>(with_hooks(R"(
  - {hook: top-k, fraction: 1%, ranks: 2, points: [{bytes: 1 MB, stages: [3 ms, 1 ms]}, {bytes: 3 MB, stages: [9 ms, 2 ms]}]}
  - {hook: powersgd, rank: 4, ranks: 2, points: [{bytes: 1 MB, stages: [1 ms, 2 ms, 3 ms, 4 ms]}]}
)"));
  EXPECT_EQ(profile_text(parse_profile(Node::parse_text(profile_text(*profile), "again.yaml"))),
            profile_text(*profile));
  const Served s = served();
  const auto costs = profile_costs(profile, s.fallback);
  const HookSettings top_k{.fraction = 0.01};
  const std::vector<QueuedWork> there = costs->hook_stages(top_k, 1e6);
  ASSERT_EQ(there.size(), 2u);
  EXPECT_EQ(there[0].busy, 3e-3);
  EXPECT_EQ(there[0].span, 3e-3);
  EXPECT_EQ(there[1].provenance, Provenance::measured);
  const std::vector<QueuedWork> between = costs->hook_stages(top_k, 2e6);
  EXPECT_NEAR(between.at(0).busy, 6e-3, 1e-12);
  EXPECT_EQ(between.at(1).provenance, Provenance::interpolated);
  EXPECT_TRUE(costs->hook_stages(top_k, 4e6).empty());
  EXPECT_TRUE(costs->hook_stages({.fraction = 0.02}, 1e6).empty());
  EXPECT_TRUE(costs->hook_stages({.fraction = 0.01, .ranks = 3}, 1e6).empty());
  EXPECT_EQ(costs->hook_stages({.hook = CodedHook::powersgd, .rank = 4}, 1e6).size(), 4u);
  EXPECT_TRUE(s.fallback->hook_stages(top_k, 1e6).empty());
}

TEST(Profile, WorkOfHooksThatCannotBeIsRefusedInItsPlace) {
  const auto error = [](const std::string& hook) -> std::string {
    try {
      with_hooks("  - {" + hook + "}\n");
    } catch (const ConfigError& refused) {
      return refused.what();
    }
    return "";
  };
  EXPECT_THAT(error("hook: top-k, ranks: 2, points: [{bytes: 1 MB, stages: [1 s]}]"),
              testing::HasSubstr("hooks[0].points[0].stages: top-k has 2 stages, not 1"));
  EXPECT_THAT(error("hook: sign, ranks: 2, points: [{bytes: 1 MB, stages: [1 s]}]"),
              testing::HasSubstr("hook"));
  EXPECT_THAT(error("hook: top-k, ranks: 1, points: [{bytes: 1 MB, stages: [1 s, 1 s]}]"),
              testing::HasSubstr("ranks"));
  EXPECT_THAT(error("hook: top-k, ranks: 2, points: [{bytes: 2 B, stages: [1 s, 1 s]}, {bytes: 1 "
                    "B, stages: [1 s, 1 s]}]"),
              testing::HasSubstr("ascending"));
}

TEST(QueuedWork, IsAsCertainAsItsLeastCertainPart) {
  const QueuedWork measured{0, 1, 1, Provenance::measured}, modelled{0, 1, 1}, nothing;
  EXPECT_EQ(append(measured, modelled).provenance, Provenance::modelled);
  EXPECT_EQ(append(measured, measured).provenance, Provenance::measured);
  EXPECT_EQ(append(nothing, measured).provenance, Provenance::measured);
  EXPECT_EQ(append(measured, nothing).provenance, Provenance::measured);
}

TEST(Profile, ItsCurvesAndAllocatorFactsReplaceThoseOfTheMachine) {
  const Profile profile = parse_profile(Node::parse_text(R"(
format: 1
device: cpu-core
allocator: {context: 180 MiB}
collectives:
  - {collective: all_reduce, backend: gloo, ranks: 2, points: [{bytes: 4 MiB, time: 5 ms, host: 4 ms, compute_speed: 0.5, speed_beside_compute: 0.4}]}
  - {collective: send_recv, backend: gloo, ranks: 2, nodes: 2, points: [{bytes: 4 MiB, time: 9 ms, sender: 8 ms, one_core: 12 ms}]}
complete: true
)",
                                                         "cpu.yaml"));
  EXPECT_EQ(profile_text(parse_profile(Node::parse_text(profile_text(profile), "again.yaml"))),
            profile_text(profile));
  EXPECT_DOUBLE_EQ(profile.collectives[0].points[0].host_seconds, 4e-3);
  Machine machine;
  machine.device.context_bytes = 1;
  machine.device.matmul_workspace_bytes = 2;
  machine.collectives.push_back({.collective = "all_reduce",
                                 .ranks = 2,
                                 .nodes = 1,
                                 .bytes = {1},
                                 .seconds = {1},
                                 .source = "the machine's own"});
  apply_profile(profile, machine);
  EXPECT_DOUBLE_EQ(machine.device.context_bytes, 180 * 1024.0 * 1024.0);
  EXPECT_DOUBLE_EQ(machine.device.matmul_workspace_bytes, 2);  // the profile does not state it
  EXPECT_DOUBLE_EQ(machine.device.kept_workspace_bytes, 0);    // nor does it state this
  Profile keeps = profile;
  keeps.allocator.kept_bytes = 64e6;
  apply_profile(keeps, machine);
  EXPECT_DOUBLE_EQ(machine.device.kept_workspace_bytes, 64e6);
  const CollectiveCurve* curve = find_curve(machine, "all_reduce", 2, 1);
  ASSERT_NE(curve, nullptr);
  EXPECT_DOUBLE_EQ(curve_seconds(*curve, 4 * 1024.0 * 1024.0).seconds, 5e-3);
  const CollectiveCurve* messages = find_curve(machine, "send_recv", 2, 2);
  ASSERT_NE(messages, nullptr);
  EXPECT_EQ(messages->sender_seconds, std::vector{8e-3});
  EXPECT_EQ(messages->one_core_seconds, std::vector{12e-3});
  EXPECT_TRUE(curve->one_core_seconds.empty());
  EXPECT_DOUBLE_EQ(curve_seconds(*curve, 4 * 1024.0 * 1024.0).cores, 0.8);
  EXPECT_DOUBLE_EQ(curve_seconds(*curve, 4 * 1024.0 * 1024.0).compute_speed, 0.5);
  EXPECT_DOUBLE_EQ(curve_seconds(*curve, 4 * 1024.0 * 1024.0).speed_beside_compute, 0.4);
  ASSERT_NE(find_curve(machine, "send_recv", 2, 2), nullptr);
  EXPECT_TRUE(find_curve(machine, "send_recv", 2, 2)->host_seconds.empty());
  EXPECT_TRUE(find_curve(machine, "send_recv", 2, 2)->compute_speed.empty());
  EXPECT_EQ(find_curve(machine, "send_recv", 2, 1), nullptr);
}

// On a CPU one thread dispatches and computes, so measured times include dispatch.
TEST(Profile, WithoutAHostBlockTimesIncludeDispatch) {
  Machine machine;
  machine.device = round_device();
  machine.device.architecture = Architecture::cpu;
  const auto fallback = std::make_shared<RooflineCosts>(machine);
  const auto profile = std::make_shared<Profile>(load_profile(path));
  profile->host = {};
  const auto costs = profile_costs(profile, fallback);
  const OptimizerSpec sgd{.momentum = 0.9, .implementation = OptimizerImplementation::fused};
  for (const QueuedWork& work :
       {costs->layer(two_layers(8), 1).forward, costs->layer(two_layers(8), 1).backward,
        costs->optimizer(sgd, Precision::amp_fp16, 3e6, 8),
        costs->stream(3 * 8 * 1024.0 * 1024.0, 3), fallback->stream(1e6, 4),
        fallback->layer(two_layers(8), 0).forward}) {
    EXPECT_EQ(work.host, 0);
    EXPECT_GT(work.busy, 0);
    EXPECT_DOUBLE_EQ(work.span, work.busy);
  }
  EXPECT_NEAR(costs->stream(3 * 8 * 1024.0 * 1024.0, 3).busy, 33e-6, 1e-12);
}

TEST(Profile, WrongFilesGetLocatedMessages) {
  const auto message = [](const std::string& text) -> std::string {
    try {
      parse_profile(Node::parse_text(text, "bad.yaml"));
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(message("format: 2\ndevice: x\n"), testing::HasSubstr("bad.yaml:1"));
  EXPECT_THAT(message("format: 1\ndevice: x\nhots: {}\n"), testing::HasSubstr("host"));
  EXPECT_THAT(message("format: 1\ndevice: x\ncopies:\n  - {bytes: 2 MiB, time: 1 us}\n"
                      "  - {bytes: 1 MiB, time: 1 us}\ncomplete: true\n"),
              testing::HasSubstr("ascending"));
  EXPECT_THAT(
      message("format: 1\ndevice: x\ncollectives:\n  - {collective: allreduce, backend: gloo,"
              " ranks: 2, points: [{bytes: 1 MiB, time: 1 us}]}\ncomplete: true\n"),
      testing::AllOf(testing::HasSubstr("bad.yaml:4"), testing::HasSubstr("all_reduce")));
  EXPECT_THAT(message("format: 1\ndevice: x\ncollectives:\n  - {collective: all_reduce, backend: "
                      "gloo, ranks: 2, points: [{bytes: 1 MiB, time: 0 us}]}\n"),
              testing::HasSubstr("bad.yaml:4"));
  EXPECT_THAT(message("format: 1\ndevice: x\ncomplete: false\n"),
              testing::HasSubstr("bad.yaml:3:11: complete: says that the file is not"));
  EXPECT_THAT(message("format: 1\ncomplete: true\ndevice: x\n"),
              testing::HasSubstr("bad.yaml:2:11: complete: is not the last line"));
}

// A profile that is cut off anywhere must be refused, also at the end of a line, where the rest is
// valid YAML.
TEST(Profile, ACutFileIsRefused) {
  const std::string whole = profile_text(load_profile(path));
  const std::string end = "complete: true\n";
  ASSERT_TRUE(whole.ends_with(end));
  for (std::size_t length = 0; length + 1 < whole.size(); ++length) {
    EXPECT_THROW(parse_profile(Node::parse_text(whole.substr(0, length), "cut.yaml")), ConfigError)
        << length;
  }
  try {
    parse_profile(Node::parse_text(whole.substr(0, whole.size() - end.size()), "cut.yaml"));
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("cut.yaml:1:1: complete: missing; required: the "
                                                  "end mark of a whole file."));
    EXPECT_THAT(error.what(), testing::HasSubstr("append `complete: true` to an older file"));
  }
}

TEST(Profile, WhatItDoesNotAnswerIsSaid) {
  // of two_layers in amp-fp16 with batches 8, 32 and 1024
  const Profile profile = load_profile(path);
  using testing::ElementsAre;
  EXPECT_THAT(profile_gaps(profile, two_layers(8)), ElementsAre());
  EXPECT_THAT(profile_gaps(profile, two_layers(16)), ElementsAre());  // interpolated
  TrainingStep step = two_layers(100);  // between batches too far apart
  EXPECT_THAT(profile_gaps(profile, step),
              ElementsAre("the profile has no figures for two_layers in batches of 100 (it has 8, "
                          "32, 1024): modelled"));
  step = two_layers(8);
  step.model = "three_layers";
  EXPECT_THAT(profile_gaps(profile, step),
              ElementsAre("the profile has no figures for three_layers (it has two_layers): "
                          "modelled"));
  // a profile of collectives alone, for example
  EXPECT_THAT(profile_gaps({}, step), ElementsAre());
  step = two_layers(8);
  step.precision = Precision::tf32;
  EXPECT_THAT(profile_gaps(profile, step),
              ElementsAre("the profile has no figures for two_layers in tf32 (it has amp-fp16): "
                          "modelled"));
  step = two_layers(8);
  step.input_bytes *= 2;
  EXPECT_THAT(profile_gaps(profile, step),
              ElementsAre("the profile has no figures for two_layers with 2000 B per sample (it "
                          "has 1000 B): modelled"));
  step = two_layers(8);
  step.layers[1].name = "conv9";
  EXPECT_THAT(profile_gaps(profile, step),
              ElementsAre("the profile has no figures for conv9 of two_layers in batches of 8: "
                          "modelled",
                          "the profile of two_layers in batches of 8 has figures for second: not "
                          "in the model"));
}

}  // namespace
}  // namespace lockstep::profile_test
