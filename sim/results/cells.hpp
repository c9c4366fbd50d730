// Formats numbers for reports that people read. Use these functions in every table and sentence, so
// that equal numbers look alike.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/units.hpp"

namespace lockstep {

inline std::string seconds_text(double value) {
  return human(value, Dimension::seconds);
}
// "88.2 .. 154 ms", or "900 us .. 1.10 ms".
inline std::string seconds_interval_text(double low, double high) {
  std::string from = seconds_text(low);
  const std::string to = seconds_text(high);
  const std::size_t unit = from.find(' ');
  if (unit != std::string::npos && to.find(' ') != std::string::npos &&
      from.substr(unit) == to.substr(to.find(' '))) {
    from.resize(unit);
  }
  return fmt::format("{} .. {}", from, to);
}
inline std::string bytes_text(double value) {
  return human(value, Dimension::bytes);
}
inline std::string gpus_text(int gpus) {
  return fmt::format("{} GPU{}", gpus, gpus == 1 ? "" : "s");
}
// Formats a fraction as a percentage with one decimal.
inline std::string percent(double fraction) {
  return fmt::format("{:.1f} %", 100 * fraction);
}
// Names one point of a scenario, a strategy on a number of GPUs: "ddp on 8 GPUs".
inline std::string point_text(const std::string& strategy, int gpus) {
  return fmt::format("{} on {}", strategy, gpus_text(gpus));
}
// Inserts commas into the first run of digits: "$102622.89" becomes "$102,622.89".
inline std::string with_separators(std::string text) {
  constexpr const char* digits = "0123456789";
  const std::size_t first = text.find_first_of(digits);
  if (first == std::string::npos) return text;
  const std::size_t end = std::min(text.find_first_not_of(digits, first), text.size());
  for (std::size_t at = end; at > first + 3;) text.insert(at -= 3, ",");
  return text;
}
inline std::string dollars_text(double dollars) {
  return with_separators(human(dollars, Dimension::dollars));
}
// "-" if there is no price.
inline std::string dollars_or_dash(double dollars) {
  return dollars > 0 ? dollars_text(dollars) : "-";
}
// From 100 on whole numbers with commas, below 100 three significant digits.
inline std::string rate_text(double per_second) {
  return per_second >= 100 ? with_separators(fmt::format("{:.0f}", per_second))
                           : fmt::format("{:.3g}", per_second);
}
// An energy as rate_text() formats numbers, in MWh from 1,000 kWh on.
inline std::string energy_text(double kilowatt_hours) {
  return kilowatt_hours < 1000 ? rate_text(kilowatt_hours) + " kWh"
                               : rate_text(kilowatt_hours / 1000) + " MWh";
}
// A mass of CO2 as rate_text() formats numbers, in tonnes from 1,000 kg on.
inline std::string carbon_text(double kilograms) {
  return kilograms < 1000 ? rate_text(kilograms) + " kg" : rate_text(kilograms / 1000) + " t";
}
// Channels, height and width: "3x224x224".
inline std::string image_text(const std::vector<std::int64_t>& image) {
  return fmt::format("{}", fmt::join(image, "x"));
}

}  // namespace lockstep
