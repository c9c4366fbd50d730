// Options that several verbs share, as texts on the command line and as values.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "costs/optimizer.hpp"
#include "workload/model.hpp"

namespace lockstep {

// --model's input: --image 3x32x32 --classes 10 --sequence 128 --set layers=4
struct InputText {
  std::string image;
  std::int64_t classes = 0;
  std::int64_t sequence = 0;
  std::vector<std::string> parameters;

  void add_to(CLI::App& verb);
  // Fills everything but batch and precision. Throws ConfigError.
  StepOptions step_options() const;
};

struct OptimizerText {
  std::string name = "sgd";
  double learning_rate = 0.01;
  double momentum = 0.9;

  void add_to(CLI::App& verb);
  OptimizerSpec spec() const;  // throws ConfigError
};

Precision parse_precision(const std::string& name);  // throws ConfigError
// "25 MiB" for the option called `option`; throws ConfigError.
double parse_option(const std::string& option, const std::string& text, Dimension dimension);
std::vector<std::string> split(const std::string& text, char separator);
// What LibTorch here can compute: plain attention only before 2.0.
void adapt_to_library(StepOptions& options);

}  // namespace lockstep
