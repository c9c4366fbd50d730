// Splits scripts into the tokens of the POSIX shell command language (sections 2.2 and 2.3) that
// launch scripts use, and bash's arrays. One pass over the text; statements end at newlines, ;, &
// and |.
#include "training_configs/shell_words.hpp"

#include <fmt/format.h>

#include <cctype>

namespace lockstep {
namespace {

// Largest number of statements of a script.
constexpr std::size_t most_statements = 20'000;

class Lexer {
 public:
  Lexer(const std::string& text, const std::string& path) : text_(text), path_(path) {}

  std::vector<ShellStatement> statements() {
    while (!at_end()) step();
    end_statement();
    return std::move(statements_);
  }

 private:
  bool at_end() const { return at_ >= text_.size(); }
  char here() const { return at_end() ? '\0' : text_[at_]; }
  char next() const { return at_ + 1 < text_.size() ? text_[at_ + 1] : '\0'; }
  Location place() const { return {path_, line_, static_cast<int>(at_ - line_start_) + 1}; }

  void advance() {
    if (here() == '\n') {
      ++line_;
      line_start_ = at_ + 1;
    }
    ++at_;
  }

  [[noreturn]] void fail(const Location& where, const char* message) const {
    throw ConfigError(Diagnostic{where, "", message, "it is read as a shell script"});
  }

  // Reads one token: a blank, an operator, a comment or a word.
  void step() {
    const char c = here();
    // A backslash at the end joins two lines.
    if (c == '\\' && next() == '\n') {
      advance();
      return advance();
    }
    if (c == '\r' || c == ' ' || c == '\t') return advance();
    if (c == '\n') {
      end_statement();
      current_.joint.clear();
      advance();
      return skip_heredocs();
    }
    if (c == '#') return skip_line();
    if (c == ';' || c == '|' || c == '&') {
      end_statement();
      while (here() == c) {
        current_.joint += c;
        advance();
      }
      return;
    }
    if (c == '>' || (c == '<' && next() != '<')) return skip_redirection();
    if (c == '<') return begin_heredoc();
    if (c == '(' || c == ')') {
      word_here(ShellWord{{{std::string(1, c), ShellPart::Quotes::none}}, {}, false, place()});
      return advance();
    }
    word_here(word());
  }

  // Appends a word to the present statement.
  void word_here(ShellWord word) {
    if (current_.words.empty()) current_.where = word.where;
    current_.words.push_back(std::move(word));
  }

  void end_statement() {
    if (current_.words.empty()) return;
    if (statements_.size() >= most_statements) fail(current_.where, "the script is too long");
    statements_.push_back(std::move(current_));
    current_ = {};
  }

  void skip_line() {
    while (!at_end() && here() != '\n') advance();
  }

  // Skips a redirection, because files are neither read nor written.
  void skip_redirection() {
    while (here() == '>' || here() == '<' || here() == '&') advance();
    while (here() == ' ') advance();
    if (!at_end() && here() != '\n' && here() != ';') word();
  }

  // Stores the word that ends the heredoc, whose lines begin after the present line.
  void begin_heredoc() {
    advance();
    advance();
    if (here() == '-') advance();
    while (here() == ' ') advance();
    std::string end;
    for (const ShellPart& part : word().parts) end += part.text;
    heredocs_.push_back(end);
  }

  // Reads the lines of heredocs, which belong to the last statement.
  void skip_heredocs() {
    for (const std::string& end : heredocs_) {
      std::string body;
      bool closed = false;
      while (!at_end() && !closed) {
        std::string line;
        while (!at_end() && here() != '\n') {
          line += here();
          advance();
        }
        if (!at_end()) advance();
        const std::size_t first = line.find_first_not_of(" \t\r");
        closed = first != std::string::npos && line.substr(first).starts_with(end) &&
                 line.size() <= first + end.size() + 1;
        if (!closed) body += line + "\n";
      }
      if (!statements_.empty()) statements_.back().heredoc = body;
    }
    heredocs_.clear();
  }

