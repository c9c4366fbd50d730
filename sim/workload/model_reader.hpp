// Reading of model files from disk with their base models, and expansion of one into a flat list of
// layers: repeats, blocks, residuals and references are unrolled. model.cpp calls both; other rooms
// use model.hpp.
#pragma once

#include <string>

#include "workload/builder.hpp"
#include "workload/model_file.hpp"

namespace lockstep {

// Reads the file and the chain of its `base:` models. Throws ConfigError with all mistakes of a
// file.
ModelFile read_model_file(const std::string& path);

// Path of the file of model `name`. A name with a slash or with the ending .yaml is a path; a file
// at that path relative to the folder of file `beside` wins. Any other name is a shipped model.
// Returns "" if no such model is shipped; a path is returned unchecked.
std::string find_model_file(const std::string& name, const std::string& beside);

// Runs the model's steps on `input` and writes the layers into `builder`. `parameters` are the
// model's parameters and `classes`. Throws ConfigError located at the step that does not fit its
// input, or if the last layer is no loss.
void expand_model(const ModelFile& model, const Scope& parameters, const Value& input,
                  StepBuilder& builder);

}  // namespace lockstep
