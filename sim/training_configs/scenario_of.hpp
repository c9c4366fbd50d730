// The facts of all formats as fields of a scenario.
#pragma once

#include "training_configs/imported_config.hpp"

namespace lockstep {

// Fills fields, asked and notes of `config`, and says of each account what became of it.
void state_scenario(Facts& facts, const ConfigAnswers& answers, ImportedConfig& config);

// A model's name or path as fields of a scenario: a shipped model, a known name, a config.json.
void state_model(Facts& facts, const ConfigAnswers& answers, ImportedConfig& config);

}  // namespace lockstep
