// Does each rule of the caching allocator hold (facts 118-122)?
#include "memory/allocator.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <utility>
#include <vector>

namespace lockstep::allocator_test {
namespace {

constexpr std::int64_t kib = 1024, mib = 1024 * kib;

TEST(Allocator, RoundsEveryRequestTo512Bytes) {
  CachingAllocator allocator;
  allocator.allocate(1);
  EXPECT_EQ(allocator.allocated(), 512);
  allocator.allocate(512);
  EXPECT_EQ(allocator.allocated(), 1024);
  allocator.allocate(513);
  EXPECT_EQ(allocator.allocated(), 2048);
}

TEST(Allocator, GivesNothingForZeroBytes) {
  CachingAllocator allocator;
  const auto block = allocator.allocate(0);
  EXPECT_EQ(block, CachingAllocator::nothing);
  allocator.free(block);
  EXPECT_EQ(allocator.reserved(), 0);
}

TEST(Allocator, TakesSegmentsBySizeClass) {
  const auto reserved_for = [](std::int64_t bytes) {
    CachingAllocator allocator;
    allocator.allocate(bytes);
    return allocator.reserved();
  };
  EXPECT_EQ(reserved_for(1), 2 * mib);
  EXPECT_EQ(reserved_for(1 * mib), 2 * mib);
  EXPECT_EQ(reserved_for(1 * mib + 1), 20 * mib);
  EXPECT_EQ(reserved_for(10 * mib - 512), 20 * mib);
  EXPECT_EQ(reserved_for(10 * mib), 10 * mib);
  EXPECT_EQ(reserved_for(10 * mib + 1), 12 * mib);
  EXPECT_EQ(reserved_for(100 * mib + 1), 102 * mib);
}

TEST(Allocator, PutsTheCublasWorkspaceIntoATwentyMebibyteSegment) {
  CachingAllocator allocator;
  allocator.allocate(8'519'680);  // fact 124
  EXPECT_EQ(allocator.allocated(), 8'519'680);
  EXPECT_EQ(allocator.reserved(), 20 * mib);
  allocator.allocate(8'519'680);  // the second handle's workspace fits beside the first
  EXPECT_EQ(allocator.reserved(), 20 * mib);
}

TEST(Allocator, PacksSmallRequestsIntoOneSegment) {
  CachingAllocator allocator;
  for (int i = 0; i < 4; ++i) allocator.allocate(512 * kib);
  EXPECT_EQ(allocator.reserved(), 2 * mib);
  allocator.allocate(1);
  EXPECT_EQ(allocator.reserved(), 4 * mib);
}

TEST(Allocator, KeepsARemainderOfUpToOneMebibyteInTheLargePool) {
  CachingAllocator allocator;
  const auto block = allocator.allocate(11 * mib);  // segment of 12 MiB, remainder exactly 1 MiB
  EXPECT_EQ(allocator.block_bytes(block), 12 * mib);
  EXPECT_EQ(allocator.allocated(), 12 * mib);
  CachingAllocator other;
  const auto split = other.allocate(11 * mib - 512);  // remainder 1 MiB + 512: split off
  EXPECT_EQ(other.block_bytes(split), 11 * mib - 512);
}

TEST(Allocator, SplitsSmallBlocksFrom512BytesOn) {
  CachingAllocator allocator;
  const auto first = allocator.allocate(2 * kib);
  allocator.allocate(512);  // keeps the free block from joining the rest
  allocator.free(first);
  const auto again = allocator.allocate(1536);
  EXPECT_EQ(allocator.block_bytes(again), 1536);
  const auto rest = allocator.allocate(512);
  EXPECT_EQ(allocator.segments()[0][1].bytes, allocator.block_bytes(rest));
}

TEST(Allocator, ServesTheSmallestFreeBlockThatFits) {
  CachingAllocator allocator;
  const auto large = allocator.allocate(40 * mib);
  const auto medium = allocator.allocate(30 * mib);
  allocator.free(large);
  allocator.free(medium);
  EXPECT_EQ(allocator.allocate(29 * mib), medium);  // the remainder of 1 MiB is not split off
  EXPECT_EQ(allocator.reserved(), 70 * mib);
}

TEST(Allocator, JoinsFreeNeighboursOnBothSides) {
  CachingAllocator allocator;
  const auto a = allocator.allocate(6 * mib);
  const auto b = allocator.allocate(6 * mib);
  const auto c = allocator.allocate(6 * mib);
  ASSERT_EQ(allocator.reserved(), 20 * mib);
  allocator.free(a);
  allocator.free(c);
  allocator.free(b);
  ASSERT_EQ(allocator.segments().size(), 1u);
  ASSERT_EQ(allocator.segments()[0].size(), 1u);
  EXPECT_EQ(allocator.segments()[0][0].bytes, 20 * mib);
}

TEST(Allocator, NeverReusesABlockOnAnotherStream) {
  CachingAllocator allocator;
  allocator.free(allocator.allocate(30 * mib, 0));
  allocator.allocate(30 * mib, 1);
  EXPECT_EQ(allocator.reserved(), 60 * mib);
  allocator.allocate(30 * mib, 0);
  EXPECT_EQ(allocator.reserved(), 60 * mib);
}

TEST(Allocator, HoldsARecordedBlockUntilItsEventIsComplete) {
  CachingAllocator allocator;
  const auto first = allocator.allocate(30 * mib);
  allocator.free_after(first, 1);
  EXPECT_EQ(allocator.allocated(), 0);
  EXPECT_EQ(allocator.pending(), 30 * mib);
  allocator.allocate(30 * mib);
  EXPECT_EQ(allocator.reserved(), 60 * mib);
  allocator.complete(1);
  EXPECT_EQ(allocator.pending(), 0);
  allocator.allocate(30 * mib);
  EXPECT_EQ(allocator.reserved(), 60 * mib);
}

TEST(Allocator, ReleasesCachedSegmentsBeforeItGivesUp) {
  AllocatorOptions options;
  options.capacity = 100 * mib;
  CachingAllocator allocator(options);
  allocator.free(allocator.allocate(60 * mib));
  allocator.allocate(80 * mib);
  EXPECT_FALSE(allocator.out_of_memory());
  EXPECT_EQ(allocator.retries(), 1);
  EXPECT_EQ(allocator.reserved(), 80 * mib);
}

TEST(Allocator, WaitsForEventsBeforeItGivesUp) {
  AllocatorOptions options;
  options.capacity = 100 * mib;
  CachingAllocator allocator(options);
  allocator.free_after(allocator.allocate(60 * mib), 7);
  allocator.allocate(80 * mib);
  EXPECT_FALSE(allocator.out_of_memory());
  EXPECT_EQ(allocator.reserved(), 80 * mib);
}

TEST(Allocator, CannotReleaseASegmentThatIsPartlyInUse) {
  AllocatorOptions options;
  options.capacity = 100 * mib;
  CachingAllocator allocator(options);
  const auto front = allocator.allocate(60 * mib);
  allocator.free(front);
  allocator.allocate(8 * mib);  // at the front of the cached segment
  EXPECT_EQ(allocator.reserved(), 60 * mib);
  allocator.allocate(53 * mib);
  EXPECT_TRUE(allocator.out_of_memory());
  EXPECT_EQ(allocator.peak_reserved(), 114 * mib);  // 14 MiB were missing
}

TEST(Allocator, LeavesOptionalRequestsUnansweredInsteadOfFailing) {
  AllocatorOptions options;
  options.capacity = 100 * mib;
  CachingAllocator allocator(options);
  allocator.allocate(60 * mib);
  EXPECT_FALSE(allocator.try_allocate(50 * mib).has_value());
  EXPECT_FALSE(allocator.out_of_memory());
  EXPECT_TRUE(allocator.try_allocate(40 * mib).has_value());
}

TEST(Allocator, NeverSplitsOversizeBlocks) {
  AllocatorOptions options;
  options.max_split_size = 64 * mib;
  CachingAllocator allocator(options);
  allocator.free(allocator.allocate(100 * mib));
  allocator.allocate(10 * mib);  // must not come out of the oversize block
  EXPECT_EQ(allocator.reserved(), 110 * mib);
  allocator.allocate(79 * mib);  // an oversize request takes it only within 20 MiB (fact 120)
  EXPECT_EQ(allocator.reserved(), 190 * mib);
  const auto close = allocator.allocate(81 * mib);
  EXPECT_EQ(allocator.reserved(), 190 * mib);
  EXPECT_EQ(allocator.block_bytes(close), 100 * mib);
}

// Touching a block must have the same effect as allocating and freeing it: over random programs the
// peaks and the final blocks are equal.
TEST(Allocator, TouchingIsAllocatingAndFreeingAtOnce) {
  std::mt19937 draw(7);
  const auto below = [&](std::int64_t most) { return static_cast<std::int64_t>(draw()) % most; };
  for (const std::int64_t max_split : {std::numeric_limits<std::int64_t>::max(), 64 * mib}) {
    const AllocatorOptions options{.capacity = 400 * mib, .max_split_size = max_split};
    CachingAllocator touched(options), plain(options);
    std::vector<std::pair<CachingAllocator::Block, CachingAllocator::Block>> live;
    int served = 0;
    for (int i = 0; i < 5000; ++i) {
      const std::int64_t bytes = below(3) == 0 ? below(80 * mib) : below(3 * mib);
      if (below(3) == 0 && !live.empty()) {
        std::swap(live[static_cast<std::size_t>(below(static_cast<int>(live.size())))],
                  live.back());
        touched.free(live.back().first);
        plain.free(live.back().second);
        live.pop_back();
      } else if (below(2) == 0) {
        const auto taken = touched.touch(bytes);
        served += taken ? 1 : 0;
        if (!taken) touched.free(touched.allocate(bytes));
        const auto block = plain.allocate(bytes);
        EXPECT_EQ(taken.value_or(plain.block_bytes(block)), plain.block_bytes(block));
        plain.free(block);
      } else if (plain.allocated() + bytes < 300 * mib) {
        live.emplace_back(touched.allocate(bytes), plain.allocate(bytes));
      }
      ASSERT_EQ(touched.peak_allocated(), plain.peak_allocated());
      ASSERT_EQ(touched.peak_reserved(), plain.peak_reserved());
    }
    EXPECT_GT(served, 1000);
    EXPECT_EQ(touched.retries(), plain.retries());
    const auto a = touched.segments(), b = plain.segments();
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(a[i].size(), b[i].size());
      for (std::size_t k = 0; k < a[i].size(); ++k) {
        EXPECT_EQ(a[i][k].bytes, b[i][k].bytes);
        EXPECT_EQ(a[i][k].in_use, b[i][k].in_use);
      }
    }
  }
}

// A freed block of 30 MiB between two live blocks is too small for 40 MiB. The caching allocator
// reserves a further segment; an expandable segment reserves only the pages that live at once.
TEST(Allocator, ExpandableSegmentsReserveTheMostThatLives) {
  for (const AllocatorKind kind : {AllocatorKind::cuda_caching, AllocatorKind::expandable}) {
    AllocatorOptions options;
    options.kind = kind;
    CachingAllocator allocator(options);
    allocator.allocate(30 * mib);
    const auto middle = allocator.allocate(30 * mib);
    allocator.allocate(30 * mib);
    allocator.free(middle);
    allocator.allocate(40 * mib);
    EXPECT_EQ(allocator.peak_allocated(), 100 * mib);
    const bool pages = kind == AllocatorKind::expandable;
    EXPECT_EQ(allocator.peak_reserved(), pages ? 100 * mib : 130 * mib);
  }
}

TEST(Allocator, CountsHostMemoryByTheByte) {
  AllocatorOptions options;
  options.kind = AllocatorKind::host;
  options.capacity = 100;
  CachingAllocator allocator(options);
  const auto block = allocator.allocate(70);
  EXPECT_EQ(allocator.reserved(), 70);
  allocator.free(block);
  EXPECT_EQ(allocator.reserved(), 0);
  allocator.allocate(101);
  EXPECT_TRUE(allocator.out_of_memory());
}

}  // namespace
}  // namespace lockstep::allocator_test
