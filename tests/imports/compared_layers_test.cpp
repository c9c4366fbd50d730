// Are the layers of a trace compared with those of the model, summed by kind and complete?
#include "imports/compared_layers.hpp"

#include <gmock/gmock.h>

#include "imports/import_trace.hpp"
#include "source_dir.hpp"
#include "workload/model.hpp"

namespace lockstep::compared_layers_test {
namespace {

TrainingStep model(const std::string& name, std::int64_t samples) {
  StepOptions options;
  options.samples = samples;
  return build_step(*load_model(name), options);
}

// A batch in which layer i takes i us forward and 2 i us backward.
ProfileBatch counted(const TrainingStep& step) {
  ProfileBatch batch;
  for (std::size_t i = 0; i < step.layers.size(); ++i)
    batch.layers.push_back({step.layers[i].name, 1e-6 * i, 2e-6 * i});
  return batch;
}

std::vector<std::string> names(const std::vector<ComparedLayers>& compared) {
  std::vector<std::string> list;
  for (const ComparedLayers& each : compared) list.push_back(each.name);
  return list;
}

TEST(ComparedLayers, KindsAreTheSumsOfTheirLayers) {
  const TrainingStep step = model("lenet5", 32);
  const ProfileBatch batch = counted(step);
  const Device device = load_device("v100-sxm2-32gb");
  const auto layers = compare_layers(batch, step, device, ComparedBy::layers);
  const auto kinds = compare_layers(batch, step, device, ComparedBy::kinds);
  EXPECT_EQ(layers.back().name, "all");
  EXPECT_EQ(kinds.back().name, "all");
  ComparedLayers sum;
  for (auto each = kinds.begin(); each != kinds.end() - 1; ++each) {
    sum.layers += each->layers;
    sum.forward.measured += each->forward.measured;
    sum.backward =
        DeviceTimes{(sum.backward ? sum.backward->measured : 0) + each->backward->measured, 0};
    if (each != kinds.begin()) {
      EXPECT_GE((each - 1)->forward.measured, each->forward.measured);
    }
  }
  EXPECT_EQ(sum.layers, layers.back().layers);
  EXPECT_EQ(sum.layers, static_cast<int>(layers.size()) - 1);
  EXPECT_NEAR(sum.forward.measured, layers.back().forward.measured, 1e-12);
  EXPECT_NEAR(sum.backward->measured, 2 * layers.back().forward.measured, 1e-12);
  EXPECT_NEAR(kinds.back().forward.modelled, layers.back().forward.modelled, 1e-12);
  EXPECT_GT(kinds.back().forward.modelled, 0);
}

TEST(ComparedLayers, ConvolutionsAreToldApartByTheirFilters) {
  const auto kinds = [&](const std::string& name) {
    const TrainingStep step = model(name, 8);
    return names(compare_layers(counted(step), step, load_device("t4"), ComparedBy::kinds));
  };
  EXPECT_THAT(kinds("mobilenet_v2"),
              testing::IsSupersetOf({"conv 1 x 1", "conv 3 x 3", "conv 3 x 3, depthwise"}));
  EXPECT_THAT(kinds("resnext50_32x4d"),
              testing::IsSupersetOf({"conv 1 x 1", "conv 3 x 3, groups", "conv 7 x 7"}));
}

TEST(ComparedLayers, ForwardPassesHaveNoBackwardTimes) {
  const TrainingStep step = model("alexnet", 128);
  const TraceImport imported =
      import_trace(LOCKSTEP_SOURCE_DIR "/tests/imports/data/alexnet_a100.json.gz", step,
                   {"*measure|forward]", true});
  const auto kinds = compare_layers(imported.profile.models.at(0).batches.at(0), step,
                                    load_device("a100-sxm4-40gb"), ComparedBy::kinds);
  EXPECT_FALSE(kinds.front().backward.has_value());
  EXPECT_FALSE(kinds.back().backward.has_value());
  EXPECT_NEAR(kinds.back().forward.measured, imported.forward_seconds,
              0.05 * imported.forward_seconds);
}

}  // namespace
}  // namespace lockstep::compared_layers_test
