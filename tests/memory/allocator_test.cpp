// Does each rule of the caching allocator hold by itself? (facts 118-122)
#include "memory/allocator.hpp"

#include <gtest/gtest.h>

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
  allocator.allocate(8'519'680);  // the second handle's fits beside it
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
  EXPECT_EQ(allocator.allocate(29 * mib), medium);  // remainder 1 MiB: not split
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
  allocator.allocate(8 * mib);  // the front of the cached segment
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
