// Formats diagnostics and finds the suggestion "did you mean". The suggestion is the allowed word
// with the smallest edit distance, if that distance is 1, or at most 3 and at most a third of the
// word's length.
#include "core/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>

namespace lockstep {

namespace {

// Texts of all diagnostics, one per line.
std::string joined(const std::vector<Diagnostic>& diagnostics) {
  std::string text;
  for (const auto& diagnostic : diagnostics) {
    if (!text.empty()) text += '\n';
    text += to_string(diagnostic);
  }
  return text;
}

// Number of edits between two words: insertions, deletions, substitutions and swaps of neighbouring
// letters cost 1 (optimal string alignment). `before` and `previous` are the two rows above `row`
// of the dynamic program.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), previous(b.size() + 1), row(b.size() + 1);
  std::iota(previous.begin(), previous.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitute = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({previous[j] + 1, row[j - 1] + 1, substitute});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, previous);
    std::swap(previous, row);
  }
  return previous[b.size()];
}

// Edit distance of a word from `name`, which differs from the word, and therefore at least 1. Words
// that differ only in upper and lower case have the distance 1.
std::size_t distance_to(std::string_view word, const std::string& name) {
  return std::max<std::size_t>(1, edit_distance(lower_case(word), lower_case(name)));
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

std::string to_string(const Diagnostic& diagnostic) {
  std::string text;
  if (!diagnostic.where.file.empty()) text += diagnostic.where.file + ":";
  if (diagnostic.where.line > 0) {
    text += fmt::format("{}:{}:", diagnostic.where.line, diagnostic.where.column);
  }
  if (!text.empty()) text += ' ';
  if (!diagnostic.field.empty()) text += diagnostic.field + ": ";
  text += diagnostic.message;
  if (!diagnostic.hint.empty()) text += "; " + diagnostic.hint;
  return text;
}

ConfigError::ConfigError(std::vector<Diagnostic> diagnostics)
    : std::runtime_error(joined(diagnostics)), diagnostics_(std::move(diagnostics)) {}

ConfigError::ConfigError(Diagnostic diagnostic)
    : ConfigError(std::vector<Diagnostic>{std::move(diagnostic)}) {}

ConfigError file_error(std::string file, std::string field, std::string message, std::string hint) {
  return ConfigError(
      Diagnostic{{std::move(file), 0, 0}, std::move(field), std::move(message), std::move(hint)});
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t most = 60;
  std::size_t end = std::min(text.size(), most);
  // Do not cut inside of a UTF-8 character.
  while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) {
    --end;
  }
  std::string result = "'";
  for (const char c : text.substr(0, end)) {
    result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  }
  return result + (end < text.size() ? "...'" : "'");
}

std::string allowed_hint(std::string_view word, const std::vector<std::string>& allowed) {
  if (allowed.empty()) return "";
  constexpr std::size_t shown = 12;
  // Words from a hostile file may be megabytes long, and the distance takes quadratic time. 64
  // bytes are enough, because allowed words are shorter.
  const std::string_view short_word = word.substr(0, 64);
  std::vector<std::pair<std::size_t, std::string>> ranked;
  for (const auto& name : allowed) {
    ranked.emplace_back(short_word == name ? 0 : distance_to(short_word, name), name);
  }
  const auto nearest = *std::min_element(ranked.begin(), ranked.end());
  std::vector<std::string> list = allowed;
  // Show the nearest dozen, in alphabetical order.
  if (list.size() > shown) {
    std::stable_sort(ranked.begin(), ranked.end());
    list.clear();
    for (std::size_t i = 0; i < shown; ++i) list.push_back(ranked[i].second);
    std::sort(list.begin(), list.end());
    list.push_back(fmt::format("and {} more", allowed.size() - shown));
  }
  std::string text = fmt::format("allowed: {}", fmt::join(list, ", "));
  const std::size_t tolerance =
      std::max<std::size_t>(1, std::min<std::size_t>(3, short_word.size() / 3));
  if (nearest.first > 0 && nearest.first <= tolerance) {
    text += fmt::format("; did you mean '{}'?", nearest.second);
  }
  return text;
}

}  // namespace lockstep
