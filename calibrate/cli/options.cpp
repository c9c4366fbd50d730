// Declares options that several commands share, and parses their texts. Every error is a
// ConfigError that names the option in place of a field.
#include "cli/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/errors.hpp"
#include "core/units.hpp"

namespace lockstep {

namespace {

std::int64_t parse_integer(const std::string& option, const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw file_error("", option, fmt::format("{} is no whole number", in_quotes(text)));
  }
  return value;
}

}  // namespace

void InputText::add_to(CLI::App& verb) {
  verb.add_option("--image", image, "Input size, channels x height x width, e.g. 3x32x32");
  verb.add_option("--classes", classes, "Output classes (default: the model's)");
  verb.add_option("--sequence", sequence, "Tokens of a sample (default: the model's)");
  verb.add_option("--set", parameters, "A parameter of the model, e.g. layers=4")->take_all();
}

StepOptions InputText::step_options() const {
  StepOptions options;
  if (!image.empty()) {
    for (const std::string& size : split(image, 'x')) {
      options.image.push_back(parse_integer("--image", size));
    }
    if (options.image.size() != 3) {
      throw file_error("", "--image",
                       fmt::format("{} is not channels x height x width", in_quotes(image)),
                       "for example 3x32x32");
    }
  }
  options.classes = classes;
  options.sequence = sequence;
  for (const std::string& text : parameters) {
    const std::vector<std::string> parts = split(text, '=');
    if (parts.size() != 2) {
      throw file_error("", "--set", fmt::format("{} is not name=value", in_quotes(text)));
    }
    options.parameters[parts[0]] = parse_integer("--set", parts[1]);
  }
  return options;
}

void OptimizerText::add_to(CLI::App& verb) {
  verb.add_option("--optimizer", name, "sgd, adam, adamw, rmsprop, lion, lamb or muon")
      ->capture_default_str();
  verb.add_option("--learning-rate", learning_rate, "Step size")->capture_default_str();
  verb.add_option("--momentum", momentum, "Momentum of sgd and rmsprop")->capture_default_str();
}

OptimizerSpec OptimizerText::spec() const {
  const auto check = [](const char* option, double value) {
    if (value >= 0 && std::isfinite(value)) return;
    throw file_error("", option, fmt::format("{} is not possible", value),
                     "a number of at least 0");
  };
  check("--learning-rate", learning_rate);
  check("--momentum", momentum);
  OptimizerSpec result;
  result.name = parse_name<OptimizerKind>("--optimizer", name);
  result.learning_rate = learning_rate;
  const bool has_momentum =
      result.name == OptimizerKind::sgd || result.name == OptimizerKind::rmsprop;
  result.momentum = has_momentum ? momentum : 0;
  // The implementation in LibTorch's C++ API makes separate calls for every tensor.
  result.implementation = OptimizerImplementation::for_loop;
  return result;
}

Precision parse_precision(const std::string& name) {
  return parse_name<Precision>("--precision", name);
}

double parse_option(const std::string& option, const std::string& text, Dimension dimension) {
  try {
    return parse_quantity(text, dimension);
  } catch (const UnitError& error) {
    throw file_error("", option, error.what());
  }
}

double parse_share(const std::string& option, const std::string& text) {
  const double value = parse_option(option, text, Dimension::fraction);
  if (value > 1 && text.find('%') == std::string::npos) {
    throw file_error("", option,
                     fmt::format("{0} is {1:g} %; did you mean '{0}%'?", text, 100 * value));
  }
  return value;
}

double parse_portion(const std::string& option, const std::string& text) {
  const double value = parse_share(option, text);
  if (value > 0 && value <= 1) return value;
  throw file_error("", option, fmt::format("{} is not possible", in_quotes(text)),
                   "more than 0%, 100% at most");
}

SlowRankText parse_slow_rank(const std::string& text, int ranks) {
  SlowRankText slow;
  bool possible = false;
  if (const std::vector<std::string> parts = split(text, ':'); parts.size() == 2) {
    const auto read = [](const std::string& word, auto& value) {
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
      return error == std::errc() && end == word.data() + word.size();
    };
    possible = read(parts[0], slow.rank) && read(parts[1], slow.factor) && slow.rank >= 0 &&
               slow.rank < ranks && slow.factor >= 1 && slow.factor <= 1000;
  }
  if (possible) return slow;
  throw file_error(
      "", "--slow-rank", fmt::format("{} is not possible", in_quotes(text)),
      fmt::format("RANK:FACTOR with a rank from 0 to {} and a factor of at least 1 and "
                  "at most 1000, e.g. 1:1.5",
                  ranks - 1));
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) return parts;
    begin = end + 1;
  }
}

}  // namespace lockstep
