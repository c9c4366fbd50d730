// Does a profiler trace become the layer times that it holds? lenet5_cpu.json was recorded;
// lenet5_gpu.json was constructed with kernel times that add up by hand (tests/imports/data).
#include "imports/import_trace.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "core/file_text.hpp"
#include "imports/profile_folder.hpp"
#include "imports/unpacked_text.hpp"
#include "source_dir.hpp"
#include "test_folder.hpp"
#include "workload/model.hpp"

namespace lockstep::import_trace_test {
namespace {

using testing::HasSubstr;

std::string data(const std::string& name) {
  return std::string(LOCKSTEP_SOURCE_DIR "/tests/imports/data/") + name;
}

TrainingStep model(const std::string& name, std::int64_t samples) {
  StepOptions options;
  options.samples = samples;
  return build_step(*load_model(name), options);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  EXPECT_NE(text.find(from), std::string::npos) << from;
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

std::string error_of(const std::string& path, const TrainingStep& step,
                     const TraceParts& parts = {}) {
  try {
    import_trace(path, step, parts);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

const ProfileLayer& layer(const Profile& profile, const std::string& name) {
  for (const ProfileLayer& candidate : profile.models.at(0).batches.at(0).layers)
    if (candidate.name == name) return candidate;
  throw std::runtime_error("no layer " + name);
}

TEST(RecordedCpuTrace, LayersAndOptimizerAddUpToTheStep) {
  const TraceImport imported = import_trace(data("lenet5_cpu.json"), model("lenet5", 256));
  EXPECT_FALSE(imported.on_gpu);
  EXPECT_EQ(imported.steps, 2);  // the first of three steps is left out
  // The parts are less than the step: the rest is Python and waiting between operators on a busy
  // machine.
  const double parts =
      imported.forward_seconds + imported.backward_seconds + imported.optimizer_seconds;
  EXPECT_GT(parts / imported.step_seconds, least_attributed);
  EXPECT_LT(parts / imported.step_seconds, 1.0);
  EXPECT_GT(imported.attributed, least_attributed);
  double layers = 0;
  for (const ProfileLayer& each : imported.profile.models.at(0).batches.at(0).layers)
    layers += each.forward_seconds + each.backward_seconds.value();
  // Medians of two steps are means, so the sum of medians is the median of the sum.
  EXPECT_NEAR(layers, imported.forward_seconds + imported.backward_seconds, 1e-12);
}

TEST(RecordedCpuTrace, EveryLayerHasItsOperators) {
  const Profile profile = import_trace(data("lenet5_cpu.json"), model("lenet5", 256)).profile;
  const auto& layers = profile.models.at(0).batches.at(0).layers;
  EXPECT_EQ(layers.size(), model("lenet5", 256).layers.size());
  for (const ProfileLayer& each : layers) {
    EXPECT_GT(each.forward_seconds, 0) << each.name;
    EXPECT_GT(each.backward_seconds.value(), 0) << each.name;
  }
  ASSERT_EQ(profile.optimizers.size(), 1U);
  EXPECT_EQ(profile.optimizers[0].name, OptimizerKind::sgd);
  EXPECT_EQ(profile.optimizers[0].implementation, OptimizerImplementation::for_loop);
  EXPECT_TRUE(profile.optimizers[0].momentum);
  EXPECT_EQ(profile.optimizers[0].elements, 61706);
  EXPECT_EQ(profile.optimizers[0].tensors, 10);
  EXPECT_EQ(profile.date.substr(0, 3), "202");
  EXPECT_EQ(profile.noise.samples, 2);
}

TEST(ConstructedGpuTrace, KernelsGoToTheLayersThatLaunchedThem) {
  const TraceImport imported = import_trace(data("lenet5_gpu.json"), model("lenet5", 32));
  EXPECT_TRUE(imported.on_gpu);
  EXPECT_EQ(imported.steps, 2);
  const Profile& profile = imported.profile;
  EXPECT_EQ(profile.device, "NVIDIA Imaginary GPU");
  EXPECT_NEAR(layer(profile, "conv1").forward_seconds, 42e-6, 1e-12);
  EXPECT_NEAR(layer(profile, "conv1").backward_seconds.value(), 110e-6, 1e-12);
  EXPECT_NEAR(layer(profile, "fc1").forward_seconds, 10e-6, 1e-12);
  EXPECT_NEAR(layer(profile, "fc1").backward_seconds.value(), 16e-6, 1e-12);
  EXPECT_NEAR(imported.forward_seconds, 122e-6, 1e-12);
  // The 296 us are 2 convolutions, 3 linear layers, 2 poolings, 4 relu and the loss.
  EXPECT_NEAR(imported.backward_seconds, (220 + 48 + 12 + 12 + 4) * 1e-6, 1e-12);
  EXPECT_NEAR(imported.optimizer_seconds, 20e-6, 1e-12);
  // 20 us of the batch's cast and copy belong to no layer.
  EXPECT_NEAR(imported.attributed, 438.0 / 458.0, 1e-9);
  EXPECT_NEAR(profile.host.launch_seconds, 2e-6, 1e-12);
  EXPECT_GT(profile.host.operator_seconds, 0);
  EXPECT_EQ(profile.optimizers.at(0).implementation, OptimizerImplementation::foreach);
}

TEST(ImportedProfile, ReadsBackAndGathersBatches) {
  const std::string folder = test_folder().path();
  Profile profile = import_trace(data("lenet5_gpu.json"), model("lenet5", 32)).profile;
  merge_model(profile,
              import_trace(data("lenet5_gpu.json"), model("lenet5", 16)).profile.models[0]);
  const Profile read = load_profile(save_profile(folder, profile));
  ASSERT_EQ(read.models.size(), 1U);
  ASSERT_EQ(read.models[0].batches.size(), 2U);
  EXPECT_EQ(read.models[0].batches[0].samples, 16);
  EXPECT_NEAR(layer(read, "conv1").forward_seconds, 42e-6, 1e-9);
}

double seconds_of(const Profile& profile, const std::string& part) {
  double seconds = 0;
  for (const ProfileLayer& each : profile.models.at(0).batches.at(0).layers)
    if (each.name.find(part) != std::string::npos)
      seconds += each.forward_seconds + each.backward_seconds.value_or(0);
  return seconds;
}

// Every layer with parameters has measured times, forward and backward.
void expect_whole(const TraceImport& imported, const TrainingStep& step) {
  EXPECT_GT(imported.attributed, 0.9);
  const auto& layers = imported.profile.models.at(0).batches.at(0).layers;
  ASSERT_EQ(layers.size(), step.layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (step.layers[i].parameters.empty()) continue;
    EXPECT_GT(layers[i].forward_seconds, 0) << layers[i].name;
    EXPECT_GT(layers[i].backward_seconds.value(), 0) << layers[i].name;
  }
}

TEST(RecordedTransformers, ImportAsPyTorchWroteThem) {
  const TrainingStep vit = model(data("small_vit.yaml"), 256);
  const TrainingStep gpt2 = model(data("small_gpt2.yaml"), 64);
  const TrainingStep llama = model(data("small_llama.yaml"), 64);
  const TraceImport packed = import_trace(data("vit_cpu.json.gz"), vit);
  EXPECT_EQ(packed.steps, 2);
  EXPECT_EQ(packed.profile.optimizers.at(0).name, OptimizerKind::adamw);
  expect_whole(packed, vit);
  expect_whole(import_trace(data("hugging_face_vit_cpu.json.gz"), vit), vit);
  expect_whole(import_trace(data("gpt2_cpu.json.gz"), gpt2), gpt2);
  expect_whole(import_trace(data("gpt2_eager_cpu.json.gz"), gpt2, {"training step *", false}),
               gpt2);
  expect_whole(import_trace(data("llama_cpu.json.gz"), llama), llama);
}

TEST(RecordedTransformers, OperatorsOfOneLayerStayTogether) {
  // gelu_new is eight operators and attention is nine, so each takes longer than the product beside
  // it.
  const Profile profile =
      import_trace(data("gpt2_eager_cpu.json.gz"), model(data("small_gpt2.yaml"), 64),
                   {"training step *", false})
          .profile;
  EXPECT_GT(seconds_of(profile, "mlp.act"), seconds_of(profile, "mlp.c_fc"));
  EXPECT_GT(seconds_of(profile, "attn.attention"), seconds_of(profile, "attn.c_attn"));
}

TEST(RecordedTransformers, PackedProjectionsAreCountedByTheirRows) {
  std::string text = unpacked_text(data("hugging_face_vit_cpu.json.gz"));
  const TrainingStep vit = model(data("small_vit.yaml"), 256);
  // Changes the shape of the weight of the values in the second step's first layer; a step has
  // eight weights of this shape.
  const std::size_t third = [&] {
    std::size_t at = 0;
    for (int i = 0; i < 8 + 3; ++i) at = text.find("[64, 64]]", at + 1);
    return at;
  }();
  text.replace(third, 9, "[63, 64]]");
  EXPECT_THAT(error_of(test_folder().write("rows.json", text), vit),
              HasSubstr("the weights before it have 191 rows, but "
                        "encoder.layers.encoder_layer_0.self_attention.in_proj (linear) has 192"));
}

// Traces recorded on GPUs by other people; the README.md beside the files names them and says which
// parts were cut.
TEST(GenuineGpuTraces, OfPyTorch19) {
  const TrainingStep step = model("resnet50", 32);
  const TraceImport imported = import_trace(data("resnet50_v100_torch1.9.json.gz"), step);
  EXPECT_TRUE(imported.on_gpu);
  EXPECT_EQ(imported.profile.device, "Tesla V100-DGXS-32GB");
  EXPECT_EQ(imported.profile.optimizers.at(0).implementation, OptimizerImplementation::for_loop);
  expect_whole(imported, step);
  // All kernels of the step except the copy of the batch and zero_grad take 98.7 ms.
  EXPECT_NEAR(imported.forward_seconds + imported.backward_seconds + imported.optimizer_seconds,
              98.7e-3, 0.1e-3);
  // The counter of seen batches belongs to BatchNorm, not to the convolution before it.
  EXPECT_NEAR(layer(imported.profile, "conv1").forward_seconds, 607e-6, 1e-9);
}

TEST(GenuineGpuTraces, OfForwardPassesWithoutMarks) {
  const TrainingStep step = model("alexnet", 128);
  const std::string trace = data("alexnet_a100.json.gz");
  EXPECT_THAT(error_of(trace, step), HasSubstr("--step names the annotation around the part that "
                                               "repeats; annotations here: [param|cuda], "));
  EXPECT_THAT(error_of(trace, step, {"measure", true}), HasSubstr("holds no annotation 'measure'"));
  EXPECT_THAT(error_of(trace, step, {"*measure|forward]", false}),
              HasSubstr("measure|forward] has no backward pass; --forward-only"));
  const TraceImport imported = import_trace(trace, step, {"*measure|forward]", true});
  EXPECT_EQ(imported.steps, 1);  // the inner one of two annotations with that name
  EXPECT_NEAR(imported.step_seconds, 36.356e-3, 1e-6);
  EXPECT_NEAR(layer(imported.profile, "features.0").forward_seconds, 1225e-6, 1e-9);
  EXPECT_FALSE(layer(imported.profile, "features.0").backward_seconds.has_value());
  EXPECT_TRUE(imported.profile.optimizers.empty());
  const std::string again = profile_text(imported.profile);
  EXPECT_EQ(again.find("backward:"), std::string::npos);
}

TEST(NamedParts, OfWholeStepsAreNoForwardPasses) {
  EXPECT_THAT(error_of(data("lenet5_gpu.json"), model("lenet5", 32), {"ProfilerStep#2", true}),
              HasSubstr("ProfilerStep#2 has a backward pass; leave --forward-only out"));
  EXPECT_EQ(import_trace(data("lenet5_gpu.json"), model("lenet5", 32), {"*Step#3", false}).steps,
            1);
}

// The shapes in a trace tell whether the model has the recorded batch; without shapes the import
// says that it cannot know.
TEST(TraceShapes, TellTheBatchOrItIsSaidThatTheyDoNot) {
  const auto told = testing::Contains(HasSubstr("batch not checked"));
  EXPECT_THAT(import_trace(data("lenet5_cpu.json"), model("lenet5", 256)).notes,
              testing::Not(told));
  EXPECT_THAT(import_trace(data("lenet5_gpu.json"), model("lenet5", 32)).notes,
              testing::Contains("batch not checked: the trace has no shapes"));
  EXPECT_THAT(import_trace(data("gpt2_cpu.json.gz"), model(data("small_gpt2.yaml"), 64)).notes,
              testing::Not(told));
  EXPECT_THAT(error_of(data("gpt2_cpu.json.gz"), model(data("small_gpt2.yaml"), 32)),
              HasSubstr("its batch is 64, not 32"));
}

TEST(OldTraces, SpellShapesOtherwise) {
  const std::string text = replaced(file_text(data("lenet5_cpu.json"), most_of_a_recording),
                                    "\"Input Dims\"", "\"Input dims\"");
  EXPECT_THAT(error_of(test_folder().write("dims.json", text), model("lenet5", 64)),
              HasSubstr("its batch is 256, not 64"));
}

TEST(CompressedTraces, AreUnpackedWhateverTheirName) {
  const std::string packed = file_text(data("vit_cpu.json.gz"), most_of_a_recording);
  const TrainingStep vit = model(data("small_vit.yaml"), 256);
  EXPECT_EQ(import_trace(test_folder().write("vit.json", packed), vit).steps, 2);
  // Two compressed files in one, as `cat a.gz b.gz` makes them.
  EXPECT_EQ(unpacked_text(test_folder().write("two.gz", packed + packed)),
            unpacked_text(data("vit_cpu.json.gz")) + unpacked_text(data("vit_cpu.json.gz")));
  EXPECT_THAT(
      error_of(test_folder().write("cut.json.gz", packed.substr(0, packed.size() / 2)), vit),
      HasSubstr("cut.json.gz: its compressed data breaks off"));
  std::string damaged = packed;
  for (std::size_t i = 200; i < 300; ++i) damaged[i] = static_cast<char>(damaged[i] ^ 0x55);
  EXPECT_THAT(error_of(test_folder().write("damaged.json.gz", damaged), vit),
              HasSubstr("damaged.json.gz: its compressed data is damaged"));
}

TEST(BadTraces, AreRefusedWhereTheyGoWrong) {
  const std::string text = file_text(data("lenet5_gpu.json"), most_of_a_recording);
  const TrainingStep lenet = model("lenet5", 32);
  EXPECT_THAT(error_of(test_folder().write("cut.json", text.substr(0, text.size() / 2)), lenet),
              testing::ContainsRegex("cut.json:[0-9]+:[0-9]+: the JSON text breaks off here"));
  EXPECT_THAT(error_of(test_folder().write("none.json", "{\"traceEvents\": []}"), lenet),
              HasSubstr("no training step"));
  EXPECT_THAT(error_of(test_folder().write("list.json", "[1, 2]"), lenet),
              HasSubstr("traceEvents: missing"));
  EXPECT_THAT(error_of(test_folder().write("text.json", "hello"), lenet),
              HasSubstr("text.json:1:1: "));
  EXPECT_THAT(error_of(test_folder().write("forward.json",
                                           replaced(text, "autograd::engine", "autograd::x")),
                       lenet),
              HasSubstr("ProfilerStep#2 has no backward pass"));
  EXPECT_THAT(
      error_of(test_folder().write("gelu.json", replaced(text, "aten::relu", "aten::gelu")), lenet),
      HasSubstr("aten::gelu at ts 1050.000: the model has relu"));
}

TEST(BadTraces, OfAnotherModelOrBatchSayWhichOperatorAndLayer) {
  EXPECT_THAT(error_of(data("lenet5_gpu.json"), model("vgg11", 32)), HasSubstr("lenet5_gpu.json:"));
  EXPECT_THAT(error_of(data("lenet5_gpu.json"), model("vgg11", 32)),
              HasSubstr("aten::flatten at ts 1150.000: the model has features.6 (conv) here"));
  EXPECT_THAT(error_of(data("lenet5_cpu.json"), model("lenet5", 64)),
              HasSubstr("its batch is 256, not 64; --batch 256"));
  EXPECT_THAT(error_of(data("lenet5_cpu.json"), model("vgg11", 32)),
              HasSubstr("its weight is 6 x 1 x 5 x 5, but features.0 (conv) has 64 x 3 x 3 x 3"));
}

TEST(BadTraces, AreRefusedWhenMostOfTheTimeIsSomethingElse) {
  // The batch's cast takes 2 ms instead of 20 us.
  const std::string text = replaced(file_text(data("lenet5_gpu.json"), most_of_a_recording),
                                    "\"dur\": 20,", "\"dur\": 2000,");
  EXPECT_THAT(error_of(test_folder().write("busy.json", text), model("lenet5", 32)),
              HasSubstr("% of the GPU's busy time belongs to layers and optimizer"));
}

}  // namespace
}  // namespace lockstep::import_trace_test
