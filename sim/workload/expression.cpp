// Recursive-descent parser and evaluator of the model files' integer expressions. One parse
// function per level of precedence, from the loosest to the tightest:
//
//   or  <  and  <  not  <  == != <= >= < >  <  + -  <  * // / %  <  unary -, calls, names, numbers
//
// In terms_, operands precede their operator, so the root is the last term. Length and nesting are
// limited, because the text comes from a user's file.
#include "workload/expression.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "core/errors.hpp"
#include "workload/checked.hpp"

namespace lockstep {

namespace {

// Bounds of one expression: depth of parentheses and unary operators, characters.
constexpr int max_nesting = 64;
constexpr std::size_t max_length = 1000;

struct Function {
  const char* name;
  std::size_t arguments;
};
constexpr std::array functions{Function{"min", 2}, Function{"max", 2}, Function{"if", 3},
                               Function{"ceil_div", 2}, Function{"make_divisible", 2}};

// `//` rounds toward minus infinity, as in Python; C++ rounds toward zero. Division by -1 is
// handled separately, because it overflows for the smallest integer.
std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  if (b == 0) throw ModelError("division by zero");
  if (b == -1) return checked_subtract(0, a);
  const std::int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

// `/` must leave no remainder, because a size that is rounded silently would describe a wrong
// network.
std::int64_t exact_divide(std::int64_t a, std::int64_t b) {
  const std::int64_t quotient = floor_divide(a, b);
  if (quotient * b != a) {
    throw ModelError(fmt::format("{} is not divisible by {}", a, b),
                     "`//` divides and rounds down, ceil_div(a, b) rounds up");
  }
  return quotient;
}

// Channel counts rounded to the nearest multiple of `divisor`, but never down by more than 10 %:
// _make_divisible of the MobileNet reference code and of torchvision.
std::int64_t make_divisible(std::int64_t value, std::int64_t divisor) {
  if (divisor <= 0) throw ModelError("make_divisible needs a positive divisor");
  const std::int64_t rounded = std::max(
      divisor, checked_multiply(floor_divide(checked_add(value, divisor / 2), divisor), divisor));
  return checked_multiply(rounded, 10) < checked_multiply(value, 9) ? rounded + divisor : rounded;
}

}  // namespace

void Scope::set(const std::string& name, std::int64_t value) {
  for (auto& entry : values_) {
    if (entry.first == name) {
      entry.second = value;
      return;
    }
  }
  values_.emplace_back(name, value);
}

std::optional<std::int64_t> Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->outer_) {
    for (const auto& [key, value] : scope->values_) {
      if (key == name) return value;
    }
  }
  return std::nullopt;
}

