// Does the queue give the minimum, for any order of arrival?
#include "engine/least_first.hpp"

#include <gtest/gtest.h>
#include <malloc.h>
#include <rapidcheck/gtest.h>

#include <set>
#include <utility>
#include <vector>

namespace lockstep::least_first_test {
namespace {

using Item = std::pair<int, int>;  // the sort key and a serial number; no two items are equal

// The queue must give the same order as a sorted set. Some items arrive in ascending order, others
// between these.
RC_GTEST_PROP(LeastFirst, AsASetDoes, (std::vector<int> keys)) {
  LeastFirst<Item> queue;
  std::set<Item> expected;
  int number = 0;
  const auto take = [&] {
    RC_ASSERT(!queue.empty());
    RC_ASSERT(queue.top() == *expected.begin());
    queue.pop();
    expected.erase(expected.begin());
  };
  for (const int key : keys) {
    for (const int step : {0, 0, 1, 3}) {
      const Item item{key % 50 + step, number++};
      queue.push(item);
      expected.insert(item);
    }
    for (int i = 0; i < 3 + (key % 3) && !expected.empty(); ++i) take();
    RC_ASSERT(queue.empty() == expected.empty());
  }
  while (!expected.empty()) take();
  RC_ASSERT(queue.empty());
}

// The queue frees the memory of removed items. Sanitizers' allocators report no memory use here.
TEST(LeastFirst, KeepsNoRoomForWhatHasGone) {
  constexpr int items = 100000;
  LeastFirst<Item> queue;
  queue.push({0, 0});
  const auto used = [] { return mallinfo2().uordblks + mallinfo2().hblkhd; };
  const std::size_t before = used();
  for (int i = 1; i < items; ++i) {
    queue.push({i, 0});
    EXPECT_EQ(queue.top().first, i - 1);
    queue.pop();
  }
  EXPECT_LT(used(), before + items);
}

}  // namespace
}  // namespace lockstep::least_first_test
