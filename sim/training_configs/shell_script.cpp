// Evaluates the parts of launch scripts that have no side effects: expansion and field splitting of
// the POSIX shell command language (section 2.6), and bash's arrays and tests. Scripts are
// untrusted, so the length of texts, the depth and the number of statements are bounded.
//
// A variable that is not set stays as `$NAME`, because the environment may set it. The tests -z and
// -n take a text with `$` as empty.
#include "training_configs/shell_script.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "training_configs/facts.hpp"
#include "training_configs/shell_words.hpp"

namespace lockstep {
namespace {

// Largest length of one expanded text, and deepest nesting of expansions.
constexpr std::size_t most_text = std::size_t{1} << 18;
constexpr int most_depth = 40;

// Whether the character may stand in a variable's name.
bool is_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// Splits a text at blanks, tabs and newlines, as the shell does by default (IFS).
std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : text) {
    if (c != ' ' && c != '\t' && c != '\n') {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

// The variables of a script; expands texts that contain them.
class Variables {
 public:
  std::map<std::string, std::string> texts;
  std::map<std::string, std::vector<std::string>> arrays;

  // The text with its variables replaced. \x01 precedes a character that must not be expanded, such
  // as an escaped dollar. Throws ConfigError for variables that refer to each other in a circle,
  // and for texts that grow too long.
  std::string expanded(const std::string& text, const Location& where, int depth = 0) {
    if (depth > most_depth) fail(where, "variables that stand for each other");
    std::string result;
    for (std::size_t i = 0; i < text.size();) {
      if (text[i] == '\x01') {
        result += text.substr(i + 1, 1);
        i += 2;
        continue;
      }
      if (text[i] != '$') {
        result += text[i++];
        continue;
      }
      const std::size_t end = end_of(text, i);
      result += value(text.substr(i, end - i), where, depth);
      i = end;
      if (result.size() > most_text) fail(where, "a variable grows too long");
    }
    return result;
  }

  // The value of an arithmetic expression of whole numbers; nothing for other expressions.
  std::optional<std::int64_t> arithmetic(const std::string& text, const Location& where,
                                         int depth) {
    Arithmetic expression{expanded(text, where, depth + 1), *this};
    return expression.result();
  }

 private:
  // A recursive-descent parser of arithmetic on whole numbers: sums of products of atoms. Names may
  // lack the $, as in $((NODES * 8)). Anything else makes the expression `wrong`, so that it stays
  // as written.
  struct Arithmetic {
    std::string text;
    Variables& variables;
    std::size_t at = 0;
    bool wrong = false;
    int depth = 0;

    std::optional<std::int64_t> result() {
      const std::int64_t value = sum();
      skip();
      if (wrong || at != text.size()) return std::nullopt;
      return value;
    }
    void skip() {
      while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at])) != 0) ++at;
    }
    bool takes(char c) {
      skip();
      if (at >= text.size() || text[at] != c) return false;
      ++at;
      return true;
    }
    // sum = product {(+ | -) product}
    std::int64_t sum() {
      std::int64_t value = product();
      while (true) {
        if (takes('+'))
          value += product();
        else if (takes('-'))
          value -= product();
        else
          return value;
      }
    }
    // product = atom {(* | / | %) atom}
    std::int64_t product() {
      std::int64_t value = atom();
      while (true) {
        if (takes('*')) {
          if (__builtin_mul_overflow(value, atom(), &value)) wrong = true;
        } else if (takes('/') || takes('%')) {
          const bool rest = text[at - 1] == '%';
          const std::int64_t divisor = atom();
          if (divisor == 0)
            wrong = true;
          else
            value = rest ? value % divisor : value / divisor;
        } else {
          return value;
        }
        if (wrong) return 0;
      }
    }
    // atom = ( sum ) | number | name
    std::int64_t atom() {
      if (++depth > 60) wrong = true;
      if (wrong) return 0;
      if (takes('(')) {
        const std::int64_t value = sum();
        if (!takes(')')) wrong = true;
        return value;
      }
      skip();
      const std::size_t start = at;
      while (at < text.size() && is_name(text[at])) ++at;
      const std::string word = text.substr(start, at - start);
      const auto number = number_in(word);
      if (number && std::abs(*number) < 1e15) return static_cast<std::int64_t>(*number);
      const auto found = variables.texts.find(word);
      const auto inner = found == variables.texts.end() ? std::nullopt : number_in(found->second);
      if (!inner || std::abs(*inner) > 1e15) {
        wrong = true;
        return 0;
      }
      return static_cast<std::int64_t>(*inner);
    }
  };

  [[noreturn]] static void fail(const Location& where, const char* message) {
    throw ConfigError(Diagnostic{where, "", message, "the script is not executed, only read"});
  }

  // The end of the expansion that begins with the $ at `dollar`: after balanced brackets, one
  // digit, or a name.
  static std::size_t end_of(const std::string& text, std::size_t dollar) {
    std::size_t i = dollar + 1;
    if (i >= text.size()) return i;
    if (text[i] == '{' || text[i] == '(') {
      int depth = 0;
      do {
        depth += text[i] == '{' || text[i] == '(';
        depth -= text[i] == '}' || text[i] == ')';
        ++i;
      } while (i < text.size() && depth > 0);
      return i;
    }
    if (!is_name(text[i])) return i + 1;
    if (std::isdigit(static_cast<unsigned char>(text[i])) != 0) return i + 1;
    while (i < text.size() && is_name(text[i])) ++i;
    return i;
  }

  // The value of a reference: $NAME, ${...}, $(...), $((...)). An unknown reference stays as it is
  // written.
  std::string value(const std::string& reference, const Location& where, int depth) {
    if (reference.starts_with("$((") && reference.ends_with("))")) {
      const auto number = arithmetic(reference.substr(3, reference.size() - 5), where, depth);
      return number ? std::to_string(*number) : reference;
    }
    if (reference.starts_with("$(")) return command(reference, where, depth);
    if (!reference.starts_with("${")) {
      const auto found = texts.find(reference.substr(1));
      if (found != texts.end()) return found->second;
      const char last = reference.back();
      // The script's own arguments ($1, $@) are empty.
      const bool argument =
          std::isdigit(static_cast<unsigned char>(last)) != 0 || last == '@' || last == '*';
      if (argument) return "";
      return array_text(reference.substr(1)).value_or(reference);
    }
    return braces(reference.substr(2, reference.size() - 3), where, depth).value_or(reference);
  }

  // Evaluates "$(expr 2 \* 4)" as arithmetic; other commands stay as written.
  std::string command(const std::string& reference, const Location& where, int depth) {
    std::string inner = reference.substr(2, reference.size() - 3);
    if (!inner.starts_with("expr ")) return reference;
    std::erase(inner, '\\');
    const auto number = arithmetic(inner.substr(5), where, depth);
    return number ? std::to_string(*number) : reference;
  }

  // The elements of an array, joined by blanks.
  std::optional<std::string> array_text(const std::string& name) const {
    const auto found = arrays.find(name);
    if (found == arrays.end()) return std::nullopt;
    std::string text;
    for (const std::string& element : found->second) text += (text.empty() ? "" : " ") + element;
    return text;
  }

  // ${NAME}, ${NAME[@]}, ${NAME:-default}, ${NAME:=default}, ${NAME:+other}. Nothing for other
  // forms.
  std::optional<std::string> braces(const std::string& inner, const Location& where, int depth) {
    std::size_t end = 0;
    while (end < inner.size() && is_name(inner[end])) ++end;
    const std::string name = inner.substr(0, end), rest = inner.substr(end);
    if (rest == "[@]" || rest == "[*]") return array_text(name).value_or("");
    const auto found = texts.find(name);
    const bool there = found != texts.end() && !found->second.empty();
    if (rest.empty()) {
      if (found != texts.end()) return found->second;
      return array_text(name);
    }
    if (rest.starts_with(":-") || rest.starts_with(":=") || rest.starts_with("-") ||
        rest.starts_with("=")) {
      if (there) return found->second;
      std::string fallback = rest.substr(rest.starts_with(":") ? 2 : 1);
      std::erase(fallback, '"');
      const std::string text = expanded(fallback, where, depth + 1);
      // `:=` also assigns.
      if (rest.find('=') < 2) texts[name] = text;
      return text;
    }
    if (rest.starts_with(":+"))
      return there ? std::optional(expanded(rest.substr(2), where, depth + 1)) : "";
    return std::nullopt;
  }
};

