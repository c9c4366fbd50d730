// Where model files are found, reading one with the base models it builds on, and unrolling it: repeats,
// blocks, residuals and references become a flat list of layers.
#pragma once

#include <string>

#include "workload/builder.hpp"
#include "workload/model_file.hpp"

namespace lockstep {

ModelFile read_model_file(const std::string& path);

// The file of model `name`: a path (it has a slash or ends in .yaml), relative to `beside` if it is
// there, or a shipped model; empty when no such model is shipped.
std::string find_model_file(const std::string& name, const std::string& beside);

// Runs the model's steps on `input`; the result is the loss. Throws ConfigError located at the
// step.
void expand_model(const ModelFile& model, const Scope& parameters, const Value& input,
                  StepBuilder& builder);

}  // namespace lockstep
