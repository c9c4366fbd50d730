// Scenarios from the configs of training programs: DeepSpeed, accelerate, Hugging Face's trainers,
// torchtitan, nanotron, Megatron-LM, LLM Foundry and Lightning. Used by `import-config` and
// `--from`. Every key is accounted for: mapped, without effect on cost, approximated, asked for,
// refused, or unknown (docs/import-config.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/errors.hpp"
#include "core/yaml.hpp"
#include "training_configs/facts.hpp"

namespace lockstep {

// The user's answers; they take precedence over the files.
struct ConfigAnswers {
  std::string format;  // "" = by the keys
  std::string model;   // a shipped model, a model file, or a config.json
  std::string platform;
  std::optional<std::int64_t> gpus, sequence, micro, global;
  std::vector<std::string> leave_out;  // refused keys to go on without; "all"
  bool length_as_data = false;         // a number of steps counts as the samples that they see
};

struct ScenarioField {
  std::string path;    // "batch.micro"
  std::string value;   // YAML flow text
  std::string source;  // keys that state it, for the comment
};

// A field that a scenario needs and no file states.
struct OpenQuestion {
  std::string field;
  std::string option;  // "--gpus N"
};

struct ImportedConfig {
  std::string format;
  std::vector<std::string> files;
  std::vector<KeyAccount> keys;
  std::vector<ScenarioField> fields;
  std::vector<OpenQuestion> asked;
  std::vector<std::string> notes;
  std::vector<std::string> assumptions;  // defaults of the program
};

// The first file is the training's own config; the others are files that it refers to. References
// are followed to files below the first file's folder or the working directory only. Throws
// ConfigError for unreadable files, contradicting keys, and refused keys that are not left out.
ImportedConfig imported_config(const std::vector<std::string>& files, const ConfigAnswers& answers);

// The scenario, each line with the keys that it is derived from; open questions are comments.
std::string scenario_text(const ImportedConfig& config);
// The same for the scenario's reader, without comments. Throws ConfigError if a question is open.
std::string askable_scenario_text(const ImportedConfig& config);

}  // namespace lockstep
