// Unrolls a model file into layers: repeats, blocks, residuals and references become a flat list.
#pragma once

#include "workload/builder.hpp"
#include "workload/model_file.hpp"

namespace lockstep {

// Runs the model's steps on `input`; the result is the loss. Throws ConfigError located at the
// step.
void expand_model(const ModelFile& model, const Scope& parameters, const Value& input,
                  StepBuilder& builder);

}  // namespace lockstep
