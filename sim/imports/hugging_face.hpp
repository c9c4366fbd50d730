// Converts the config.json of Hugging Face's transformers to settings of a shipped model family
// (models/*.yaml). `import-model` uses it, and so do imported training configs that name a folder
// with a model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

// The content of a new model file: a shipped family and the values of its parameters.
struct ImportedModel {
  // File and class, for the comment at the head of the model file.
  std::string origin;
  // The family: models/BASE.yaml.
  std::string base;
  std::string title;
  // A comment line below the origin; "" = none.
  std::string comment;
  // Names and values of the family's parameters, in the order in which they are written.
  std::vector<std::pair<std::string, std::int64_t>> parameters;
  // Channels, height, width; empty for token models.
  std::vector<std::int64_t> image;
  // Number of classes of an image model; 0 for token models.
  std::int64_t classes = 0;
  // Differences between the family's description and the original.
  std::vector<std::string> notes;
  // Number of parameters that the original is known to have.
  std::optional<std::int64_t> published;
  // Number of parameters of the family with these settings.
  std::int64_t trained_parameters = 0;
};

// Reads the documented fields of LlamaConfig, MistralConfig, MixtralConfig, Qwen2Config,
// Qwen3Config, Phi3Config, Gemma2Config, Gemma3TextConfig, GPT2Config, BertConfig and ViTConfig
// (transformers, src/transformers/models/*/configuration_*.py) with their defaults. The main sizes
// (layers, hidden size, heads, vocabulary and others) are required, because the defaults of
// transformers are the sizes of one checkpoint. Refuses values that change the network in a way
// that the family does not describe.
//
// Throws ConfigError, also if the model cannot be built, or if its number of parameters is not
// `published`.
ImportedModel import_hugging_face(const std::string& file,
                                  std::optional<std::int64_t> published = {});

// The model file (docs/model-format.md) as YAML.
std::string model_text(const ImportedModel& model);

}  // namespace lockstep
