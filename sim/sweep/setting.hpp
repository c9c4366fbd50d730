// One `--set PATH=VALUES`: a field of the scenario and its values. Use parse_setting() to read it
// and put() to apply one value.
//
//   gpus=1,2,4                         values separated by commas
//   batch.global=64..1024*2            64, 128, ... 1024; a..b+s in steps of s, a..b of 1
//   strategies.ddp.bucket_size=1MiB..64MiB*4     of every ddp entry
//   strategies[1].precision=fp32,"amp-bf16"      of the second entry
//   input.image=[3,224,224],[3,32,32]            any YAML flow value
//   gpus=[1,2,4]                       gpus=1,2,4, as a file lists them; so `strategies`
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/yaml.hpp"

namespace lockstep {

// One step of a path: a key of a map, or a place in a list.
struct PathStep {
  std::string key;                   // of a map; "" = a place in a list
  std::optional<std::size_t> index;  // place in a list, from 0
  int column = 1;                    // in the setting's text
};

// A parsed setting.
struct Setting {
  std::string name;  // name in messages: "--set gpus=1,2,4"
  std::string path;  // such as "batch.global"
  std::vector<PathStep> steps;
  std::vector<Node> values;
  std::vector<std::string> texts;  // the values as text that --set accepts
};

inline constexpr std::size_t most_values = 1'000'000;  // of one setting

// An error at character `column`, counted from 1, of a setting's text.
ConfigError setting_error(const Setting& setting, int column, std::string message,
                          std::string hint = "");

// Parses "PATH=VALUES". Throws ConfigError, located in the text.
Setting parse_setting(const std::string& text);

// Returns a copy of `root` with `value` at the setting's path, beginning with step `from` of the
// path. Maps that are missing on the path are created, and a bare name (`ddp`) becomes a map (`ddp:
// {}`). Throws ConfigError if the path leads nowhere.
Node put(const Node& root, const Setting& setting, const Node& value, std::size_t from = 0);

}  // namespace lockstep
