// Integer expressions of model files: "4 * width", "if(i == 0, stride, 1)", "ceil_div(hidden, 64)".
// Parsed once when the file is read, evaluated at every expansion of the step that holds them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "workload/model_error.hpp"

namespace lockstep {

// Names visible to an expression: a few of its own, then those of the enclosing scope.
class Scope {
 public:
  explicit Scope(const Scope* outer = nullptr) : outer_(outer) {}
  void set(const std::string& name, std::int64_t value);
  std::optional<std::int64_t> find(std::string_view name) const;
  std::vector<std::string> names() const;

 private:
  const Scope* outer_;
  std::vector<std::pair<std::string, std::int64_t>> values_;
};

class Expression {
 public:
  Expression() = default;
  explicit Expression(std::int64_t constant);
  static Expression parse(std::string_view text);   // throws ModelError
  std::int64_t evaluate(const Scope& scope) const;  // throws ModelError

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
