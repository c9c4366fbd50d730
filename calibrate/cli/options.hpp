// Options that several commands share, as texts of the command line and as values. The
// implementations of the commands use them; declarations.cpp adds them to the commands.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "core/errors.hpp"
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
  // Fills all members except samples and precision. Throws ConfigError.
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
// The quantity of a text such as "25 MiB"; errors name `option`. Throws ConfigError.
double parse_option(const std::string& option, const std::string& text, Dimension dimension);
// The fraction of a text such as "5%" or "0.05". Refuses "5", which would be 500 %. Throws
// ConfigError.
double parse_share(const std::string& option, const std::string& text);
double parse_portion(const std::string& option,
                     const std::string& text);  // also refuses 0 and values above 1
// --slow-rank 1:1.5: the work of this rank, one of `ranks`, takes 1.5 times as long. Throws
// ConfigError.
struct SlowRankText {
  int rank = 0;
  double factor = 1;
};
SlowRankText parse_slow_rank(const std::string& text, int ranks);
// The enum value with the name `text`; errors name `option`. Throws ConfigError.
template <class Enum>
Enum parse_name(const std::string& option, const std::string& text) {
  const auto& names = EnumNames<Enum>::names;
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) {
    throw file_error("", option, fmt::format("{} is not known", in_quotes(text)),
                     allowed_hint(text, {names.begin(), names.end()}));
  }
  return static_cast<Enum>(found - names.begin());
}
std::vector<std::string> split(const std::string& text, char separator);

}  // namespace lockstep
