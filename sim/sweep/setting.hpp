// One `--set PATH=VALUES`: a field of the scenario and its values. parse_setting() reads it, and
// put() applies one value.
//
//   gpus=1,2,4                         values separated by commas
//   batch.global=64..1024*2            64, 128, ... 1024; a..b+s in steps of s, a..b in steps of 1
//   strategies.ddp.bucket_size=1MiB..64MiB*4     in every ddp entry
//   strategies[1].precision=fp32,"amp-bf16"      in the second entry
//   input.image=[3,224,224],[3,32,32]            any YAML flow value
//   gpus=[1,2,4]                       the same as gpus=1,2,4; also allowed for `strategies`
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/yaml.hpp"

namespace lockstep {

// One step of a path: a key of a map, or an index into a list.
struct PathStep {
  std::string key;                   // of a map; "" = the step is an index
  std::optional<std::size_t> index;  // index into a list, from 0
  int column = 1;                    // in the setting's text, from 1
};

// A parsed setting.
struct Setting {
  std::string name;  // name in messages: "--set gpus=1,2,4"
  std::string path;  // such as "batch.global"
  std::vector<PathStep> steps;
  std::vector<Node> values;
  std::vector<std::string> texts;  // the values as text that --set accepts
};

inline constexpr std::size_t most_values = 1'000'000;  // largest number of values of one setting

// An error at character `column` (counted from 1) of a setting's text.
ConfigError setting_error(const Setting& setting, int column, std::string message,
                          std::string hint = "");

// Parses "PATH=VALUES". Throws ConfigError, located in this text, if it is malformed or has more
// than most_values values.
Setting parse_setting(const std::string& text);

// Returns a copy of `root` with `value` at the setting's path, starting with step `from` of the
// path. Creates maps that are missing on the path, and converts a bare name (`ddp`) to a map (`ddp:
// {}`). Throws ConfigError if the path does not fit the tree.
Node put(const Node& root, const Setting& setting, const Node& value, std::size_t from = 0);

}  // namespace lockstep