// Evaluates the statements of a script, and finds the command with the most options.
class Evaluation {
 public:
  Evaluation(std::vector<ShellStatement> statements, LaunchScript& script)
      : statements_(std::move(statements)), script_(script) {}

  Variables& variables() { return variables_; }
  void run() { block(0, statements_.size(), true); }

 private:
  // The first word of a statement; "" if it is quoted.
  static std::string keyword(const ShellStatement& statement) {
    return statement.words.empty() ? "" : statement.words[0].plain();
  }

  // The index of the statement that closes the compound statement at `i`, with nested statements
  // skipped; `end` if there is none.
  std::size_t closing(std::size_t i, std::size_t end, const char* open, const char* close) const {
    int depth = 0;
    for (std::size_t k = i; k < end; ++k) {
      const std::string word = keyword(statements_[k]);
      const bool opens_loop = word == "while" || word == "until";
      if (word == open || (std::string(open) == "for" && opens_loop)) ++depth;
      if (word == close && --depth == 0) return k;
    }
    return end;
  }

  // Evaluates statements in order. `while`, `until` and `case` are skipped.
  void block(std::size_t begin, std::size_t end, bool active) {
    for (std::size_t i = begin; i < end && active; ++i) {
      const std::string word = keyword(statements_[i]);
      if (word == "if") {
        const std::size_t close = closing(i, end, "if", "fi");
        conditional(i, close);
        i = close;
      } else if (word == "for" || word == "while" || word == "until") {
        const std::size_t close = closing(i, end, "for", "done");
        if (word == "for") loop(i, close);
        i = close;
      } else if (word == "case") {
        const std::size_t close = closing(i, end, "case", "esac");
        script_.notes.push_back(
            fmt::format("the case in line {} is not followed", statements_[i].where.line));
        i = close;
      } else {
        statement(statements_[i]);
      }
    }
  }

