// Stores facts, and reads numbers and truth values in the spellings of all configs. A fact gets a
// type only when it is read, because YAML, JSON, TOML and shell scripts write the same value
// differently.
#include "training_configs/facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace lockstep {

// Reads a number with an optional unit of a thousand, a million, a billion (B or G) or a trillion.
// In YAML 1.1, 5e8 is a text and 500_000 a number; in YAML 1.2 it is the other way round. Here both
// are numbers.
std::optional<double> number_in(std::string text) {
  std::erase(text, '_');
  double value = 0;
  const char* end = text.data() + text.size();
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const auto [rest, error] = std::from_chars(begin, end, value);
  if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
  const std::string unit(rest, end);
  if (unit.empty()) return value;
  if (unit == "k" || unit == "K") return value * 1e3;
  if (unit == "M") return value * 1e6;
  if (unit == "B" || unit == "G") return value * 1e9;
  if (unit == "T") return value * 1e12;
  return std::nullopt;
}

std::optional<bool> flag_in(const std::string& text) {
  constexpr std::array yes{"true", "yes", "on", "1", "y"};
  constexpr std::array no{"false", "no", "off", "0", "n", "none", "null", ""};
  const std::string word = lower_case(text);
  if (std::find(yes.begin(), yes.end(), word) != yes.end()) return true;
  if (std::find(no.begin(), no.end(), word) != no.end()) return false;
  return std::nullopt;
}

void Facts::set(const std::string& name, const Fact& fact) {
  const auto [entry, fresh] = facts_.try_emplace(name, Entry{fact, false});
  const Fact& first = entry->second.fact;
  if (fresh || first.value == fact.value) return;
  // One number in two spellings is no contradiction.
  const auto a = number_in(first.value), b = number_in(fact.value);
  if (a && b && *a == *b) return;
  throw ConfigError(
      Diagnostic{fact.where, fact.key,
                 fmt::format("{} contradicts {}, which is {}", in_quotes(fact.value), first.key,
                             in_quotes(first.value)),
                 fmt::format("that stands in {}:{}", first.where.file, first.where.line)});
}

bool Facts::set_default(const std::string& name, const std::string& value,
                        const std::string& program) {
  if (has(name)) return false;
  facts_[name] = {{value, {}, ""}, false};
  // Users know the last part of the name; the prefix raw_ marks a value in a program's own
  // spelling.
  std::string shown = name.substr(name.rfind('.') + 1);
  if (shown.starts_with("raw_")) shown = shown.substr(4);
  assumptions_.push_back(fmt::format("{}: {} ({})", shown, value, program));
  return true;
}

void Facts::replace(const std::string& name, const Fact& fact) {
  facts_[name] = {fact, true};
}

void Facts::erase(const std::string& name) {
  facts_.erase(name);
}

const Fact* Facts::peek(const std::string& name) const {
  const auto found = facts_.find(name);
  return found == facts_.end() ? nullptr : &found->second.fact;
}

const Fact* Facts::find(const std::string& name) {
  const auto found = facts_.find(name);
  if (found == facts_.end()) return nullptr;
  found->second.used = true;
  return &found->second.fact;
}

std::optional<std::string> Facts::text(const std::string& name) {
  const Fact* fact = find(name);
  if (!fact) return std::nullopt;
  return fact->value;
}

std::optional<double> Facts::number(const std::string& name) {
  const Fact* fact = find(name);
  if (!fact) return std::nullopt;
  const auto value = number_in(fact->value);
  if (!value) {
    throw ConfigError(Diagnostic{fact->where, fact->key,
                                 fmt::format("{} is no number", in_quotes(fact->value)), ""});
  }
  return value;
}

std::optional<std::int64_t> Facts::count(const std::string& name) {
  const auto value = number(name);
  if (!value) return std::nullopt;
  const bool whole = *value == std::floor(*value) && *value >= -1 && *value < 9e15;
  if (!whole) {
    const Fact& fact = *peek(name);
    throw ConfigError(Diagnostic{fact.where, fact.key,
                                 fmt::format("{} is no whole number", in_quotes(fact.value)), ""});
  }
  return static_cast<std::int64_t>(*value);
}

bool Facts::flag(const std::string& name, bool absent) {
  const Fact* fact = find(name);
  if (!fact) return absent;
  const auto value = flag_in(fact->value);
  if (!value) {
    throw ConfigError(
        Diagnostic{fact->where, fact->key,
                   fmt::format("{} is neither true nor false", in_quotes(fact->value)), ""});
  }
  return *value;
}

std::string Facts::word(const std::string& name, const std::string& absent) {
  const Fact* fact = find(name);
  return fact ? lower_case(fact->value) : absent;
}

std::vector<std::string> Facts::names(const std::string& prefix) const {
  std::vector<std::string> found;
  for (const auto& [name, entry] : facts_) {
    if (name.starts_with(prefix)) found.push_back(name);
  }
  return found;
}

bool Facts::used(const std::string& name) const {
  const auto found = facts_.find(name);
  return found != facts_.end() && found->second.used;
}

}  // namespace lockstep
