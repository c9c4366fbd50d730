// Facts: the statements of training configs under names that all formats share (for example
// `micro`, `fsdp.sharding`). All values of a config must pass through this class, so that the fate
// of every key is known. Key tables (key_table.hpp) state facts, interpreters (interpretation.hpp)
// derive facts from facts, and scenario_of.cpp turns facts into a scenario's fields.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/errors.hpp"

namespace lockstep {

// One statement: a value as text, with its place and its key.
struct Fact {
  std::string value;
  Location where;
  // The key in the config's spelling; "" = a default of the program.
  std::string key;
};

// The fate of a key. Every value of a config has exactly one fate.
enum class KeyFate {
  mapped,          // it is part of the scenario
  without_effect,  // it changes no cost, or has no effect in this configuration
  approximated,    // another feature is modelled in its place; the user learns the reason
  asked,           // open, for example "auto": another file or the user must state it
  refused,         // it changes costs in a way that Lockstep does not model
  unknown          // Lockstep does not know this key of the format
};

// One key, its value and its fate, as `import-config --json` reports them.
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

// Named facts. find() and the typed readers mark a fact as used; a fact that is never used had no
// effect. Typed readers throw ConfigError at the key if its value has another type.
class Facts {
 public:
  // States a fact. If an equal fact exists (16 and 16.0 are equal), it stays. Throws ConfigError if
  // the fact exists with another value.
  void set(const std::string& name, const Fact& fact);
  // Sets a program's default if the fact does not exist, and lists it as an assumption. Returns
  // true if it was set.
  bool set_default(const std::string& name, const std::string& value, const std::string& program);
  // Sets a fact, replaces an earlier value, and marks the fact as used. Interpreters call it for
  // facts that they derive.
  void replace(const std::string& name, const Fact& fact);
  void erase(const std::string& name);

  bool has(const std::string& name) const { return facts_.contains(name); }
  // The fact without marking it as used; null if there is none.
  const Fact* peek(const std::string& name) const;
  // Returns the fact and marks it as used; null if there is none.
  const Fact* find(const std::string& name);
  std::optional<std::string> text(const std::string& name);
  // A whole number of at least -1. In several programs, -1 means "all" or "not set".
  std::optional<std::int64_t> count(const std::string& name);
  std::optional<double> number(const std::string& name);
  bool flag(const std::string& name, bool absent = false);
  // The value in lower case.
  std::string word(const std::string& name, const std::string& absent);

  bool used(const std::string& name) const;
  // Names of all facts that begin with `prefix`, sorted.
  std::vector<std::string> names(const std::string& prefix) const;
  // Defaults of programs that set_default() has set, for example "clip: 1.0 (transformers)".
  const std::vector<std::string>& assumptions() const { return assumptions_; }

 private:
  struct Entry {
    Fact fact;
    bool used = false;
  };
  std::map<std::string, Entry> facts_;
  std::vector<std::string> assumptions_;
};

// A number in any spelling of a config, for example "5e8", "1_000", "16.0" or "500M". Nothing for
// other texts.
std::optional<double> number_in(std::string text);
// True for true, yes, on, 1 and y. False for false, no, off, 0, n, none, null and "". Case does not
// matter. Nothing for other words.
std::optional<bool> flag_in(const std::string& text);

}  // namespace lockstep