  // Evaluates `if TEST` `then` ... `elif TEST` `then` ... `else` ... `fi`; `then` may be the first
  // word of a longer statement. If a test cannot be decided, its branch is left out, with a note.
  void conditional(std::size_t begin, std::size_t end) {
    std::size_t i = begin;
    int depth = 0;
    // The statements at which the branches of this `if` begin, and the end of the `if`.
    std::vector<std::size_t> marks{begin};
    for (std::size_t k = begin + 1; k < end; ++k) {
      const std::string word = keyword(statements_[k]);
      if (word == "if") ++depth;
      if (word == "fi") --depth;
      if (depth == 0 && (word == "elif" || word == "else")) marks.push_back(k);
    }
    marks.push_back(end);
    for (std::size_t m = 0; m + 1 < marks.size(); ++m) {
      i = marks[m];
      const bool last = keyword(statements_[i]) == "else";
      const auto outcome = last ? std::optional(true) : condition(i, marks[m + 1]);
      if (!outcome) {
        script_.notes.push_back(
            fmt::format("the condition in line {} cannot be decided: its branch is left out",
                        statements_[i].where.line));
        continue;
      }
      if (!*outcome) continue;
      branch(i, marks[m + 1], last);
      return;
    }
  }

  // Evaluates the statements after `then` or `else`.
  void branch(std::size_t head, std::size_t end, bool is_else) {
    if (is_else) {
      statement(without_first(statements_[head]));
      return block(head + 1, end, true);
    }
    for (std::size_t k = head + 1; k < end; ++k) {
      if (keyword(statements_[k]) != "then") continue;
      statement(without_first(statements_[k]));
      return block(k + 1, end, true);
    }
  }

  // The statement without its first word, a keyword.
  static ShellStatement without_first(ShellStatement statement) {
    if (!statement.words.empty()) statement.words.erase(statement.words.begin());
    return statement;
  }

