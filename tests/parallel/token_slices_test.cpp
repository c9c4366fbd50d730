// Does TeraPipe's dynamic programming find the best of all slicings?
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "parallel/schedule.hpp"

namespace lockstep::slice_lengths_test {
namespace {

using Lengths = std::vector<std::size_t>;

double step_seconds(const Lengths& lengths, int stages, int micro_batches,
                    const SliceSeconds& seconds) {
  double sum = 0, longest = 0;
  std::size_t before = 0;
  for (const std::size_t length : lengths) {
    const double slice = seconds(length, before);
    sum += slice;
    longest = std::max(longest, slice);
    before += length;
  }
  return micro_batches * sum + (stages - 1) * longest;
}

// The slice lengths in units; if bit i of `cuts` is set, a slice ends after unit i.
Lengths lengths_of(std::size_t units, int cuts) {
  Lengths lengths{1};
  for (std::size_t unit = 1; unit < units; ++unit) {
    if (((cuts >> (unit - 1)) & 1) != 0) {
      lengths.push_back(1);
    } else {
      ++lengths.back();
    }
  }
  return lengths;
}

RC_GTEST_PROP(SliceLengths, AreTheBestOfAll, ()) {
  const auto units = *rc::gen::inRange<std::size_t>(1, 9);
  const int stages = *rc::gen::inRange(1, 20);
  const int micro_batches = *rc::gen::inRange(1, 4);
  const auto times = *rc::gen::container<std::vector<int>>(81, rc::gen::inRange(1, 1000));
  const SliceSeconds seconds = [&](std::size_t length, std::size_t before) {
    return times[9 * length + before];
  };
  double least = 1e300;
  for (int cuts = 0; cuts < 1 << (units - 1); ++cuts) {
    least = std::min(least, step_seconds(lengths_of(units, cuts), stages, micro_batches, seconds));
  }
  const Lengths found = slice_lengths(units, stages, micro_batches, seconds);
  RC_ASSERT(step_seconds(found, stages, micro_batches, seconds) == least);
}

TEST(SliceLengths, AreOneForOneStageAndShortForMany) {
  const SliceSeconds costly = [](std::size_t length, std::size_t) {
    return 0.5 + static_cast<double>(length);
  };
  EXPECT_EQ(slice_lengths(12, 1, 2, costly), Lengths{12});
  EXPECT_EQ(slice_lengths(12, 1000, 2, costly), Lengths(12, 1));
}

// A slice takes a + b x length. With n equal slices of S tokens on p stages the step takes m (n a +
// b S) + (p - 1)(a + b S / n), which is least at n = sqrt((p - 1) b S / (m a)).
TEST(SliceLengths, WeighTheCostOfASliceAgainstTheBubble) {
  const SliceSeconds seconds = [](std::size_t length, std::size_t) {
    return 1.0 + static_cast<double>(length);
  };
  EXPECT_EQ(slice_lengths(24, 25, 1, seconds), Lengths(24, 1));
  EXPECT_EQ(slice_lengths(24, 25, 4, seconds), Lengths(12, 2));
  EXPECT_EQ(slice_lengths(24, 7, 4, seconds), Lengths(6, 4));
}

// Section 3.3: attention grows with the tokens before a slice, so slices get shorter.
TEST(SliceLengths, GetShorterWhereAttentionGrows) {
  const SliceSeconds seconds = [](std::size_t length, std::size_t before) {
    const auto tokens = static_cast<double>(length);
    return 2 + tokens * (1 + 0.1 * (static_cast<double>(before) + 0.5 * tokens));
  };
  const Lengths lengths = slice_lengths(64, 16, 1, seconds);
  EXPECT_GT(lengths.front(), 2 * lengths.back());
}

}  // namespace
}  // namespace lockstep::slice_lengths_test
