// Key tables: the facts that the keys of one format state. To import a key, add it to the format's
// table. They are data, keys/*.yaml:
//
//   strict: true                          # the program refuses keys that it does not know
//   keys:                                 # a key, dotted from the root, and the fact that it states
//     train_batch_size: global
//     zero_optimization.stage: {sets: zero.stage}
//     groups.optimizer: {sets: optimizer, first: true}      # of several that differ the first counts
//     optimizer.type: {sets: optimizer, words: {OneBitAdam: "!its second phase is compressed"}}
//   without_effect:
//     - because: only what is printed
//       keys: [steps_per_print, tensorboard.**]
//   refused:
//     - because: pruning is not modelled
//       keys: [compression_training.**]
//       unless: [false]                   # with these values the key has no effect
//   approximated: ...                     # the same for keys that are priced as something else
//
// In patterns `*` is any one part, `**` any rest, `a*` any part that begins with a; a last `*`
// covers what is below, too. `words` translates values, without regard to case ("*" = all others):
// "" = as if the key were absent, "!reason" = refused, "~reason" = approximated. Keys with a part
// that begins with _ are comments.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/yaml.hpp"
#include "training_configs/facts.hpp"

namespace lockstep {

struct ConfigKeyRule {
  std::string pattern;
  KeyFate fate = KeyFate::mapped;
  std::string fact;
  bool first = false;  // of several that differ the first counts
  std::vector<std::pair<std::string, std::string>> words;  // lower case
  std::string because;
  std::vector<std::string> unless;  // lower case
};

struct KeyTable {
  std::string format;   // for people
  bool strict = false;  // the program refuses keys that it does not know
  std::vector<ConfigKeyRule> rules;
};

// Parses a text of keys/. Throws ConfigError.
KeyTable key_table(std::string_view text, const std::string& name);

// States each value of `root`, and accounts for it. `prefix`: the part of the keys before root, for
// accounts. Throws ConfigError where two keys contradict each other.
void state_keys(const KeyTable& table, const Node& root, const std::string& prefix, Facts& facts,
                std::vector<KeyAccount>& accounts);

bool key_matches(std::string_view pattern, std::string_view key);

// The tables of the formats, and the names of public models, compiled in.
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

struct ConfigDocument {
  Node root;                      // a map
  std::vector<Diagnostic> notes;  // keys that stand twice: the last one counts
};

// The format is chosen by the name's ending (.json, .yaml, .yml, .toml), else by the text. JSON
// must be legal JSON, except that tabs may indent it; bare words are refused. YAML is read as
// PyYAML reads it: the last of duplicate keys counts, `<<` merges. Throws ConfigError with the
// place; guards as in core/yaml.hpp.
ConfigDocument config_document(const std::string& path);
ConfigDocument config_document(const std::string& text, const std::string& path);

}  // namespace lockstep