  // The value of tests that are joined by && and ||, from left to right; [[ ]] may contain several
  // tests. Returns nothing if a test is a command or cannot be decided.
  std::optional<bool> condition(std::size_t head, std::size_t end) {
    std::optional<bool> all = true;
    bool inside = false;
    for (std::size_t k = head; k < end && keyword(statements_[k]) != "then"; ++k) {
      std::vector<std::string> words;
      for (const ShellWord& word : statements_[k].words) words.push_back(joined(word));
      if (k == head && !words.empty()) words.erase(words.begin());
      if (words.empty()) continue;
      const bool opens = words.front() == "[" || words.front() == "[[" || words.front() == "test";
      if (!opens && !inside) return std::nullopt;
      if (opens) words.erase(words.begin());
      inside = words.empty() || (words.back() != "]" && words.back() != "]]");
      if (!inside) words.pop_back();
      const auto outcome = test(words);
      if (!outcome) return std::nullopt;
      all = k > head && statements_[k].joint == "||" ? *all || *outcome : *all && *outcome;
    }
    return all;
  }

  // The value of a test that may begin with exclamation marks.
  std::optional<bool> test(std::vector<std::string> words) const {
    bool negated = false;
    while (!words.empty() && words.front() == "!") {
      negated = !negated;
      words.erase(words.begin());
    }
    const auto outcome = plain_test(words);
    if (!outcome) return std::nullopt;
    return *outcome != negated;
  }

  // Whether the text contains a variable that is not set.
  static bool is_open(const std::string& text) { return text.find('$') != std::string::npos; }

  // The value of a test of one, two or three words; nothing for other tests, such as tests of
  // files. A single word, -z, -n and comparisons with an empty text take a text with an unset
  // variable as empty.
  static std::optional<bool> plain_test(const std::vector<std::string>& words) {
    if (words.size() == 1) return !words[0].empty() && !is_open(words[0]);
    if (words.size() == 2 && words[0] == "-z") return words[1].empty() || is_open(words[1]);
    if (words.size() == 2 && words[0] == "-n") return !words[1].empty() && !is_open(words[1]);
    if (words.size() != 3) return std::nullopt;
    const std::string &left = words[0], &op = words[1], &right = words[2];
    const bool equal = left == right || (right.empty() && is_open(left));
    if (op == "=" || op == "==") return equal;
    if (op == "!=") return !equal;
    const auto a = number_in(left), b = number_in(right);
    if (!a || !b) return std::nullopt;
    if (op == "-eq") return *a == *b;
    if (op == "-ne") return *a != *b;
    if (op == "-lt") return *a < *b;
    if (op == "-le") return *a <= *b;
    if (op == "-gt") return *a > *b;
    if (op == "-ge") return *a >= *b;
    return std::nullopt;
  }

  // Evaluates only the first round of a `for`.
  void loop(std::size_t begin, std::size_t end) {
    const auto& words = statements_[begin].words;
    if (words.size() > 3) variables_.texts[words[1].plain()] = joined(words[3]);
    if (words.size() > 4)
      script_.notes.push_back(fmt::format("of the loop in line {} the first round is read",
                                          statements_[begin].where.line));
    for (std::size_t k = begin + 1; k < end; ++k) {
      if (keyword(statements_[k]) != "do") continue;
      statement(without_first(statements_[k]));
      return block(k + 1, end, true);
    }
  }

  // A word's text with variables replaced; text in single quotes stays.
  std::string joined(const ShellWord& word) {
    std::string text;
    for (const ShellPart& part : word.parts)
      text += part.quotes == ShellPart::Quotes::strong ? part.text
                                                       : variables_.expanded(part.text, word.where);
    return text;
  }

