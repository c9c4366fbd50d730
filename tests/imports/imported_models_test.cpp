// Do networks that PyTorch built become the shipped models? tests/imports/data/graphs holds records
// without weights; LOCKSTEP_GRAPHS names a folder with more records (.ci/nightly makes one).
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "source_dir.hpp"
#include "test_folder.hpp"
#include "workload/model.hpp"
#include "workload/model_file.hpp"

namespace lockstep::imported_models_test {
namespace {

const std::string folder = LOCKSTEP_SOURCE_DIR "/tests/imports";

std::string variable(const char* name, const std::string& absent) {
  const char* value = std::getenv(name);
  return value == nullptr ? absent : value;
}

// The step for the image size of `input`; the shipped model may have another default.
TrainingStep step_of(const ModelFile& file, const ModelFile& input) {
  StepOptions options;
  options.samples = 4;
  for (const Expression& size : input.image) options.image.push_back(size.evaluate(Scope()));
  return build_step(file, options);
}

double saved_bytes(const TrainingStep& step) {
  std::map<int, double> storages;
  for (const Layer& layer : step.layers)
    for (const SavedTensor& tensor : layer.saved)
      storages[tensor.storage] = std::max(storages[tensor.storage], tensor.bytes);
  double bytes = 0;
  for (const auto& [storage, size] : storages) bytes += size;
  return bytes;
}

std::vector<std::int64_t> parameter_counts(const TrainingStep& step) {
  std::vector<std::int64_t> counts;
  for (const Layer& layer : step.layers)
    for (const Parameter& parameter : layer.parameters) counts.push_back(parameter.count);
  return counts;
}

// The model of a record: "resnet50.json.yaml" is resnet50, "small_gpt2.eager.json.yaml" is
// small_gpt2.yaml beside the traces.
std::string model_name(const std::filesystem::path& file) {
  std::string name = file.filename().string();
  name = name.substr(0, name.find('.'));
  return name.starts_with("small_") ? folder + "/data/" + name + ".yaml" : name;
}

void expect_shipped(const std::filesystem::path& file) {
  SCOPED_TRACE(file.string());
  const std::shared_ptr<const ModelFile> imported = load_model(file.string());
  const TrainingStep ours = step_of(*imported, *imported);
  const TrainingStep shipped = step_of(*load_model(model_name(file)), *imported);
  EXPECT_EQ(imported->published_parameters, ours.parameter_count);  // as the importer counts them
  EXPECT_EQ(ours.parameter_count, shipped.parameter_count);
  EXPECT_EQ(parameter_counts(ours), parameter_counts(shipped));  // their order is compared as well
  EXPECT_DOUBLE_EQ(ours.forward_flops, shipped.forward_flops);
  EXPECT_DOUBLE_EQ(ours.backward_flops, shipped.backward_flops);
  EXPECT_DOUBLE_EQ(saved_bytes(ours), saved_bytes(shipped));
}

// Imports the records of this kind; returns their number.
int compare(const std::string& kind) {
  const std::string models = test_folder().file("models");
  const std::string command = variable("LOCKSTEP_IMPORT_PYTHON", "/usr/bin/python3") + " " +
                              folder + "/write_models.py " + models + " '*." + kind + "*' " +
                              folder + "/data/graphs " + variable("LOCKSTEP_GRAPHS", "");
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(models)) {
    expect_shipped(entry.path());
    ++files;
  }
  return files;
}

TEST(ImportedModules, EqualTheShippedModels) {
  EXPECT_GE(compare("json"), 12);
}

TEST(ImportedOnnx, EqualsTheShippedModels) {
  EXPECT_GE(compare("onnx"), 5);
}

}  // namespace
}  // namespace lockstep::imported_models_test
