// Does the dynamic programme of TeraPipe find the best of all slices?
#include "parallel/token_slices.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace lockstep::slice_lengths_test {
namespace {

double step_seconds(const std::vector<int>& lengths, int stages, int micro_batches,
                    const SliceSeconds& seconds) {
  double sum = 0, longest = 0;
  int before = 0;
  for (const int length : lengths) {
    const double slice = seconds(length, before);
    sum += slice;
    longest = std::max(longest, slice);
    before += length;
  }
  return micro_batches * sum + (stages - 1) * longest;
}

// Bit i of `cuts`: a slice ends behind unit i.
std::vector<int> lengths_of(int units, int cuts) {
  std::vector<int> lengths{1};
  for (int unit = 1; unit < units; ++unit) {
    if (((cuts >> (unit - 1)) & 1) != 0) {
      lengths.push_back(1);
    } else {
      ++lengths.back();
    }
  }
  return lengths;
}

RC_GTEST_PROP(SliceLengths, AreTheBestOfAll, ()) {
  const int units = *rc::gen::inRange(1, 9), stages = *rc::gen::inRange(1, 20);
  const int micro_batches = *rc::gen::inRange(1, 4);
  const auto times = *rc::gen::container<std::vector<int>>(81, rc::gen::inRange(1, 1000));
  const SliceSeconds seconds = [&](int length, int before) {
    return times[static_cast<std::size_t>(9 * length + before)];
  };
  double least = 1e300;
  for (int cuts = 0; cuts < 1 << (units - 1); ++cuts) {
    least = std::min(least, step_seconds(lengths_of(units, cuts), stages, micro_batches, seconds));
  }
  const std::vector<int> found = slice_lengths(units, stages, micro_batches, seconds);
  RC_ASSERT(step_seconds(found, stages, micro_batches, seconds) == least);
}

TEST(SliceLengths, AreOneForOneStageAndShortForMany) {
  const SliceSeconds costly = [](int length, int) { return 0.5 + length; };
  EXPECT_EQ(slice_lengths(12, 1, 2, costly), std::vector<int>{12});
  EXPECT_EQ(slice_lengths(12, 1000, 2, costly), std::vector<int>(12, 1));
}

// a + b x length: n equal slices of S tokens take m (n a + b S) + (p - 1)(a + b S / n), least at n = sqrt((p - 1)
// b S / (m a)).
TEST(SliceLengths, WeighTheCostOfASliceAgainstTheBubble) {
  const SliceSeconds seconds = [](int length, int) { return 1.0 + length; };
  EXPECT_EQ(slice_lengths(24, 25, 1, seconds), std::vector<int>(24, 1));
  EXPECT_EQ(slice_lengths(24, 25, 4, seconds), std::vector<int>(12, 2));
  EXPECT_EQ(slice_lengths(24, 7, 4, seconds), std::vector<int>(6, 4));
}

// Section 3.3: attention grows with the tokens before, and slices get shorter.
TEST(SliceLengths, GetShorterWhereAttentionGrows) {
  const SliceSeconds seconds = [](int length, int before) {
    return 2 + length * (1 + 0.1 * (before + 0.5 * length));
  };
  const std::vector<int> lengths = slice_lengths(64, 16, 1, seconds);
  EXPECT_GT(lengths.front(), 2 * lengths.back());
}

}  // namespace
}  // namespace lockstep::slice_lengths_test
