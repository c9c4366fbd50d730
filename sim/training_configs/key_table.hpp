// Key tables say which fact (facts.hpp) each key of a format states. A new key needs only a line in
// the format's table. The tables are the files keys/*.yaml, which key_table.cpp applies to a
// config's tree:
//
//   strict: true                         # the program refuses unknown keys at the root
//   keys:                                # a key, dotted from the root, and the fact that it states
//     train_batch_size: global
//     zero_optimization.stage: {sets: zero.stage}
//     groups.optimizer: {sets: optimizer, first: true}      # if several differ, the first counts
//     optimizer.type: {sets: optimizer, words: {OneBitAdam: "!its second phase is compressed"}}
//   without_effect:
//     - because: only what is printed
//       keys: [steps_per_print, tensorboard.**]
//   refused:
//     - because: pruning is not modelled
//       keys: [compression_training.**]
//       unless: [false]                  # with these values the key has no effect
//   approximated: ...                    # same form; another feature is modelled for these keys
//
// In patterns, `*` matches any single part between dots, `**` any number of parts at the end, and
// `a*` any part that begins with a. A pattern that ends with `*` also matches deeper keys. `words`
// translates values without regard to case ("*" stands for all other values). The translation ""
// means that the key has no effect, "!reason" refuses it, and "~reason" approximates it. A mapped
// key is asked for if its value contains `${`, or is `auto` and the key has no `words`; a null
// value has no effect. A key whose last part begins with _ is a comment, except `_target_`; so is
// all below `_param_docs`.
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
  // Dotted, perhaps with stars (described above).
  std::string pattern;
  KeyFate fate = KeyFate::mapped;
  // The fact that a mapped key states.
  std::string fact;
  // If several keys state the fact with different values, the first counts and the others are
  // approximated.
  bool first = false;
  // Translations of values; the words are in lower case.
  std::vector<std::pair<std::string, std::string>> words;
  // The reason for a fate other than mapped.
  std::string because;
  // Values, in lower case, with which a refused or approximated key has no effect.
  std::vector<std::string> unless;
};

// The table of one format.
struct KeyTable {
  // The format's name, in the spelling for people.
  std::string format;
  // Whether the program refuses keys at the root that it does not know; the import then refuses
  // them as well.
  bool strict = false;
  std::vector<ConfigKeyRule> rules;
};

// Parses the text of a key table; errors name it `name`. Throws ConfigError.
KeyTable key_table(std::string_view text, const std::string& name);

// States each mapped value of `root` as a fact, and appends an account of every value. `prefix`:
// the part of the keys before `root`, for accounts. Throws ConfigError if two keys contradict each
// other.
void state_keys(const KeyTable& table, const Node& root, const std::string& prefix, Facts& facts,
                std::vector<KeyAccount>& accounts);

// Whether a dotted key matches a pattern. The elements of a list ("groups[]") have the list's key.
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

// A file's tree, and notes on it.
struct ConfigDocument {
  // A map.
  Node root;
  // One note for each key that occurs twice; its last value counts.
  std::vector<Diagnostic> notes;
};

// Reads a JSON, YAML or TOML file, or a text as if it were the file `path`. The ending of the name
// determines the format (.json, .yaml, .yml, .toml); without such an ending, the text does. JSON
// must be legal JSON; bare words are refused. YAML is read as PyYAML reads it: the last of
// duplicate keys counts, and `<<` merges maps.
//
// Throws ConfigError with the place, also for a file that is no map, is too large or too deeply
// nested (core/yaml.hpp).
ConfigDocument config_document(const std::string& path);
ConfigDocument config_document(const std::string& text, const std::string& path);

}  // namespace lockstep
