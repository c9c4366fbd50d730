// Facts: the statements of training configs, in words that all formats share (`micro`,
// `fsdp.sharding`). Write and read all values of a config through this class, so that every key is
// accounted for. Key tables (key_table.hpp) state facts, interpreters (interpretation.hpp) derive
// facts from facts, and scenario_of.cpp turns facts into a scenario's fields.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/errors.hpp"

namespace lockstep {

// One statement: a value as text, with the place and the key that it comes from.
struct Fact {
  std::string value;
  Location where;
  // The key as the config spells it; "" = a default of the program.
  std::string key;
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

// The account that the user gets of one key (`import-config --json`).
struct KeyAccount {
  std::string key;
  Location where;
  // Cut at 60 characters.
  std::string value;
  KeyFate fate = KeyFate::unknown;
  // The fact that the key states; "" = none.
  std::string fact;
  // Fields of the scenario that follow from the key, or the reason for its fate.
  std::string meaning;
};

// Named facts. Reading a fact by find() or one of the typed readers marks it as used; a fact that
// nobody reads had no effect. Typed readers throw ConfigError at the key if its value is of another
// type.
class Facts {
 public:
  // States a fact. Keeps the first of two equal statements, where 16 and 16.0 are equal. Throws
  // ConfigError if two keys contradict each other.
  void set(const std::string& name, const Fact& fact);
  // Sets a program's own default if no file states the value, and lists it as an assumption.
  // Returns true if it was set.
  bool set_default(const std::string& name, const std::string& value, const std::string& program);
  // Sets a fact whether it is there or not, and marks it as used: for facts that interpreters
  // derive.
  void replace(const std::string& name, const Fact& fact);
  void erase(const std::string& name);

  bool has(const std::string& name) const { return facts_.contains(name); }
  // The fact without marking it as used; null if there is none.
  const Fact* peek(const std::string& name) const;
  // The fact, used from now on; null if there is none.
  const Fact* find(const std::string& name);
  std::optional<std::string> text(const std::string& name);
  // Whole numbers of 0 or more, and -1, by which several programs mean "all" or "not set".
  std::optional<std::int64_t> count(const std::string& name);
  std::optional<double> number(const std::string& name);
  bool flag(const std::string& name, bool absent = false);
  // The value in lower case.
  std::string word(const std::string& name, const std::string& absent);

  bool used(const std::string& name) const;
  // Names of all facts that begin with `prefix`, sorted.
  std::vector<std::string> names(const std::string& prefix) const;
  // Defaults of programs that were set, one line each, e.g. "clip: 1.0 (transformers)".
  const std::vector<std::string>& assumptions() const { return assumptions_; }

 private:
  struct Entry {
    Fact fact;
    bool used = false;
  };
  std::map<std::string, Entry> facts_;
  std::vector<std::string> assumptions_;
};

// Numbers as configs write them: "5e8", "1_000", "16.0", "500M" are whole numbers. Nothing for
// other texts.
std::optional<double> number_in(std::string text);
// true, True, yes, on, 1; false, False, no, off, 0, none, null. Nothing for other words.
std::optional<bool> flag_in(const std::string& text);

}  // namespace lockstep
