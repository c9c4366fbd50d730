// A model read from another program's description: settings of a shipped family, or layers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

struct ImportedModel {
  std::string origin;  // file and class, for the comment at the head
  std::string base;    // models/BASE.yaml; "" = it has `layers` of its own
  std::string title;
  std::string comment;                                           // below the origin; "" = none
  std::vector<std::pair<std::string, std::int64_t>> parameters;  // of the base
  std::vector<std::int64_t> image;      // {channels, height, width}; empty for token models
  std::int64_t tokens = 0;              // per sample; 0 = the base's, or an image
  std::int64_t classes = 0;             // 0 = the base's, or none
  std::string layers;                   // YAML from the line "layers:" to the end
  std::vector<std::string> notes;       // where the base and the original part
  std::int64_t trained_parameters = 0;  // what the base with these settings has
};

// Throws ConfigError when the base with these settings cannot be built, or has not exactly
// `expected` parameters.
void count_parameters(ImportedModel& model, std::optional<std::int64_t> expected);

// The model file (docs/model-format.md). `expected` goes into it as the published count.
std::string model_text(const ImportedModel& model, std::optional<std::int64_t> expected);

}  // namespace lockstep
