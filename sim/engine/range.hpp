// The smallest and largest of many values, in one fast pass.
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <span>

namespace lockstep {

struct Range {
  double smallest = std::numeric_limits<double>::infinity();
  double largest = -std::numeric_limits<double>::infinity();
  void include(const Range& other) {
    smallest = std::min(smallest, other.smallest);
    largest = std::max(largest, other.largest);
  }
};

// Four at a time: one at a time waits for each comparison.
inline Range range_of(std::span<const double> values) {
  constexpr std::size_t width = 4;
  std::array<double, width> low, high;
  low.fill(values[0]);
  high.fill(values[0]);
  std::size_t i = 0;
  for (; i + width <= values.size(); i += width) {
    for (std::size_t k = 0; k < width; ++k) {
      low[k] = values[i + k] < low[k] ? values[i + k] : low[k];
      high[k] = values[i + k] > high[k] ? values[i + k] : high[k];
    }
  }
  for (; i < values.size(); ++i) {
    low[0] = std::min(low[0], values[i]);
    high[0] = std::max(high[0], values[i]);
  }
  return {*std::min_element(low.begin(), low.end()), *std::max_element(high.begin(), high.end())};
}

}  // namespace lockstep