  // The words to which a word expands. Unquoted text is split, as in a shell; the elements of an
  // array are separate words even inside quotes.
  std::vector<std::string> words_of(const ShellWord& word) {
    const bool one = word.parts.size() == 1;
    const std::string text = joined(word);
    if (!one) {
      const bool splits =
          std::any_of(word.parts.begin(), word.parts.end(), [](const ShellPart& part) {
            return part.quotes == ShellPart::Quotes::none &&
                   part.text.find('$') != std::string::npos;
          });
      return splits ? split(text) : std::vector{text};
    }
    const ShellPart& part = word.parts[0];
    if (part.quotes == ShellPart::Quotes::none) return split(text);
    const bool elements =
        part.quotes == ShellPart::Quotes::weak && part.text.find("[@]") != std::string::npos;
    // A quoted text that begins with -- is also split, because scripts pass variables with several
    // options in quotes.
    return elements || text.starts_with("--") ? split(text) : std::vector{text};
  }

  // The variable's name if the word is an assignment. Sets `appends` for +=.
  static std::optional<std::string> assigned(const ShellWord& word, bool& appends) {
    if (word.parts.empty() || word.parts[0].quotes != ShellPart::Quotes::none) return std::nullopt;
    const std::string& text = word.parts[0].text;
    std::size_t end = 0;
    while (end < text.size() && is_name(text[end])) ++end;
    if (end == 0 || std::isdigit(static_cast<unsigned char>(text[0])) != 0) return std::nullopt;
    appends = text.compare(end, 2, "+=") == 0;
    if (!appends && (end >= text.size() || text[end] != '=')) return std::nullopt;
    return text.substr(0, end);
  }

  // Carries out NAME=... or NAME+=... with a text or an array.
  void assign(const ShellWord& word, const std::string& name, bool appends) {
    if (word.is_array) {
      std::vector<std::string> elements;
      if (appends && variables_.arrays.contains(name)) elements = variables_.arrays[name];
      for (const ShellWord& element : word.elements) {
        for (std::string& text : words_of(element)) elements.push_back(std::move(text));
      }
      variables_.arrays[name] = std::move(elements);
      return;
    }
    ShellWord value = word;
    value.parts[0].text = value.parts[0].text.substr(name.size() + (appends ? 2 : 1));
    const std::string text = joined(value);
    variables_.texts[name] = appends ? variables_.texts[name] + text : text;
  }

  // Carries out assignments; any other statement is a command that may be the launch.
  void statement(const ShellStatement& statement) {
    if (statement.words.empty()) return;
    if (++executed_ > 50'000) return;
    std::size_t first = 0;
    const std::string word = keyword(statement);
    if (word == "export" || word == "declare" || word == "local" || word == "readonly" ||
        word == "typeset")
      first = 1;
    bool only_assigns = true;
    for (std::size_t i = first; i < statement.words.size(); ++i) {
      bool appends = false;
      const auto name = assigned(statement.words[i], appends);
      // Assignments in front of a command hold only for the command in a shell; here they change
      // the variables permanently.
      if (name && (only_assigns || first == 1))
        assign(statement.words[i], *name, appends);
      else if (first == 0)
        only_assigns = false;
    }
    if (only_assigns) return;
    command(statement);
  }

  // Stores the command if it has more options than the commands before it.
  void command(const ShellStatement& statement) {
    std::vector<ScriptArgument> arguments;
    for (const ShellWord& word : statement.words) {
      for (std::string& text : words_of(word)) arguments.push_back({std::move(text), word.where});
    }
    if (!statement.heredoc.empty())
      script_.documents[fmt::format("line {}", statement.where.line)] =
          variables_.expanded(statement.heredoc, statement.where);
    std::vector<ScriptArgument> flat = with_inner_commands(arguments);
    const auto options = [](const std::vector<ScriptArgument>& list) {
      return std::count_if(list.begin(), list.end(),
                           [](const auto& argument) { return argument.text.starts_with("--"); });
    };
    if (options(flat) > options(script_.command)) script_.command = std::move(flat);
  }

  // Replaces the argument of `bash -c 'TEXT'` by the words of TEXT.
  std::vector<ScriptArgument> with_inner_commands(const std::vector<ScriptArgument>& arguments) {
    std::vector<ScriptArgument> flat;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const bool inner = i > 0 && arguments[i - 1].text.ends_with("c") &&
                         arguments[i - 1].text.starts_with("-") &&
                         arguments[i].text.find(' ') != std::string::npos;
      if (!inner) {
        flat.push_back(arguments[i]);
        continue;
      }
      const std::string text = variables_.expanded(arguments[i].text, arguments[i].where);
      for (std::string& word : split(text)) flat.push_back({std::move(word), arguments[i].where});
    }
    return flat;
  }

