// Reading of model files from disk together with their base models, and expansion of a model into a
// flat list of layers, in which repeats, blocks, residuals and references are unrolled. model.cpp
// calls both; code outside of sim/workload uses model.hpp.
#pragma once

#include <string>

#include "workload/builder.hpp"
#include "workload/model_file.hpp"

namespace lockstep {

// Reads the file and the chain of its `base:` models. Throws ConfigError with all mistakes of a
// file.
ModelFile read_model_file(const std::string& path);

// Path of the file of model `name`. A name with a slash or with the ending .yaml is a path: if a
// file exists at that path relative to the folder of file `beside`, the result is that file,
// otherwise the path unchanged. Any other name is a shipped model; the result is "" if no such
// model is shipped.
std::string find_model_file(const std::string& name, const std::string& beside);

// Runs the model's steps on `input` and writes the layers into `builder`. `parameters`: the model's
// parameters and `classes`. Throws ConfigError located at the step that does not fit its input, or
// if the last layer is no loss.
void expand_model(const ModelFile& model, const Scope& parameters, const Value& input,
                  StepBuilder& builder);

}  // namespace lockstep
