// Reads and prints quantities with the help of one table of units per dimension. Parsing, the
// shortest exact text, help and the pattern of the JSON Schema all follow from that table.
#include "core/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <vector>

#include "core/errors.hpp"

namespace lockstep {

namespace {

// One unit: its name and its size in base units.
struct Unit {
  const char* name;
  double factor;
  bool in_help = true;  // false: accepted, but not shown in messages or written
};

constexpr double kibi = 1024.0;

constexpr std::array byte_units{Unit{"B", 1},
                                Unit{"kB", 1e3},
                                Unit{"MB", 1e6},
                                Unit{"GB", 1e9},
                                Unit{"TB", 1e12},
                                Unit{"KiB", kibi},
                                Unit{"MiB", kibi* kibi},
                                Unit{"GiB", kibi* kibi* kibi},
                                Unit{"TiB", kibi* kibi* kibi* kibi}};
constexpr std::array second_units{Unit{"ns", 1e-9}, Unit{"us", 1e-6}, Unit{"ms", 1e-3},
                                  Unit{"s", 1},     Unit{"min", 60},  Unit{"h", 3600},
                                  Unit{"d", 86400}};
constexpr std::array rate_units{Unit{"B/s", 1},
                                Unit{"kB/s", 1e3},
                                Unit{"MB/s", 1e6},
                                Unit{"GB/s", 1e9},
                                Unit{"TB/s", 1e12},
                                Unit{"MiB/s", kibi* kibi},
                                Unit{"GiB/s", kibi* kibi* kibi},
                                Unit{"kbit/s", 1e3 / 8},
                                Unit{"Mbit/s", 1e6 / 8},
                                Unit{"Gbit/s", 1e9 / 8},
                                Unit{"Tbit/s", 1e12 / 8}};
constexpr std::array flop_units{Unit{"FLOP/s", 1}, Unit{"MFLOP/s", 1e6}, Unit{"GFLOP/s", 1e9},
                                Unit{"TFLOP/s", 1e12}, Unit{"PFLOP/s", 1e15}};
constexpr std::array hertz_units{Unit{"Hz", 1}, Unit{"kHz", 1e3}, Unit{"MHz", 1e6},
                                 Unit{"GHz", 1e9}};
constexpr std::array count_units{Unit{"", 1},    Unit{"k", 1e3},        Unit{"M", 1e6},
                                 Unit{"B", 1e9}, Unit{"G", 1e9, false}, Unit{"T", 1e12}};
constexpr std::array fraction_units{Unit{"", 1}, Unit{"%", 1e-2}};
constexpr std::array dollar_units{Unit{"USD", 1}};
constexpr std::array dollar_rate_units{Unit{"USD/h", 1}};
constexpr std::array watt_units{Unit{"W", 1}, Unit{"kW", 1e3}};
constexpr std::array plain_units{Unit{"", 1}};

// A dimension's units, and the words for its messages.
struct DimensionInfo {
  std::span<const Unit> units;
  const char* noun;
  const char* example;
};

DimensionInfo info(Dimension dimension) {
  switch (dimension) {
    case Dimension::none:
      return {plain_units, "a number", "0.5"};
    case Dimension::count:
      return {count_units, "a count", "125M"};
    case Dimension::bytes:
      return {byte_units, "bytes", "80 GiB"};
    case Dimension::seconds:
      return {second_units, "a time", "3.4 us"};
    case Dimension::bytes_per_second:
      return {rate_units, "a data rate", "2039 GB/s"};
    case Dimension::flops_per_second:
      return {flop_units, "a compute rate", "312 TFLOP/s"};
    case Dimension::hertz:
      return {hertz_units, "a frequency", "1410 MHz"};
    case Dimension::fraction:
      return {fraction_units, "a fraction", "2%"};
    case Dimension::dollars:  // cents; below 10 cents, three significant digits
      return {dollar_units, "an amount of money", "120 USD"};
    case Dimension::dollars_per_hour:
      return {dollar_rate_units, "a price", "4.10 USD/h"};
    case Dimension::watts:
      return {watt_units, "a power", "400 W"};
  }
  return {plain_units, "a number", "0.5"};
}

std::string unit_list(const DimensionInfo& dimension) {
  std::vector<std::string> names;
  for (const auto& unit : dimension.units) {
    if (unit.in_help && *unit.name != '\0') names.emplace_back(unit.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

// A value in the base unit. If the factor (1e-6) has no exact double, the value is divided by the
// reciprocal, which is a whole number: 3.4 us is 3.4 / 1000000, the double nearest to 0.0000034.
double in_base_unit(double value, const Unit& unit) {
  return unit.factor < 1 ? value / std::round(1 / unit.factor) : value * unit.factor;
}

// The text without blanks and tabs at its beginning and end.
std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

}  // namespace

double parse_quantity(std::string_view text, Dimension dimension) {
  const DimensionInfo unit_info = info(dimension);
  const std::string_view whole = trimmed(text);
  std::string_view number = whole;
  // std::from_chars accepts no plus sign.
  if (number.size() > 1 && number.front() == '+' && number[1] != '-') number.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error == std::errc::result_out_of_range) {
    throw UnitError(fmt::format("{} is too large or too small a number", in_quotes(whole)));
  }
  if (error != std::errc{} || !std::isfinite(value)) {
    throw UnitError(fmt::format("{} is not {}, write for example {}", in_quotes(whole),
                                unit_info.noun, unit_info.example));
  }
  const std::string_view unit =
      trimmed(number.substr(static_cast<std::size_t>(end - number.data())));
  for (const auto& candidate : unit_info.units) {
    if (unit == candidate.name) {
      const double result = in_base_unit(value, candidate);
      if (!std::isfinite(result)) {
        throw UnitError(fmt::format("{} is too large", in_quotes(whole)));
      }
      return result;
    }
  }
  if (unit.empty()) {
    throw UnitError(fmt::format("{} needs a unit, for example {}; allowed units: {}",
                                in_quotes(whole), unit_info.example, unit_list(unit_info)));
  }
  std::string message = fmt::format("unknown unit {} in {}", in_quotes(unit), in_quotes(whole));
  const std::string units = unit_list(unit_info);
  message += units.empty() ? "; a plain number is expected" : "; allowed units: " + units;
  // Units are case sensitive (MB, Mbit). If only the case is wrong, suggest the right unit.
  for (const auto& candidate : unit_info.units) {
    if (lower_case(candidate.name) == lower_case(unit)) {
      message += fmt::format("; did you mean '{}'?", candidate.name);
      break;
    }
  }
  throw UnitError(message);
}

std::string quantity_text(double value, Dimension dimension) {
  // Try all units, and take the shortest text that reads back to the same double.
  std::string best;
  for (const auto& unit : info(dimension).units) {
    if (!unit.in_help) continue;
    const double scaled =
        unit.factor < 1 ? value * std::round(1 / unit.factor) : value / unit.factor;
    if (!std::isfinite(scaled)) continue;
    std::string text = fmt::format("{}", scaled);
    if (*unit.name == '%') {
      text += "%";
    } else if (*unit.name != '\0') {
      // Counts are written as "125M", all other quantities as "80 GiB".
      text += (dimension == Dimension::count ? "" : " ") + std::string(unit.name);
    }
    // `text` represents `scaled` exactly, so reading the text gives in_base_unit(scaled, unit).
    const bool exact = in_base_unit(scaled, unit) == value;
    if (exact && (best.empty() || text.size() < best.size())) best = text;
  }
  return best;
}

std::string human(double value, Dimension dimension, int digits) {
  // Values from `from` on are printed in `unit`, which has the size `factor`. There is no step for
  // minutes, so 90 s and 100 min are printed as 90 s and 6000 s.
  struct Step {
    double from;
    const char* unit;
    double factor;
  };
  static constexpr std::array seconds{
      Step{172800, "d", 86400}, Step{7200, "h", 3600},  Step{1000, "s", 1}, Step{1, "s", 1},
      Step{1e-3, "ms", 1e-3},   Step{1e-6, "us", 1e-6}, Step{0, "ns", 1e-9}};
  static constexpr std::array bytes{
      Step{kibi * kibi * kibi * kibi, "TiB", kibi * kibi * kibi * kibi},
      Step{kibi * kibi * kibi, "GiB", kibi * kibi * kibi}, Step{kibi * kibi, "MiB", kibi * kibi},
      Step{kibi, "KiB", kibi}, Step{0, "B", 1}};
  static constexpr std::array decimal{Step{1e15, "P", 1e15}, Step{1e12, "T", 1e12},
                                      Step{1e9, "G", 1e9},   Step{1e6, "M", 1e6},
                                      Step{1e3, "k", 1e3},   Step{0, "", 1}};
  const auto number = [&](double scaled) {
    // Significant digits without an exponent: 4.50, 45.0, 450, 4500.
    const double magnitude = std::abs(scaled);
    const int before = magnitude < 1 ? 1 : static_cast<int>(std::floor(std::log10(magnitude))) + 1;
    return fmt::format("{:.{}f}", scaled, std::max(0, digits - before));
  };
  const auto with = [&](std::span<const Step> steps, const std::string& suffix) {
    const double magnitude = std::abs(value);
    for (const auto& step : steps) {
      if (magnitude >= step.from) {
        return number(value / step.factor) + " " + step.unit + suffix;
      }
    }
    return number(value) + " " + suffix;
  };
  if (value == 0) return dimension == Dimension::fraction ? "0 %" : "0";
  switch (dimension) {
    case Dimension::seconds:
      return with(seconds, "");
    case Dimension::bytes:
      return with(bytes, "");
    case Dimension::bytes_per_second:
      return with(decimal, "B/s");
    case Dimension::flops_per_second:
      return with(decimal, "FLOP/s");
    case Dimension::hertz:
      return with(decimal, "Hz");
    case Dimension::fraction:
      return number(100 * value) + " %";
    case Dimension::dollars:  // cents; three significant digits below 10 cents
      if (value < 0) return "-" + human(-value, dimension);
      if (value >= 0.1) return fmt::format("${:.2f}", value);
      return fmt::format("${:.{}f}", value, 2 - static_cast<int>(std::floor(std::log10(value))));
    case Dimension::dollars_per_hour:
      return fmt::format("${:.2f}/h", value);
    case Dimension::watts:
      return with(decimal, "W");
    case Dimension::count: {
      std::string text = with(decimal, "");
      if (!text.empty() && text.back() == ' ') text.pop_back();
      return text;
    }
    case Dimension::none:
      break;
  }
  return number(value);
}

std::string dimension_help(Dimension dimension, bool with_units) {
  const DimensionInfo unit_info = info(dimension);
  const std::string units = unit_list(unit_info);
  if (units.empty()) return unit_info.noun;
  std::string help = fmt::format("{}, for example {}", unit_info.noun, unit_info.example);
  if (with_units) help += fmt::format(" (units: {})", units);
  return help;
}

std::string dimension_pattern(Dimension dimension, bool negative) {
  std::vector<std::string> names;
  bool bare = false;
  for (const auto& unit : info(dimension).units) {
    if (*unit.name == '\0') {
      bare = true;
    } else {
      names.emplace_back(unit.name);
    }
  }
  std::string pattern = negative ? "^[+-]?" : "^[+]?";
  pattern += "([0-9]+\\.?[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?";
  if (!names.empty()) {
    pattern += fmt::format("\\s*({}){}", fmt::join(names, "|"), bare ? "?" : "");
  }
  return pattern + "$";
}

}  // namespace lockstep
