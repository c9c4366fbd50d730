// Makes scenarios from the configs of training programs, for example DeepSpeed, accelerate, Hugging
// Face's Trainer, Axolotl, torchtitan, Megatron-LM and Lightning. `import-config` and `--from` use
// it. Every key gets a fate: mapped, without effect on cost, approximated, asked for, refused, or
// unknown (docs/import-config.md).
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
  // Value of --format, for the first file; "" = recognised by the keys.
  std::string format;
  // A shipped model, a model file, a config.json, or a public model's name; "" = the files
  // determine the model.
  std::string model;
  std::string platform;
  std::optional<std::int64_t> gpus, sequence, micro, global;
  // Refused keys to ignore; "all" = every refused key.
  std::vector<std::string> leave_out;
  // If true, a number of steps becomes the number of samples of these steps, so that points with
  // other batches train on the same amount of data.
  bool length_as_data = false;
};

// One field of the new scenario.
struct ScenarioField {
  // Dotted, for example "batch.micro".
  std::string path;
  // YAML flow text.
  std::string value;
  // The key or option that states the field; scenario_text() writes it as a comment.
  std::string source;
};

// A field that a scenario needs and no file states, and the option by which the user states it.
struct OpenQuestion {
  std::string field;
  // For example "--gpus N".
  std::string option;
};

// The result of an import: fields of a scenario and the account of every key.
struct ImportedConfig {
  // The first file's format, in the spelling for people.
  std::string format;
  // All files that were read: first the files that the user named, then referenced files.
  std::vector<std::string> files;
  std::vector<KeyAccount> keys;
  std::vector<ScenarioField> fields;
  std::vector<OpenQuestion> asked;
  // Notes for the user.
  std::vector<std::string> notes;
  // Defaults of the program that hold because no file states a value.
  std::vector<std::string> assumptions;
};

// The first file is the training's config; the user may add files to which it refers. At most four
// references are followed, each only to a file below the referring file's folder or below the
// working directory. A text in a launch script may take the place of a missing file.
//
// Throws ConfigError for unreadable files, unknown formats, contradicting keys, and refused keys
// that are not left out.
ImportedConfig imported_config(const std::vector<std::string>& files, const ConfigAnswers& answers);

// The scenario for people. Each line has a comment with up to four keys from which it is derived.
// Assumptions, approximated or refused keys, notes and open questions are also comments.
std::string scenario_text(const ImportedConfig& config);
// The scenario for read_scenario_text(), without comments. Throws ConfigError if a question is
// open.
std::string askable_scenario_text(const ImportedConfig& config);

}  // namespace lockstep
