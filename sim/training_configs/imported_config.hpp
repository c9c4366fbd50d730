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

// The user's answers on the command line; they take precedence over the files.
struct ConfigAnswers {
  // Name of --format; "" = told by the keys.
  std::string format;
  // A shipped model, a model file, a config.json, or a public model's name; "" = by the files.
  std::string model;
  std::string platform;
  std::optional<std::int64_t> gpus, sequence, micro, global;
  // Refused keys to go on without; "all" = every one.
  std::vector<std::string> leave_out;
  // A number of steps counts as the samples that these steps see, so that points with other batches
  // train on equally much data.
  bool length_as_data = false;
};

// One field of the scenario in the making.
struct ScenarioField {
  // Dotted, e.g. "batch.micro".
  std::string path;
  // YAML flow text.
  std::string value;
  // The key or option that states the field, for the comment.
  std::string source;
};

// A field that a scenario needs and no file states, and the option that answers it.
struct OpenQuestion {
  std::string field;
  // E.g. "--gpus N".
  std::string option;
};

// The result of an import: fields of a scenario and the account of every key.
struct ImportedConfig {
  // The first file's format, for people.
  std::string format;
  // All files that were read, the named ones first.
  std::vector<std::string> files;
  std::vector<KeyAccount> keys;
  std::vector<ScenarioField> fields;
  std::vector<OpenQuestion> asked;
  // Remarks for the user.
  std::vector<std::string> notes;
  // Defaults of the program that hold because no file states a value.
  std::vector<std::string> assumptions;
};

// The first file is the training's own config; the others are files that it refers to. References
// are followed to files below the first file's folder or the working directory only.
//
// Throws ConfigError for unreadable files, contradicting keys, and refused keys that are not left
// out.
ImportedConfig imported_config(const std::vector<std::string>& files, const ConfigAnswers& answers);

// The scenario for people, each line with the keys that it is derived from; open questions are
// comments.
std::string scenario_text(const ImportedConfig& config);
// The scenario for the reader, without comments. Throws ConfigError if a question is open.
std::string askable_scenario_text(const ImportedConfig& config);

}  // namespace lockstep
