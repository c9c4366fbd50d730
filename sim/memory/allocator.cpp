// Implements the caching allocator's rules, about one function for each: best fit in the pool of
// the size class and stream, splitting, joining, deferred frees, and the retry after all cached
// segments were returned (c10/cuda/CUDACachingAllocator.cpp; facts 118-122). Free blocks are in
// sets ordered by size and address. The nodes of the sets are reused, because a simulated step may
// free and allocate millions of times.
#include "memory/allocator.hpp"

#include <algorithm>
#include <cassert>

namespace lockstep {
namespace {

// Sizes of fact 118. Small requests share segments of 2 MiB, medium ones segments of 20 MiB; a
// large request has a segment of its own.
constexpr std::int64_t kib = 1024, mib = 1024 * kib;
constexpr std::int64_t smallest_block = 512;
constexpr std::int64_t largest_small_request = 1 * mib;
constexpr std::int64_t small_segment = 2 * mib;
constexpr std::int64_t shared_large_segment = 20 * mib;
constexpr std::int64_t smallest_own_segment = 10 * mib;
constexpr std::int64_t own_segment_rounding = 2 * mib;
// An oversize block may be larger than a request by at most this much (fact 120).
constexpr std::int64_t max_non_split_rounding = 20 * mib;
std::int64_t round_up(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}

// Bytes of the new segment that serves a request.
std::int64_t segment_bytes(std::int64_t bytes) {
  if (bytes <= largest_small_request) return small_segment;
  if (bytes < smallest_own_segment) return shared_large_segment;
  return round_up(bytes, own_segment_rounding);
}

}  // namespace

CachingAllocator::CachingAllocator(const AllocatorOptions& options) : options_(options) {}

CachingAllocator::Block CachingAllocator::allocate(std::int64_t bytes, int stream) {
  return *request(bytes, stream, false);
}

std::optional<CachingAllocator::Block> CachingAllocator::try_allocate(std::int64_t bytes,
                                                                      int stream) {
  return request(bytes, stream, true);
}

// Serves a request by the first that is possible: a free block, a new segment, a new segment after
// a retry, and a segment beyond the capacity. `optional`: returns no block instead of the last.
// malloc and expandable segments have no segments to choose from: a block is only a number of
// bytes, and expandable segments reserve whole pages of 20 MiB up to the largest sum of blocks.
std::optional<CachingAllocator::Block> CachingAllocator::request(std::int64_t bytes, int stream,
                                                                 bool optional) {
  assert(bytes >= 0 && stream >= 0);
  if (bytes == 0) return nothing;
  if (options_.kind != AllocatorKind::cuda_caching) {
    const bool pages = options_.kind == AllocatorKind::expandable;
    if (pages) bytes = round_up(bytes, smallest_block);
    if (bytes > options_.capacity - (pages ? allocated_ + pending_ : reserved_)) {
      if (optional) return std::nullopt;
      out_of_memory_ = true;
    }
    const Block block = new_record();
    records_[block].bytes = bytes;
    records_[block].in_use = true;
    reserved_ =
        pages ? std::max(reserved_, round_up(allocated_ + pending_ + bytes, shared_large_segment))
              : reserved_ + bytes;
    peak_reserved_ = std::max(peak_reserved_, reserved_);
    take(bytes);
    return block;
  }
  bytes = round_up(bytes, smallest_block);
  const int pool = pool_of(bytes, stream);
  std::optional<Block> block = find_free(pools_[pool], bytes);
  if (!block) block = new_segment(pool, bytes, false);
  if (!block) {
    // The device has refused: wait for all events, return every cached segment, and ask a second
    // time.
    ++retries_;
    complete(std::numeric_limits<std::int64_t>::max());
    release_cached();
    block = new_segment(pool, bytes, false);
  }
  if (!block) {
    if (optional) return std::nullopt;
    out_of_memory_ = true;
    block = new_segment(pool, bytes, true);
  }
  return hand_out(*block, bytes);
}

std::optional<std::int64_t> CachingAllocator::touch(std::int64_t bytes, int stream) {
  if (options_.kind != AllocatorKind::cuda_caching || bytes == 0) return std::nullopt;
  bytes = round_up(bytes, smallest_block);
  Pool& pool = pools_[pool_of(bytes, stream)];
  const auto found = best_free(pool, bytes);
  if (found == pool.free.end()) return std::nullopt;
  const std::int64_t taken = splits(pool, found->bytes, bytes) ? bytes : found->bytes;
  peak_allocated_ = std::max(peak_allocated_, allocated_ + taken);
  return taken;
}

// The smallest free block that fits, and among equal ones that at the lowest address. With
// max_split_size, an oversize block serves only requests that are at most 20 MiB smaller (fact
// 120).
CachingAllocator::FreeList::iterator CachingAllocator::best_free(Pool& pool,
                                                                 std::int64_t bytes) const {
  const auto found = pool.free.lower_bound(Free{bytes, 0, 0});
  if (found == pool.free.end()) return found;
  const std::int64_t most = options_.max_split_size;
  const bool too_large =
      bytes < most ? found->bytes >= most : found->bytes >= bytes + max_non_split_rounding;
  return too_large ? pool.free.end() : found;
}

std::optional<CachingAllocator::Block> CachingAllocator::find_free(Pool& pool, std::int64_t bytes) {
  const auto found = best_free(pool, bytes);
  if (found == pool.free.end()) return std::nullopt;
  const Block block = found->block;
  erase_free(block);
  return block;
}

bool CachingAllocator::fits(std::int64_t bytes) const {
  return bytes <= options_.capacity - reserved_;
}

std::optional<CachingAllocator::Block> CachingAllocator::new_segment(int pool, std::int64_t bytes,
                                                                     bool overcommit) {
  const std::int64_t segment = segment_bytes(bytes);
  if (!overcommit && !fits(segment)) return std::nullopt;
  const Block block = new_record();
  records_[block].address = next_address_;
  records_[block].bytes = segment;
  records_[block].pool = pool;
  next_address_ += segment;
  reserved_ += segment;
  peak_reserved_ = std::max(peak_reserved_, reserved_);
  return block;
}

// Gives a block to the caller. If the rest is large enough, it is split off and returned to the
// pool.
CachingAllocator::Block CachingAllocator::hand_out(Block block, std::int64_t bytes) {
  const Record& record = records_[block];
  if (splits(pools_[record.pool], record.bytes, bytes)) insert_free(split(block, bytes));
  records_[block].in_use = true;
  take(records_[block].bytes);
  return block;
}

// Whether a block is split for a request: in the small pool if at least 512 B remain, in the large
// pool if more than 1 MiB remains.
bool CachingAllocator::splits(const Pool& pool, std::int64_t block_bytes,
                              std::int64_t bytes) const {
  const std::int64_t rest = block_bytes - bytes;
  return !pool.large ? rest >= smallest_block
                     : bytes < options_.max_split_size && rest > largest_small_request;
}

void CachingAllocator::take(std::int64_t bytes) {
  allocated_ += bytes;
  peak_allocated_ = std::max(peak_allocated_, allocated_);
}

void CachingAllocator::free(Block block) {
  if (block == nothing) return;
  assert(records_[block].in_use);
  allocated_ -= records_[block].bytes;
  return_to_pool(block);
}

void CachingAllocator::free_after(Block block, std::int64_t event) {
  if (block == nothing) return;
  assert(records_[block].in_use);
  assert(deferred_.empty() || deferred_.back().first <= event);
  if (options_.kind == AllocatorKind::host) return free(block);  // one thread: no streams
  allocated_ -= records_[block].bytes;
  pending_ += records_[block].bytes;
  deferred_.emplace_back(event, block);
}

void CachingAllocator::complete(std::int64_t event) {
  while (!deferred_.empty() && deferred_.front().first <= event) {
    const Block block = deferred_.front().second;
    deferred_.pop_front();
    pending_ -= records_[block].bytes;
    return_to_pool(block);
  }
}

// Frees a block and joins it with free neighbours in its segment.
void CachingAllocator::return_to_pool(Block block) {
  records_[block].in_use = false;
  if (options_.kind != AllocatorKind::cuda_caching) {
    if (options_.kind == AllocatorKind::host) reserved_ -= records_[block].bytes;
    unused_records_.push_back(block);
    return;
  }
  const auto joins = [this](Block other) { return other != nothing && !records_[other].in_use; };
  if (joins(records_[block].next)) {
    erase_free(records_[block].next);
    absorb_next(block);
  }
  if (const Block before = records_[block].previous; joins(before)) {
    erase_free(before);
    absorb_next(before);
    block = before;
  }
  insert_free(block);
}

void CachingAllocator::release_cached() {
  // Without free segments this returns at once. A job that lacks much memory comes here with most
  // of its allocations.
  if (free_segments_ == 0) return;
  for (Pool& pool : pools_) {
    const std::vector<Free> candidates(pool.free.begin(), pool.free.end());
    for (const Free& candidate : candidates) {
      const Record& record = records_[candidate.block];
      if (record.is_segment()) {
        erase_free(candidate.block);
        reserved_ -= record.bytes;
        unused_records_.push_back(candidate.block);
      }
    }
  }
}

CachingAllocator::Block CachingAllocator::split(Block block, std::int64_t bytes) {
  const Block rest = new_record();
  Record& first = records_[block];
  Record& second = records_[rest];
  second.address = first.address + bytes;
  second.bytes = first.bytes - bytes;
  second.pool = first.pool;
  second.previous = block;
  second.next = first.next;
  if (first.next != nothing) records_[first.next].previous = rest;
  first.next = rest;
  first.bytes = bytes;
  return rest;
}

void CachingAllocator::absorb_next(Block block) {
  Record& first = records_[block];
  const Block next = first.next;
  first.bytes += records_[next].bytes;
  first.next = records_[next].next;
  if (first.next != nothing) records_[first.next].previous = block;
  unused_records_.push_back(next);
}

// A record for a block. Unused records are used first, so that ids remain small and callers can
// index vectors by them.
CachingAllocator::Block CachingAllocator::new_record() {
  if (!unused_records_.empty()) {
    const Block block = unused_records_.back();
    unused_records_.pop_back();
    records_[block] = Record{};
    return block;
  }
  records_.emplace_back();
  return static_cast<Block>(records_.size() - 1);
}

// Adds a block to its pool's free list. Reuses the node of an earlier block if there is one.
void CachingAllocator::insert_free(Block block) {
  Record& record = records_[block];
  free_segments_ += record.is_segment();
  FreeList& list = pools_[record.pool].free;
  const Free free{record.bytes, record.address, block};
  if (spare_.empty()) {
    record.place = list.insert(free).first;
    return;
  }
  FreeList::node_type node = std::move(spare_.back());
  spare_.pop_back();
  node.value() = free;
  record.place = list.insert(std::move(node)).position;
}

void CachingAllocator::erase_free(Block block) {
  const Record& record = records_[block];
  free_segments_ -= record.is_segment();
  spare_.push_back(pools_[record.pool].free.extract(record.place));
}

// Index of the pool that serves a request. Creates the pools of a stream at the stream's first use.
int CachingAllocator::pool_of(std::int64_t bytes, int stream) {
  const int large = bytes > largest_small_request ? 1 : 0;
  while (static_cast<int>(pools_.size()) < 2 * (stream + 1)) {
    const bool is_large = pools_.size() % 2 == 1;
    pools_.emplace_back().large = is_large;
  }
  return 2 * stream + large;
}

std::int64_t CachingAllocator::block_bytes(Block block) const {
  return block == nothing ? 0 : records_[block].bytes;
}

std::vector<std::vector<CachingAllocator::BlockView>> CachingAllocator::segments() const {
  std::vector<bool> live(records_.size(), true);
  for (const Block block : unused_records_) live[block] = false;
  std::vector<std::vector<BlockView>> result;
  for (std::size_t first = 0; first < records_.size(); ++first) {
    if (!live[first] || records_[first].previous != nothing) continue;
    auto& segment = result.emplace_back();
    for (Block block = static_cast<Block>(first); block != nothing; block = records_[block].next) {
      const Record& record = records_[block];
      segment.push_back({record.address, record.bytes, record.in_use});
    }
  }
  return result;
}

}  // namespace lockstep
