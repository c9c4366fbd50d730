// Scans log lines for numbers, sizes in bytes and times of day. It reads character by character,
// because logs mix thousands separators, exponents and units in ways that no library function
// accepts.
#include "training_logs/log_text.hpp"

#include <cctype>
#include <charconv>
#include <cmath>

namespace lockstep {
namespace {

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

// A number, and the text after it (its unit).
struct Quantity {
  double value = 0;
  std::string_view rest;
};

// The number after the first occurrence of the key that is not the end of a longer word: "step" is
// not found in "micro_step".
std::optional<Quantity> quantity_after(std::string_view line, std::string_view key) {
  std::size_t at = 0;
  while (true) {
    at = line.find(key, at);
    if (at == std::string_view::npos) return std::nullopt;
    const bool inside = at > 0 && (std::isalnum(static_cast<unsigned char>(line[at - 1])) != 0 ||
                                   line[at - 1] == '_');
    if (!inside) break;
    at += key.size();
  }
  std::string_view text = line.substr(at + key.size());
  while (!text.empty() && (text[0] == ' ' || text[0] == ':' || text[0] == '='))
    text.remove_prefix(1);
  std::string digits;
  while (!text.empty()) {
    const char c = text[0];
    // Only between digits is a comma a thousands separator.
    const bool comma = c == ',' && text.size() > 1 && is_digit(text[1]) && !digits.empty();
    const bool exponent =
        (c == 'e' || c == 'E') && text.size() > 2 && !digits.empty() &&
        (is_digit(text[1]) || ((text[1] == '+' || text[1] == '-') && is_digit(text[2])));
    const bool sign =
        (c == '-' || c == '+') && (digits.empty() || digits.back() == 'e' || digits.back() == 'E');
    if (!is_digit(c) && c != '.' && !comma && !exponent && !sign) break;
    if (!comma) digits += c;
    text.remove_prefix(1);
  }
  Quantity quantity;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), quantity.value);
  if (error != std::errc() || !std::isfinite(quantity.value)) return std::nullopt;
  quantity.rest = text;
  return quantity;
}

// Days since 1970-01-01 in the proleptic Gregorian calendar (H. Hinnant, chrono-compatible
// low-level date algorithms).
double days_from_civil(int year, int month, int day) {
  year -= month <= 2;
  const int era = year / 400;
  const int year_of_era = year - era * 400;
  const int day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  const int day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return era * 146097.0 + day_of_era - 719468;
}

// The number that `count` digits at a place of the text form; nothing if a character there is no
// digit.
std::optional<int> digits_at(std::string_view text, std::size_t at, std::size_t count) {
  if (at + count > text.size()) return std::nullopt;
  int value = 0;
  for (std::size_t i = at; i < at + count; ++i) {
    if (!is_digit(text[i])) return std::nullopt;
    value = 10 * value + (text[i] - '0');
  }
  return value;
}

// Seconds of "15:57:42,774" at a place of the text; the fraction may follow a comma or a dot.
std::optional<double> time_of_day(std::string_view text, std::size_t at) {
  const auto hours = digits_at(text, at, 2), minutes = digits_at(text, at + 3, 2),
             seconds = digits_at(text, at + 6, 2);
  if (!hours || !minutes || !seconds) return std::nullopt;
  if (text[at + 2] != ':' || text[at + 5] != ':') return std::nullopt;
  double fraction = 0, unit = 0.1;
  std::size_t i = at + 8;
  if (i < text.size() && (text[i] == ',' || text[i] == '.')) {
    for (++i; i < text.size() && is_digit(text[i]); ++i, unit /= 10)
      fraction += unit * (text[i] - '0');
  }
  return *hours * 3600.0 + *minutes * 60.0 + *seconds + fraction;
}

}  // namespace

std::optional<double> number_after(std::string_view line, std::string_view key) {
  const auto quantity = quantity_after(line, key);
  if (!quantity) return std::nullopt;
  const char unit = quantity->rest.empty() ? ' ' : quantity->rest[0];
  // A letter is a multiple (K, M, G) only if no other letter follows, so 4.34GB has none.
  const bool alone =
      quantity->rest.size() < 2 || std::isalpha(static_cast<unsigned char>(quantity->rest[1])) == 0;
  if (alone && unit == 'K') return quantity->value * 1e3;
  if (alone && unit == 'M') return quantity->value * 1e6;
  if (alone && unit == 'G') return quantity->value * 1e9;
  return quantity->value;
}

std::optional<double> bytes_after(std::string_view line, std::string_view key) {
  const auto quantity = quantity_after(line, key);
  if (!quantity || quantity->value <= 0) return std::nullopt;
  std::string_view unit = quantity->rest;
  while (!unit.empty() && unit[0] == ' ') unit.remove_prefix(1);
  // Megatron's lines have no unit; their heading says MB, but means MiB.
  const char letter = unit.empty() ? 'M' : unit[0];
  const double factor = letter == 'G' ? 1 << 30 : letter == 'K' ? 1 << 10 : 1 << 20;
  return quantity->value * factor;
}

std::optional<double> clock_in(std::string_view line) {
  for (std::size_t i = 0; i + 19 <= line.size(); ++i) {
    const bool start = is_digit(line[i]) && (i == 0 || !is_digit(line[i - 1]));
    if (!start) continue;
    const auto time =
        line[i + 10] == ' ' || line[i + 10] == 'T' ? time_of_day(line, i + 11) : std::nullopt;
    if (!time) continue;
    // The date has ISO order, otherwise American order (month/day/year).
    const auto year = digits_at(line, i, 4), month = digits_at(line, i + 5, 2),
               day = digits_at(line, i + 8, 2);
    if (year && month && day) return days_from_civil(*year, *month, *day) * 86400 + *time;
    const auto first = digits_at(line, i, 2), second = digits_at(line, i + 3, 2),
               last = digits_at(line, i + 6, 4);
    if (first && second && last) return days_from_civil(*last, *first, *second) * 86400 + *time;
  }
  return std::nullopt;
}

std::optional<double> duration_in(std::string_view text) {
  double days = 0;
  const std::size_t word = text.find("day");
  if (word != std::string_view::npos) {
    const auto count = number_after(text, "");
    const std::size_t comma = text.find(", ");
    if (!count || comma == std::string_view::npos) return std::nullopt;
    days = *count;
    text.remove_prefix(comma + 2);
  }
  // Python's timedelta writes hours without a leading zero.
  const std::string padded = text.find(':') == 1 ? "0" + std::string(text) : std::string(text);
  const auto time = time_of_day(padded, 0);
  if (!time) return std::nullopt;
  return days * 86400 + *time;
}

std::vector<std::string> csv_fields(std::string_view line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else if (c != '\r') {
      fields.back() += c;
    }
  }
  return fields;
}

}  // namespace lockstep
