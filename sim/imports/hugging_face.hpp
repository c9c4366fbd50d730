// Models from the config.json of Hugging Face's transformers, as settings of a shipped model family
// (models/*.yaml). Used by `import-model`, and by imported training configs that name a folder with
// a model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

// A model file to be: a shipped family and the values of its parameters.
struct ImportedModel {
  // File and class, for the comment at the head of the model file.
  std::string origin;
  // The family: models/BASE.yaml.
  std::string base;
  std::string title;
  // A line below the origin; "" = none.
  std::string comment;
  // Names and values of the family's parameters, in the order in which they are written.
  std::vector<std::pair<std::string, std::int64_t>> parameters;
  // Channels, height, width; empty for token models.
  std::vector<std::int64_t> image;
  // Classes of an image model; 0 = the base's number, or none.
  std::int64_t classes = 0;
  // Differences between the family's description and the original.
  std::vector<std::string> notes;
  // Number of parameters that the original is known to have.
  std::optional<std::int64_t> published;
  // Number of parameters of the base with these settings.
  std::int64_t trained_parameters = 0;
};

// Reads the documented fields of LlamaConfig, MistralConfig, MixtralConfig, Qwen2Config,
// Qwen3Config, Phi3Config, Gemma2Config, Gemma3TextConfig, GPT2Config, BertConfig and ViTConfig
// (transformers, src/transformers/models/*/configuration_*.py) with their defaults. Sizes must be
// there, because transformers falls back to one checkpoint's sizes. Refuses values that change the
// network in a way the model format cannot say.
//
// Throws ConfigError, also where the model cannot be built, or has not exactly `published`
// parameters.
ImportedModel import_hugging_face(const std::string& file,
                                  std::optional<std::int64_t> published = {});

// The model file (docs/model-format.md) as YAML.
std::string model_text(const ImportedModel& model);

}  // namespace lockstep
