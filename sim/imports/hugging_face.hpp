// Models from the config.json of Hugging Face's transformers, as settings of a shipped family. Used
// by `import-model` and by imported configs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

struct ImportedModel {
  std::string origin;  // file and class, for the comment at the head
  std::string base;    // models/BASE.yaml
  std::string title;
  std::string comment;                                           // below the origin; "" = none
  std::vector<std::pair<std::string, std::int64_t>> parameters;  // of the base
  std::vector<std::int64_t> image;        // {channels, height, width}; empty for token models
  std::int64_t classes = 0;               // 0 = the base's, or none
  std::vector<std::string> notes;         // where the base and the original part
  std::optional<std::int64_t> published;  // parameters that the original is known to have
  std::int64_t trained_parameters = 0;    // of the base with these settings
};

// Reads the documented fields of LlamaConfig, MistralConfig, MixtralConfig, Qwen2Config,
// Qwen3Config, Phi3Config, Gemma2Config, Gemma3TextConfig, GPT2Config, BertConfig and ViTConfig
// (transformers, src/transformers/models/*/configuration_*.py) with their defaults, except that
// sizes must be there, and refuses values that change the network in a way the model format cannot
// say. Throws ConfigError, also where the model cannot be built, or has not exactly `published`
// parameters.
ImportedModel import_hugging_face(const std::string& file,
                                  std::optional<std::int64_t> published = {});

// The model file (docs/model-format.md).
std::string model_text(const ImportedModel& model);

}  // namespace lockstep