  bool ends_word(char c) const {
    return c == '\0' || c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ';' || c == '|' ||
           c == '&' || c == '<' || c == '>' || c == ')' || c == '(';
  }

  // Reads a word, which ends at a blank or an operator outside of quotes.
  ShellWord word() {
    ShellWord word;
    word.where = place();
    std::string plain;
    const auto flush = [&] {
      if (!plain.empty()) word.parts.push_back({plain, ShellPart::Quotes::none});
      plain.clear();
    };
    while (!at_end()) {
      const char c = here();
      // NAME=( begins an array.
      if (c == '(' && plain.ends_with('=') && word.parts.empty()) {
        flush();
        read_array(word);
        return word;
      }
      if (ends_word(c)) break;
      if (c == '\\') {
        advance();
        if (here() == '\n') {
          advance();
          continue;
        }
        plain += here();
        advance();
      } else if (c == '\'' || c == '"') {
        flush();
        word.parts.push_back(quoted(c));
      } else if (c == '$' || c == '`') {
        plain += expansion();
      } else {
        plain += c;
        advance();
      }
    }
    flush();
    return word;
  }

  // Reads an array. Its elements may stand on several lines, with comments between them.
  void read_array(ShellWord& array) {
    const Location start = place();
    array.is_array = true;
    advance();
    while (true) {
      while (here() == ' ' || here() == '\t' || here() == '\n' || here() == '\r' ||
             (here() == '\\' && next() == '\n'))
        advance();
      if (at_end()) fail(start, "an array's ( does not close");
      if (here() == '#') {
        skip_line();
        continue;
      }
      if (here() == ')') return advance();
      const std::size_t before = at_;
      array.elements.push_back(word());
      if (at_ == before) advance();
    }
  }

  // Reads a text in quotes; the result has no quotes.
  ShellPart quoted(char quote) {
    const Location start = place();
    ShellPart part{"", quote == '"' ? ShellPart::Quotes::weak : ShellPart::Quotes::strong};
    advance();
    while (!at_end() && here() != quote) {
      if (quote == '"' && here() == '\\' && next() == '\n') {
        advance();
        advance();
        part.text += ' ';
        continue;
      }
      if (quote == '"' && here() == '\\' && (next() == '"' || next() == '\\' || next() == '$')) {
        if (next() == '$') part.text += '\x01';  // no expansion follows
        advance();
      } else if (quote == '"' && (here() == '$' || here() == '`')) {
        part.text += expansion();
        continue;
      }
      part.text += here();
      advance();
    }
    if (at_end()) fail(start, "a quoted text is not closed");
    advance();
    return part;
  }

  // Reads "${...}", "$(...)" or "`...`" with everything inside, up to the closing bracket or quote;
  // otherwise only the "$".
  std::string expansion() {
    std::string text(1, here());
    if (here() == '`') {
      advance();
      while (!at_end() && here() != '`') {
        text += here();
        advance();
      }
      if (!at_end()) advance();
      return text + '`';
    }
    advance();
    if (here() != '{' && here() != '(') return text;
    const Location start = place();
    int depth = 0;
    do {
      if (at_end()) fail(start, "a bracket after $ does not close");
      depth += here() == '{' || here() == '(';
      depth -= here() == '}' || here() == ')';
      text += here();
      advance();
    } while (depth > 0);
    return text;
  }

  const std::string& text_;
  std::string path_;
  std::size_t at_ = 0, line_start_ = 0;
  int line_ = 1;
  ShellStatement current_;
  std::vector<std::string> heredocs_;
  std::vector<ShellStatement> statements_;
};

}  // namespace

std::string ShellWord::plain() const {
  return parts.size() == 1 && parts[0].quotes == ShellPart::Quotes::none ? parts[0].text : "";
}

std::vector<ShellStatement> shell_statements(const std::string& text, const std::string& path) {
  return Lexer(text, path).statements();
}

}  // namespace lockstep
