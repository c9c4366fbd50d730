// Key tables: the facts that the keys of one format state. To import a key, add it to the format's
// table. The tables are data, keys/*.yaml, which key_table.cpp applies to a config's tree:
//
//   strict: true                         # the program refuses keys that it does not know
//   keys:                                # a key, dotted from the root, and the fact that it states
//     train_batch_size: global
//     zero_optimization.stage: {sets: zero.stage}
//     groups.optimizer: {sets: optimizer, first: true}      # if several differ, the first counts
//     optimizer.type: {sets: optimizer, words: {OneBitAdam: "!its second phase is compressed"}}
//   without_effect:
//     - because: only what is printed
//       keys: [steps_per_print, tensorboard.**]
//   refused:
//     - because: pruning is not modeled
//       keys: [compression_training.**]
//       unless: [false]                  # with these values the key has no effect
//   approximated: ...                    # the same for keys that are priced as something else
//
// In patterns `*` is any one part, `**` any rest, and `a*` any part that begins with a. A last `*`
// covers deeper keys, too. `words` translates values, without regard to case ("*" = all others): ""
// = as if the key were absent, "!reason" = refused, "~reason" = approximated. Keys with a part that
// begins with _ are comments.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/yaml.hpp"
#include "training_configs/facts.hpp"

namespace lockstep {

// One rule of a table: a pattern of keys and their fate.
struct ConfigKeyRule {
  // Dotted, with stars as above.
  std::string pattern;
  KeyFate fate = KeyFate::mapped;
  // The fact that a mapped key states.
  std::string fact;
  // Several keys may state the fact differently; the first one counts.
  bool first = false;
  // Translations of values; words in lower case.
  std::vector<std::pair<std::string, std::string>> words;
  // The reason for a fate other than mapped.
  std::string because;
  // Values with which a refused or approximated key has no effect; in lower case.
  std::vector<std::string> unless;
};

// The table of one format.
struct KeyTable {
  // The format's name for people.
  std::string format;
  // The program refuses keys that it does not know, and so does the import.
  bool strict = false;
  std::vector<ConfigKeyRule> rules;
};

// Parses a text of keys/; `name` is its origin for errors. Throws ConfigError.
KeyTable key_table(std::string_view text, const std::string& name);

// States each value of `root` as a fact, and appends its account. `prefix`: the part of the keys
// before root, for accounts. Throws ConfigError where two keys contradict each other.
void state_keys(const KeyTable& table, const Node& root, const std::string& prefix, Facts& facts,
                std::vector<KeyAccount>& accounts);

// Whether a dotted key fits a pattern; the elements of a list ("groups[]") have the list's key.
bool key_matches(std::string_view pattern, std::string_view key);

// The tables of the formats, and the names of public models, compiled in from keys/*.yaml.
extern const char* const accelerate_keys;
extern const char* const axolotl_keys;
extern const char* const composer_keys;
extern const char* const deepspeed_keys;
extern const char* const lightning_keys;
extern const char* const litgpt_keys;
extern const char* const llamafactory_keys;
extern const char* const megatron_keys;
extern const char* const nanotron_keys;
extern const char* const torchtitan_json_keys;
extern const char* const torchtitan_toml_keys;
extern const char* const trainer_keys;
extern const char* const public_models;

// --- files as trees ------------------------------------------------------------------------------

// A file's tree, and its remarks.
struct ConfigDocument {
  // A map.
  Node root;
  // Keys that stand twice: the last one counts.
  std::vector<Diagnostic> notes;
};

// Reads a JSON, YAML or TOML file, or a text as if it stood at `path`. The format is chosen by the
// name's ending (.json, .yaml, .yml, .toml), else by the text. JSON must be legal JSON, except that
// tabs may indent it; bare words are refused. YAML is read as PyYAML reads it: the last of
// duplicate keys counts, `<<` merges.
//
// Throws ConfigError with the place; guards against huge and deeply nested files as core/yaml.hpp.
ConfigDocument config_document(const std::string& path);
ConfigDocument config_document(const std::string& text, const std::string& path);

}  // namespace lockstep