std::vector<std::string> Scope::names() const {
  std::vector<std::string> result;
  for (const Scope* scope = this; scope != nullptr; scope = scope->outer_) {
    for (const auto& entry : scope->values_) result.push_back(entry.first);
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

// Parses one text. Every parse function consumes its part of the text and returns the index of the
// term that it has added.
class ExpressionParser {
 public:
  explicit ExpressionParser(std::string_view text) : text_(text) {}

  Expression parse() {
    if (text_.size() > max_length) throw ModelError("the expression is too long");
    parse_or(0);
    skip_spaces();
    if (position_ != text_.size()) {
      throw ModelError(
          fmt::format("unexpected '{}' in the expression '{}'", text_.substr(position_, 1), text_));
    }
    return std::move(result_);
  }

 private:
  using Kind = Expression::Kind;

  int add(Expression::Term term) {
    result_.terms_.push_back(std::move(term));
    return static_cast<int>(result_.terms_.size()) - 1;
  }
  int binary(std::string_view symbol, int left, int right) {
    return add({Kind::binary, 0, std::string(symbol), {left, right}});
  }

  void skip_spaces() {
    while (position_ < text_.size() && text_[position_] == ' ') ++position_;
  }
  bool accept(std::string_view symbol) {
    skip_spaces();
    if (text_.substr(position_, symbol.size()) != symbol) return false;
    position_ += symbol.size();
    return true;
  }
  // Accepts a keyword, but not the beginning of a longer name: "or" is not accepted in "order".
  bool accept_word(std::string_view word) {
    skip_spaces();
    if (text_.substr(position_, word.size()) != word) return false;
    const std::size_t end = position_ + word.size();
    if (end < text_.size() && is_name(text_[end])) return false;
    position_ = end;
    return true;
  }
  static bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

  int parse_or(int depth) {
    if (depth > max_nesting) throw ModelError("the expression is nested too deeply");
    int left = parse_and(depth);
    while (accept_word("or")) left = binary("or", left, parse_and(depth));
    return left;
  }
  int parse_and(int depth) {
    int left = parse_not(depth);
    while (accept_word("and")) left = binary("and", left, parse_not(depth));
    return left;
  }
  int parse_not(int depth) {
    if (depth > max_nesting) throw ModelError("the expression is nested too deeply");
    if (accept_word("not")) return add({Kind::unary, 0, "not", {parse_not(depth + 1)}});
    return parse_comparison(depth);
  }
  int parse_comparison(int depth) {
    const int left = parse_sum(depth);
    for (const char* symbol : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (accept(symbol)) return binary(symbol, left, parse_sum(depth));
    }
    return left;
  }
  int parse_sum(int depth) {
    int left = parse_product(depth);
    while (true) {
      if (accept("+")) {
        left = binary("+", left, parse_product(depth));
      } else if (accept("-")) {
        left = binary("-", left, parse_product(depth));
      } else {
        return left;
      }
    }
  }
  // "//" must be tried before "/", which is its first character.
  int parse_product(int depth) {
    int left = parse_atom(depth);
    while (true) {
      if (accept("*")) {
        left = binary("*", left, parse_atom(depth));
      } else if (accept("//")) {
        left = binary("//", left, parse_atom(depth));
      } else if (accept("/")) {
        left = binary("/", left, parse_atom(depth));
      } else if (accept("%")) {
        left = binary("%", left, parse_atom(depth));
      } else {
        return left;
      }
    }
  }
  int parse_atom(int depth) {
    if (depth > max_nesting) throw ModelError("the expression is nested too deeply");
    if (accept("-")) return add({Kind::unary, 0, "-", {parse_atom(depth + 1)}});
    if (accept("(")) {
      const int inner = parse_or(depth + 1);
      if (!accept(")")) throw ModelError(fmt::format("missing ')' in '{}'", text_));
      return inner;
    }
    skip_spaces();
    std::size_t end = position_;
    while (end < text_.size() && is_name(text_[end])) ++end;
    const std::string_view word = text_.substr(position_, end - position_);
    if (word.empty()) {
      throw ModelError(fmt::format("a number or a name is missing in '{}'", text_),
                       "allowed: integers, names, + - * / // %, comparisons, and, or, not, "
                       "min, max, if, ceil_div, make_divisible");
    }
    position_ = end;
    if (std::isdigit(static_cast<unsigned char>(word[0]))) return parse_number(word);
    if (accept("(")) return parse_call(word, depth);
    if (word == "true" || word == "false") return add({Kind::constant, word == "true", "", {}});
    return add({Kind::name, 0, std::string(word), {}});
  }
  // A word that begins with a digit. "64k" and "1.5" are errors: sizes are integers without
  // suffixes.
  int parse_number(std::string_view word) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size() ||
        (position_ < text_.size() && text_[position_] == '.')) {
      throw ModelError(fmt::format("'{}' is not an integer expression", text_));
    }
    return add({Kind::constant, value, "", {}});
  }
  int parse_call(std::string_view word, int depth) {
    const auto* function = std::find_if(functions.begin(), functions.end(),
                                        [&](const Function& f) { return word == f.name; });
    if (function == functions.end()) {
      std::vector<std::string> names;
      for (const Function& f : functions) names.emplace_back(f.name);
      throw ModelError(fmt::format("unknown function '{}'", word), allowed_hint(word, names));
    }
    std::vector<int> operands;
    do {
      operands.push_back(parse_or(depth + 1));
    } while (accept(","));
    if (!accept(")")) throw ModelError(fmt::format("missing ')' in '{}'", text_));
    if (operands.size() != function->arguments) {
      throw ModelError(
          fmt::format("{} takes {} arguments, not {}", word, function->arguments, operands.size()));
    }
    return add({Kind::call, 0, std::string(word), std::move(operands)});
  }

  std::string_view text_;
  std::size_t position_ = 0;
  Expression result_;
};

Expression::Expression(std::int64_t constant) : terms_{{Kind::constant, constant, "", {}}} {}

Expression Expression::parse(std::string_view text) {
  return ExpressionParser(text).parse();
}

std::int64_t Expression::evaluate(const Scope& scope) const {
  return evaluate(terms_.back(), scope);
}

// Evaluates the term's subtree. `and`, `or` and if() evaluate only the operands that they need, so
// that a condition can guard a division.
std::int64_t Expression::evaluate(const Term& term, const Scope& scope) const {
  const auto operand = [&](std::size_t i) { return evaluate(terms_[term.operands[i]], scope); };
  switch (term.kind) {
    case Kind::constant:
      return term.value;
    case Kind::name: {
      const std::optional<std::int64_t> value = scope.find(term.text);
      if (!value) {
        throw ModelError(fmt::format("unknown name '{}'", term.text),
                         allowed_hint(term.text, scope.names()));
      }
      return *value;
    }
    case Kind::unary:
      return term.text == "-" ? checked_subtract(0, operand(0)) : operand(0) == 0;
    case Kind::call:
      return call(term, scope);
    case Kind::binary:
      break;
  }
  const std::int64_t a = operand(0);
  if (term.text == "and") return a != 0 && operand(1) != 0;
  if (term.text == "or") return a != 0 || operand(1) != 0;
  const std::int64_t b = operand(1);
  if (term.text == "+") return checked_add(a, b);
  if (term.text == "-") return checked_subtract(a, b);
  if (term.text == "*") return checked_multiply(a, b);
  if (term.text == "/") return exact_divide(a, b);
  if (term.text == "//") return floor_divide(a, b);
  if (term.text == "%") return a - floor_divide(a, b) * b;
  if (term.text == "==") return a == b;
  if (term.text == "!=") return a != b;
  if (term.text == "<=") return a <= b;
  if (term.text == ">=") return a >= b;
  if (term.text == "<") return a < b;
  return a > b;
}

std::int64_t Expression::call(const Term& term, const Scope& scope) const {
  const auto operand = [&](std::size_t i) { return evaluate(terms_[term.operands[i]], scope); };
  if (term.text == "if") return operand(0) != 0 ? operand(1) : operand(2);
  const std::int64_t a = operand(0);
  const std::int64_t b = operand(1);
  if (term.text == "min") return std::min(a, b);
  if (term.text == "max") return std::max(a, b);
  if (term.text == "make_divisible") return make_divisible(a, b);
  return checked_subtract(0, floor_divide(checked_subtract(0, a), b));  // ceil_div
}

}  // namespace lockstep
