// Exception for an entry of a model file (ModelStep) that does not fit its input, or whose
// expression is wrong. The code that throws it does not know the place in the file: expand.cpp,
// model_reader.cpp and model.cpp catch it and throw a located ConfigError.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace lockstep {

class ModelError : public std::runtime_error {
 public:
  explicit ModelError(const std::string& message, std::string hint_text = "")
      : std::runtime_error(message), hint(std::move(hint_text)) {}
  std::string hint;  // the allowed values, or advice; may be empty
};

}  // namespace lockstep
