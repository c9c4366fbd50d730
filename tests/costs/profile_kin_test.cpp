// How does a profile predict models and batches that it lacks, and how does it set workspaces?
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/statistics.hpp"
#include "costs/profile.hpp"
#include "costs/roofline_costs.hpp"
#include "kernel_test_device.hpp"
#include "source_dir.hpp"
#include "workload/model.hpp"

namespace lockstep::profile_kin_test {
namespace {

Layer layer_of(const std::string& kind, int number, double bytes) {
  Layer layer;
  layer.kind = kind;
  layer.name = kind + std::to_string(number);
  Kernel kernel;
  kernel.kind = kind == "conv" ? KernelKind::convolution : KernelKind::elementwise;
  kernel.m = kernel.n = kernel.k = 64;
  kernel.bytes_read = kernel.bytes_written = bytes;
  layer.forward = {kernel};
  layer.backward = {kernel};
  return layer;
}

TrainingStep step_of(const std::string& model, std::int64_t samples,
                     const std::vector<std::pair<std::string, int>>& layers) {
  TrainingStep step;
  step.model = model;
  step.samples = samples;
  step.input_bytes = 100.0 * static_cast<double>(samples);
  for (const auto& [kind, count] : layers) {
    for (int i = 0; i < count; ++i) {
      step.layers.push_back(layer_of(kind, i, 1e6 * static_cast<double>(samples)));
    }
  }
  return step;
}

std::shared_ptr<const ComputeCosts> modelled() {
  Machine machine;
  machine.device = round_device();
  return std::make_shared<RooflineCosts>(machine);
}

// Adds a model whose layers took `forward` and `backward` times the modelled times, and whose
// operators took the host `host` seconds.
void add(Profile& profile, const TrainingStep& step, double forward, double backward, double host) {
  ProfileBatch batch;
  batch.samples = step.samples;
  batch.operator_seconds = host;
  batch.backward_operator_seconds = host / 2;
  for (std::size_t i = 0; i < step.layers.size(); ++i) {
    const LayerCost cost = modelled()->layer(step, i);
    ProfileLayer& layer = batch.layers.emplace_back();
    layer.name = step.layers[i].name;
    layer.forward_seconds = forward * cost.forward.busy;
    layer.backward_seconds = backward * cost.backward.busy;
  }
  profile.models.push_back({step.model, step.precision, 100, {batch}});
}

TEST(ProfileKin, LayersOfAClassTakeTheShareThatItsLayersTookElsewhere) {
  const TrainingStep known = step_of("known", 8, {{"relu", 5}, {"gelu", 3}});
  Profile profile;
  add(profile, known, 2, 3, 10e-6);
  const TrainingStep asked = step_of("asked", 4, {{"relu", 2}, {"gelu", 1}, {"silu", 1}});
  const ProfileKin kin = profile_kin(profile, *modelled(), {known}, asked);
  const auto costs = profile_costs(std::make_shared<Profile>(profile), modelled(), {}, kin);
  const LayerCost relu = costs->layer(asked, 0), as_modelled = modelled()->layer(asked, 0);
  // The exponent is the cosine of the models' operator counts: (2, 1, 1) beside (5, 3, 0).
  const double alike = (2 * 5 + 1 * 3) / std::sqrt(6.0 * 34.0);
  EXPECT_NEAR(relu.forward.busy, std::pow(2, alike) * as_modelled.forward.busy, 1e-12);
  EXPECT_NEAR(relu.backward.busy, std::pow(3, alike) * as_modelled.backward.busy, 1e-12);
  EXPECT_EQ(relu.forward.provenance, Provenance::modelled);
  // Three measured layers of a class are too few, and no silu layer was measured.
  for (const std::size_t other : {2u, 3u}) {
    EXPECT_DOUBLE_EQ(costs->layer(asked, other).forward.busy,
                     modelled()->layer(asked, other).forward.busy);
  }
  // An operator costs the host the time of the measured model, with all its launches.
  EXPECT_DOUBLE_EQ(relu.forward.host, 10e-6);
  EXPECT_DOUBLE_EQ(relu.backward.host, 5e-6);
}

TEST(ProfileKin, TheHostsTimeIsThatOfTheModelMostAlike) {
  const TrainingStep images = step_of("images", 8, {{"relu", 8}, {"gelu", 1}}),
                     texts = step_of("texts", 8, {{"gelu", 8}});
  Profile profile;
  add(profile, images, 1, 1, 20e-6);
  add(profile, texts, 1, 1, 10e-6);
  const auto host = [&](const TrainingStep& asked) {
    return profile_kin(profile, *modelled(), {images, texts}, asked).operator_seconds;
  };
  EXPECT_EQ(host(step_of("a", 1, {{"relu", 30}, {"gelu", 10}})), 20e-6);
  EXPECT_EQ(host(step_of("b", 1, {{"relu", 10}, {"gelu", 30}})), 10e-6);
}

// The ratio of a layer class counts little if the measured network is of another make.
TEST(ProfileKin, ModelsThatAreNotAlikeSayNothing) {
  const TrainingStep known = step_of("known", 8, {{"relu", 40}, {"gelu", 4}});
  Profile profile;
  add(profile, known, 3, 3, 0);
  const auto share = [&](const std::vector<std::pair<std::string, int>>& layers) {
    return profile_kin(profile, *modelled(), {known}, step_of("asked", 8, layers))
        .layers.at("gelu")
        .forward;
  };
  EXPECT_NEAR(share({{"relu", 40}, {"gelu", 4}}), 3, 1e-9);
  EXPECT_LT(share({{"gelu", 20}}), 1.15);
}

TEST(ProfileKin, WithoutAnythingMeasuredTimesStayModelled) {
  const TrainingStep asked = step_of("asked", 4, {{"relu", 2}});
  const ProfileKin kin = profile_kin({}, *modelled(), {}, asked);
  const auto costs = profile_costs(std::make_shared<Profile>(), modelled(), {}, kin);
  EXPECT_DOUBLE_EQ(costs->layer(asked, 0).forward.busy, modelled()->layer(asked, 0).forward.busy);
  EXPECT_DOUBLE_EQ(costs->layer(asked, 0).forward.host, modelled()->layer(asked, 0).forward.host);
}

TEST(ProfileKin, ConvolutionsAreToldApart) {
  const auto conv = [](std::int64_t groups, int kernel) {
    Layer layer = layer_of("conv", 0, 1);
    layer.forward[0].conv = {
        .channels_in = 8, .groups = groups, .kernel_h = kernel, .kernel_w = kernel};
    return layer_class(layer);
  };
  EXPECT_EQ(conv(1, 3), "conv");
  EXPECT_EQ(conv(1, 1), "conv of points");
  EXPECT_EQ(conv(8, 3), "conv by depth");
  EXPECT_EQ(conv(2, 3), "conv by groups");
  EXPECT_EQ(layer_class(layer_of("relu", 0, 1)), "relu");
}

TEST(MeasuredWorkspaces, AreLinearInTheBatchAndOfConvolutionsOnly) {
  Profile profile;
  const auto batch = [&](std::int64_t samples, double forward, std::optional<double> backward) {
    ProfileBatch one;
    one.samples = samples;
    for (const char* name : {"conv0", "relu0"}) {
      ProfileLayer& layer = one.layers.emplace_back();
      layer.name = name;
      layer.forward_seconds = 1e-3;
      layer.forward_workspace = forward;
      layer.backward_workspace = backward;
    }
    return one;
  };
  profile.models.push_back(
      {"net", Precision::fp32, 100, {batch(8, 1e6, 5e6), batch(32, 4e6, std::nullopt)}});
  const auto used = [&](std::int64_t samples) {
    TrainingStep step = step_of("net", samples, {{"conv", 1}, {"relu", 1}});
    step.layers[0].backward_workspace_bytes = 7;  // modelled
    use_measured_workspaces(profile, step);
    EXPECT_EQ(step.layers[1].forward_workspace_bytes, 0);
    return step.layers[0];
  };
  EXPECT_EQ(used(8).forward_workspace_bytes, 1e6);
  EXPECT_EQ(used(16).forward_workspace_bytes, 2e6);
  EXPECT_EQ(used(64).forward_workspace_bytes, 8e6);  // beyond the nearest batch in proportion
  EXPECT_EQ(used(4).forward_workspace_bytes, 0.5e6);
  EXPECT_EQ(used(8).backward_workspace_bytes, 5e6);
  EXPECT_EQ(used(16).backward_workspace_bytes, 7);  // only one of the two batches has a measurement
  profile.models[0].batches.clear();
  EXPECT_EQ(used(8).backward_workspace_bytes, 7);
}

// --- measurements of an H100: each batch or model is left out in turn and predicted

TrainingStep measured_step(const ProfileModel& model, std::int64_t samples) {
  StepOptions options;
  options.precision = model.precision;
  options.samples = samples;
  return build_step(*load_model(model.model), options);
}

double device_seconds(const TrainingStep& step, const ComputeCosts& costs) {
  double sum = 0;
  for (std::size_t i = 0; i < step.layers.size(); ++i) {
    const LayerCost cost = costs.layer(step, i);
    sum += cost.forward.busy + cost.backward.busy;
  }
  return sum;
}

double device_seconds(const ProfileBatch& batch) {
  double sum = 0;
  for (const ProfileLayer& layer : batch.layers) {
    sum += layer.forward_seconds + layer.backward_seconds.value();
  }
  return sum;
}

// Relative errors of the device's time: of the model alone, and of the prediction from the rest of
// the profile.
struct LeftOut {
  std::vector<double> modelled, predicted;