  std::vector<ShellStatement> statements_;
  LaunchScript& script_;
  Variables variables_;
  int executed_ = 0;
};

// Sets the variables that Slurm gives to the script, from `#SBATCH` lines with `--nodes=2`,
// `--nodes 2`, `-N 2` or `--gpus-per-node=8`.
void read_batch_header(const std::string& text, Variables& variables) {
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    std::string line = text.substr(start, end - start);
    start = end + 1;
    if (!line.starts_with("#SBATCH")) continue;
    std::replace(line.begin(), line.end(), '=', ' ');
    const std::vector<std::string> words = split(line);
    for (std::size_t i = 1; i + 1 < words.size(); ++i) {
      const bool nodes = words[i] == "--nodes" || words[i] == "-N";
      const bool whole = number_in(words[i + 1]).has_value();
      if (nodes && whole) {
        for (const char* name : {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"})
          variables.texts[name] = words[i + 1];
      }
      if (words[i] == "--gpus-per-node" && whole)
        variables.texts["SLURM_GPUS_ON_NODE"] = variables.texts["SLURM_GPUS_PER_NODE"] =
            words[i + 1];
    }
  }
}

bool is_option(const std::string& text) {
  return text.starts_with("--") && text.size() > 2 &&
         std::isalpha(static_cast<unsigned char>(text[2])) != 0;
}

// The index of the program that a launcher such as srun starts; options before it belong to the
// launcher.
std::size_t first_of_launcher(const std::vector<ScriptArgument>& words) {
  const auto starts = [](const ScriptArgument& word) {
    return word.text.find("python") != std::string::npos ||
           word.text.find("torchrun") != std::string::npos || word.text.ends_with("deepspeed") ||
           word.text.ends_with("accelerate") || word.text.ends_with(".py");
  };
  const auto first = std::find_if(words.begin(), words.end(), starts);
  return first == words.end() ? 0 : static_cast<std::size_t>(first - words.begin());
}

}  // namespace

LaunchScript launch_script(const std::string& text, const std::string& path) {
  LaunchScript script;
  Evaluation evaluation(shell_statements(text, path), script);
  read_batch_header(text, evaluation.variables());
  evaluation.run();
  if (script.command.empty())
    throw file_error(path, "", "passes no options to any command",
                     "a training config or a launch script is expected");
  return script;
}

Node options_of(const LaunchScript& script, const std::string& path) {
  Node map = Node::plain("", {path, 1, 1}).empty_map();
  const auto& words = script.command;
  for (std::size_t i = first_of_launcher(words); i < words.size(); ++i) {
    const std::string& word = words[i].text;
    const std::size_t slash = word.rfind('/');
    const std::string file = slash == std::string::npos ? word : word.substr(slash + 1);
    // The program's name shows the model's family: pretrain_bert.py, pretrain_t5.py.
    if (file.starts_with("pretrain_") && file.ends_with(".py"))
      map = map.with(file, Node::plain("true", words[i].where), words[i].where);
    if (!is_option(word)) continue;
    const std::size_t equals = word.find('=');
    std::string name = word.substr(2, equals == std::string::npos ? std::string::npos : equals - 2);
    std::replace(name.begin(), name.end(), '-', '_');
    std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    std::size_t last = i;
    // The value of an option is all words up to the next option.
    while (equals == std::string::npos && last + 1 < words.size() &&
           !is_option(words[last + 1].text)) {
      const std::string& next = words[last + 1].text;
      if (next.ends_with(".py") || next == "\\") break;
      if (!next.empty()) value += (value.empty() ? "" : " ") + next;
      ++last;
    }
    map =
        map.with(name, Node::plain(value.empty() ? "true" : value, words[i].where), words[i].where);
  }
  return map;
}

}  // namespace lockstep
