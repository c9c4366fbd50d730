// Integer expressions of model files: "4 * width", "if(i == 0, stride, 1)", "ceil_div(hidden, 64)".
// An expression is parsed once, when the file is read, and evaluated each time the entry that
// contains it is expanded. Truth values are 0 and 1. docs/model-format.md lists operators and
// functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "workload/model_error.hpp"

namespace lockstep {

// Names that an expression can use, with their values. A name of this scope hides the same name of
// the enclosing scope.
// REQUIRES: the outer scope outlives the inner one.
class Scope {
 public:
  explicit Scope(const Scope* outer = nullptr) : outer_(outer) {}
  void set(const std::string& name, std::int64_t value);
  // searches the innermost scope first
  std::optional<std::int64_t> find(std::string_view name) const;
  std::vector<std::string> names() const;  // all names of this and outer scopes, sorted, for hints

 private:
  const Scope* outer_;
  std::vector<std::pair<std::string, std::int64_t>> values_;
};

// A parsed expression: a tree of terms in one flat vector. It is immutable after parsing and can be
// evaluated in many scopes.
class Expression {
 public:
  Expression() = default;
  explicit Expression(std::int64_t constant);
  // Throws ModelError for wrong syntax, an unknown function, or a text that is too long or nested
  // too deeply.
  static Expression parse(std::string_view text);
  // Throws ModelError for an unknown name, a value that does not fit in 63 bits, a division by
  // zero, or a `/` that leaves a remainder.
  // REQUIRES: the expression is a constant or parsed, not default-constructed.
  std::int64_t evaluate(const Scope& scope) const;

 private:
  enum class Kind { constant, name, unary, binary, call };
  struct Term {
    Kind kind = Kind::constant;
    std::int64_t value = 0;
    std::string text;           // name, operator or function
    std::vector<int> operands;  // indices into terms_
  };
  friend class ExpressionParser;
  std::int64_t evaluate(const Term& term, const Scope& scope) const;
  std::int64_t call(const Term& term, const Scope& scope) const;

  std::vector<Term> terms_;  // the last one is the root
};

}  // namespace lockstep