  void note(const TrainingStep& step, const ProfileBatch& truth, const ComputeCosts& model,
            const ComputeCosts& costs) {
    const double seconds = device_seconds(truth);
    modelled.push_back(std::abs(device_seconds(step, model) / seconds - 1));
    predicted.push_back(std::abs(device_seconds(step, costs) / seconds - 1));
  }
  std::string text(const std::string& what) const {
    return fmt::format(
        "{}: {} times left out, mean error of the device's time {:.1f} %, modelled alone {:.1f} "
        "%\n",
        what, predicted.size(), 100 * mean(predicted), 100 * mean(modelled));
  }
};

class MeasuredOfAnH100 : public ::testing::Test {
 protected:
  const Profile profile_ =
      load_profile(LOCKSTEP_SOURCE_DIR "/platforms/measurements/h100-sxm5-80gb/profile");
  const std::shared_ptr<const ComputeCosts> model_ =
      std::make_shared<RooflineCosts>(load_machine("h100-sxm5-80gb-x1"));
};

TEST_F(MeasuredOfAnH100, ABatchIsPredictedFromAnother) {
  LeftOut found, of_usual;  // four small models in fp32 and amp-bf16
  for (std::size_t m = 0; m < profile_.models.size(); ++m) {
    if (profile_.models[m].batches.size() < 2) continue;
    const Precision precision = profile_.models[m].precision;
    const std::string& name = profile_.models[m].model;
    const bool usual = (precision == Precision::fp32 || precision == Precision::amp_bf16) &&
                       name != "efficientnet_v2_l" && name != "convnext_large";
    for (const ProfileBatch& left_out : profile_.models[m].batches) {
      auto rest = std::make_shared<Profile>(profile_);
      std::erase_if(rest->models[m].batches,
                    [&](const ProfileBatch& b) { return b.samples == left_out.samples; });
      const TrainingStep step = measured_step(profile_.models[m], left_out.samples);
      std::vector<TrainingStep> beside;
      for (const std::int64_t samples : neighbouring_batches(*rest, step)) {
        beside.push_back(measured_step(profile_.models[m], samples));
      }
      ASSERT_EQ(beside.size(), 1u);
      found.note(step, left_out, *model_, *profile_costs(rest, model_, beside));
      if (usual) of_usual.note(step, left_out, *model_, *profile_costs(rest, model_, beside));
    }
  }
  fmt::print("{}", found.text("a batch"));
  EXPECT_EQ(found.predicted.size(), 38u);
  EXPECT_LT(mean(found.predicted), 0.099);
  fmt::print("{}", of_usual.text("of four models in fp32 and amp-bf16"));
  EXPECT_LT(mean(of_usual.predicted), 0.099);
  EXPECT_LT(mean(found.predicted), mean(found.modelled));
}

TEST_F(MeasuredOfAnH100, AModelIsPredictedFromTheOthers) {
  LeftOut found;
  for (const ProfileModel& left_out : profile_.models) {
    auto rest = std::make_shared<Profile>(profile_);
    std::erase_if(rest->models, [&](const ProfileModel& m) { return m.model == left_out.model; });
    std::vector<TrainingStep> others;
    for (const ProfileModel& other : rest->models) {
      if (other.precision != left_out.precision) continue;
      for (const ProfileBatch& batch : other.batches) {
        others.push_back(measured_step(other, batch.samples));
      }
    }
    for (const ProfileBatch& batch : left_out.batches) {
      const TrainingStep step = measured_step(left_out, batch.samples);
      const ProfileKin kin = profile_kin(*rest, *model_, others, step);
      found.note(step, batch, *model_, *profile_costs(rest, model_, {}, kin));
    }
  }
  fmt::print("{}", found.text("a model"));
  EXPECT_EQ(found.predicted.size(), 39u);
  // No better than the model alone, whose law has a part of these layers in it.
  EXPECT_LT(mean(found.predicted), 0.09);
}

}  // namespace
}  // namespace lockstep::profile_kin_test
