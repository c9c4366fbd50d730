// Do the vectorized passes over many values equal the computation of each value, for any number of
// values?
#include "engine/range.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep::range_test {
namespace {

TEST(Range, OfScaledSumsIsThatOfTheValues) {
  for (std::size_t count : {1U, 3U, 4U, 5U, 8U, 13U}) {
    std::vector<double> values, steps, expected;
    Range range;
    for (std::size_t i = 0; i < count; ++i) {
      values.push_back(static_cast<double>(i * 7 % 5));
      steps.push_back(static_cast<double>(i * 11 % 13) - 6);
      expected.push_back(values[i] + 0.25 * steps[i]);
      range.include({expected[i], expected[i]});
    }
    const Range told = add_scaled(values, 0.25, steps);
    EXPECT_EQ(values, expected) << count;
    EXPECT_EQ(told.smallest, range.smallest) << count;
    EXPECT_EQ(told.largest, range.largest) << count;
    const Range seen = range_of(values);
    EXPECT_EQ(seen.smallest, range.smallest) << count;
    EXPECT_EQ(seen.largest, range.largest) << count;
  }
}

}  // namespace
}  // namespace lockstep::range_test
