// Does the fast allocator return the same blocks as a slow one written from the rules, and do its
// blocks always tile their segments?
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <list>
#include <map>
#include <random>

#include "memory/allocator.hpp"

namespace lockstep::allocator_property_test {
namespace {

constexpr std::int64_t mib = 1024 * 1024;

// An allocator with linear searches over plain lists; default options only.
class NaiveAllocator {
 public:
  explicit NaiveAllocator(std::int64_t capacity) : capacity_(capacity) {}

  int allocate(std::int64_t bytes, int stream) {
    bytes = std::max<std::int64_t>(512, (bytes + 511) / 512 * 512);
    const bool large = bytes > mib;
    Piece* best = search(bytes, stream, large);
    if (!best) {
      const std::int64_t segment = !large             ? 2 * mib
                                   : bytes < 10 * mib ? 20 * mib
                                                      : (bytes + 2 * mib - 1) / (2 * mib) * 2 * mib;
      if (reserved + segment > capacity_) {
        for (auto it = segments_.begin(); it != segments_.end();) {
          const bool idle = it->pieces.size() == 1 && it->pieces.front().owner < 0;
          if (idle) reserved -= it->pieces.front().bytes;
          it = idle ? segments_.erase(it) : std::next(it);
        }
        if (reserved + segment > capacity_) out_of_memory = true;
      }
      segments_.push_back({stream, large, {{segment, -1}}});
      reserved += segment;
      peak_reserved = std::max(peak_reserved, reserved);
      best = &segments_.back().pieces.front();
    }
    best->owner = ++last_;
    for (Segment& segment : segments_) {
      for (auto it = segment.pieces.begin(); it != segment.pieces.end(); ++it) {
        if (&*it != best) continue;
        const std::int64_t rest = it->bytes - bytes;
        if (large ? rest > mib : rest >= 512) {
          it->bytes = bytes;
          segment.pieces.insert(std::next(it), {rest, -1});
        }
        allocated += it->bytes;
        return last_;
      }
    }
    return last_;
  }

  void free(int owner) {
    for (Segment& segment : segments_) {
      for (auto it = segment.pieces.begin(); it != segment.pieces.end(); ++it) {
        if (it->owner != owner) continue;
        it->owner = -1;
        allocated -= it->bytes;
        if (auto next = std::next(it); next != segment.pieces.end() && next->owner < 0) {
          it->bytes += next->bytes;
          segment.pieces.erase(next);
        }
        if (it != segment.pieces.begin() && std::prev(it)->owner < 0) {
          std::prev(it)->bytes += it->bytes;
          segment.pieces.erase(it);
        }
        return;
      }
    }
  }

  std::int64_t allocated = 0, reserved = 0, peak_reserved = 0;
  bool out_of_memory = false;

 private:
  struct Piece {
    std::int64_t bytes;
    int owner;
  };
  struct Segment {
    int stream;
    bool large;
    std::list<Piece> pieces;
  };
  Piece* search(std::int64_t bytes, int stream, bool large) {
    Piece* best = nullptr;
    for (Segment& segment : segments_) {  // in order of address: the first of equal candidates wins
      if (segment.stream != stream || segment.large != large) continue;
      for (Piece& piece : segment.pieces) {
        if (piece.owner < 0 && piece.bytes >= bytes && (!best || piece.bytes < best->bytes)) {
          best = &piece;
        }
      }
    }
    return best;
  }
  std::int64_t capacity_;
  std::list<Segment> segments_;
  int last_ = 0;
};

std::int64_t random_size(std::uint32_t seed) {
  std::mt19937 random(seed);
  switch (random() % 4) {
    case 0:
      return 1 + random() % 4096;
    case 1:
      return 1 + random() % mib;
    case 2:
      return mib + 1 + random() % (9 * mib);
    default:
      return 10 * mib + random() % (50 * mib);
  }
}

void expect_tiled(const CachingAllocator& allocator) {
  std::int64_t in_use = 0, reserved = 0;
  for (const auto& segment : allocator.segments()) {
    for (std::size_t i = 0; i < segment.size(); ++i) {
      in_use += segment[i].in_use ? segment[i].bytes : 0;
      reserved += segment[i].bytes;
      RC_ASSERT(segment[i].bytes > 0);
      if (i == 0) continue;
      const auto& before = segment[i - 1];
      RC_ASSERT(before.address + before.bytes == segment[i].address);  // no overlap, no gap
      RC_ASSERT(before.in_use || segment[i].in_use);                   // neighbours were joined
    }
  }
  RC_ASSERT(in_use == allocator.allocated() + allocator.pending());
  RC_ASSERT(reserved == allocator.reserved());
  RC_ASSERT(allocator.allocated() <= allocator.reserved());
}

RC_GTEST_PROP(AllocatorProperty, AgreesWithTheNaiveOne, (const std::vector<std::uint32_t>& moves)) {
  const auto capacity = *rc::gen::element<std::int64_t>(60 * mib, 300 * mib, 100'000 * mib);
  AllocatorOptions options;
  options.capacity = capacity;
  CachingAllocator fast(options);
  NaiveAllocator slow(capacity);
  std::vector<std::pair<CachingAllocator::Block, int>> live;
  for (const std::uint32_t move : moves) {
    if (move % 3 == 0 && !live.empty()) {
      const std::size_t which = move / 3 % live.size();
      fast.free(live[which].first);
      slow.free(live[which].second);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
    } else {
      const std::int64_t bytes = random_size(move);
      const int stream = static_cast<int>(move / 7 % 2);
      live.emplace_back(fast.allocate(bytes, stream), slow.allocate(bytes, stream));
    }
    RC_ASSERT(fast.allocated() == slow.allocated);
    RC_ASSERT(fast.reserved() == slow.reserved);
    RC_ASSERT(fast.peak_reserved() == slow.peak_reserved);
    RC_ASSERT(fast.out_of_memory() == slow.out_of_memory);
  }
}

RC_GTEST_PROP(AllocatorProperty, TilesItsSegmentsAndGivesEverythingBack,
              (const std::vector<std::uint32_t>& moves)) {
  AllocatorOptions options;
  options.capacity = *rc::gen::element<std::int64_t>(150 * mib, 100'000 * mib);
  CachingAllocator allocator(options);
  std::vector<CachingAllocator::Block> live;
  std::int64_t event = 0;
  for (const std::uint32_t move : moves) {
    if (move % 3 == 0 && !live.empty()) {
      const std::size_t which = move / 3 % live.size();
      if (move % 2 == 0) {
        allocator.free(live[which]);
      } else {
        allocator.free_after(live[which], ++event);
      }
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
    } else if (move % 16 == 1) {
      allocator.complete(event - 1);
    } else {
      live.push_back(allocator.allocate(random_size(move), static_cast<int>(move / 7 % 3)));
    }
    expect_tiled(allocator);
  }
  for (const auto block : live) allocator.free(block);
  allocator.complete(event);
  expect_tiled(allocator);
  RC_ASSERT(allocator.allocated() == 0);
  allocator.release_cached();
  RC_ASSERT(allocator.reserved() == 0);
}

}  // namespace
}  // namespace lockstep::allocator_property_test
