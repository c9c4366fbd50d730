// The statements of training configs, in words that all formats share: `micro`, `fsdp.sharding`.
// Write and read all values of a config through it, so that every key is accounted for. Key tables
// (key_table.hpp) fill them, scenario_of.cpp turns them into a scenario's fields.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/errors.hpp"

namespace lockstep {

struct Fact {
  std::string value;
  Location where;
  std::string key;  // as the config spells it; "" = a default of the program
};

// The fate of a key. Every value of a config has exactly one.
enum class KeyFate {
  mapped,          // it is part of the scenario
  without_effect,  // it changes no cost, or has no part in this configuration
  approximated,    // it is priced as something else, with a bound or direction that is said
  asked,           // "auto": another file, or the user, has to say it
  refused,         // it changes costs in a way that Lockstep does not model
  unknown          // no key of the format that Lockstep knows
};

struct KeyAccount {
  std::string key;
  Location where;
  std::string value;  // cut when long
  KeyFate fate = KeyFate::unknown;
  std::string fact;     // the fact that it states; "" = none
  std::string meaning;  // field of the scenario, or the reason
};

// Named facts. Reading a fact marks it as used: a fact that nobody reads had no effect.
class Facts {
 public:
  // Keeps the first of two equal statements. Throws ConfigError if two keys contradict each other.
  void set(const std::string& name, const Fact& fact);
  // Sets a program's own default if no file states the value; returns true if it was set.
  bool set_default(const std::string& name, const std::string& value, const std::string& program);
  void replace(const std::string& name, const Fact& fact);
  void erase(const std::string& name);

  bool has(const std::string& name) const { return facts_.contains(name); }
  const Fact* peek(const std::string& name) const;
  const Fact* find(const std::string& name);  // used from now on
  std::optional<std::string> text(const std::string& name);
  std::optional<std::int64_t> count(const std::string& name);  // whole numbers of 0 or more, and -1
  std::optional<double> number(const std::string& name);
  bool flag(const std::string& name, bool absent = false);
  std::string word(const std::string& name, const std::string& absent);  // lower case

  bool used(const std::string& name) const;
  std::vector<std::string> names(const std::string& prefix) const;
  // Defaults of programs for values that no file states.
  const std::vector<std::string>& assumptions() const { return assumptions_; }

 private:
  struct Entry {
    Fact fact;
    bool used = false;
  };
  std::map<std::string, Entry> facts_;
  std::vector<std::string> assumptions_;
};

// Numbers as configs write them: "5e8", "1_000", "16.0", "500M" are whole numbers.
std::optional<double> number_in(std::string text);
// true, True, yes, on, 1; false, False, no, off, 0, none, null. Nothing for other words.
std::optional<bool> flag_in(const std::string& text);

}  // namespace lockstep
