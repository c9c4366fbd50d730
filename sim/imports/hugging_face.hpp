// Models from the config.json of Hugging Face's transformers.
#pragma once

#include <string>

#include "imports/imported_model.hpp"

namespace lockstep {

// Reads the documented fields of LlamaConfig, MistralConfig, MixtralConfig, Qwen2Config, Qwen3Config,
// Phi3Config, Gemma2Config, Gemma3TextConfig, GPT2Config, BertConfig and ViTConfig (transformers, src/transformers/models/*/configuration_*.py) with their defaults, except
// that sizes must be given, and refuses values that change the network in a way the model format
// cannot say. Throws ConfigError.
ImportedModel import_hugging_face(const std::string& file);

}  // namespace lockstep
