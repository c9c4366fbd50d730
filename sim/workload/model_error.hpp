// What is wrong with a step of a model file, before its place in the file is known: expand.cpp and
// model_file.cpp turn it into a located ConfigError.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace lockstep {

class ModelError : public std::runtime_error {
 public:
  explicit ModelError(const std::string& message, std::string hint_text = "")
      : std::runtime_error(message), hint(std::move(hint_text)) {}
  std::string hint;
};

}  // namespace lockstep
