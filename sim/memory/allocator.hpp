// A model of PyTorch's CUDA caching allocator (c10/cuda/CUDACachingAllocator). It follows a
// sequence of allocations and frees, and computes the bytes that the allocator reserves from the
// device, including fragmentation. Rules and constants are facts 118-122, explained in
// docs/memory.md. No memory is really allocated; a block is only a number of bytes at an address.
//
//   segment of 20 MiB   | block in use | free block | block in use | free block |
//
// A segment is reserved from the device as a whole. Blocks are cut from it, and free neighbours are
// joined. A segment can be returned to the device only when it is one free block.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace lockstep {

enum class AllocatorKind {
  cuda_caching,  // 512 B rounding, segments, pools
  host,          // malloc: no segments, so reserved = allocated
  // CUDA's with expandable_segments: pages behind one growing range of addresses, so that free
  // blocks of any size serve; reserved = the most that was allocated, in whole pages
  expandable,
};

struct AllocatorOptions {
  AllocatorKind kind = AllocatorKind::cuda_caching;
  std::int64_t capacity = std::numeric_limits<std::int64_t>::max();  // most that may be reserved
  // Blocks of at least this size are never split, and do not serve requests that are smaller than
  // it (fact 119).
  std::int64_t max_split_size = std::numeric_limits<std::int64_t>::max();
};

// The allocator of one device. Not thread-safe. The same sequence of calls gives the same results.
class CachingAllocator {
 public:
  using Block = std::int32_t;
  // The result of a request for zero bytes; free(nothing) is allowed.
  static constexpr Block nothing = -1;

  explicit CachingAllocator(const AllocatorOptions& options = {});

  // Always returns a block. If the capacity does not suffice even after every cached segment was
  // returned to the device, out_of_memory() becomes true and the block is allocated as if the
  // device were larger, so that peak_reserved() - capacity is the shortfall.
  Block allocate(std::int64_t bytes, int stream = 0);
  // For optional requests (a convolution can choose an algorithm with less workspace): returns no
  // block instead of exceeding the capacity.
  std::optional<Block> try_allocate(std::int64_t bytes, int stream = 0);

  // Allocates a block and frees it at once, if a free block can serve the request; then only the
  // peak changes. Returns the bytes of the block that would serve it. Returns nothing if no free
  // block fits, for zero bytes, and for other kinds than cuda_caching; then the caller must
  // allocate.
  std::optional<std::int64_t> touch(std::int64_t bytes, int stream = 0);

  void free(Block block);
  // Frees a block as record_stream does: the program has freed it, but it can serve another request
  // only when `event` on the other stream is complete (fact 122). On a host it is freed at once.
  // REQUIRES: events of successive calls do not decrease.
  void free_after(Block block, std::int64_t event);
  void complete(std::int64_t event);  // completes this event and all earlier ones
  void release_cached();              // torch.cuda.empty_cache()

  AllocatorKind kind() const { return options_.kind; }
  std::int64_t block_bytes(Block block) const;
  std::int64_t allocated() const { return allocated_; }
  std::int64_t reserved() const { return reserved_; }
  std::int64_t pending() const { return pending_; }  // freed, waiting for an event
  std::int64_t peak_allocated() const { return peak_allocated_; }
  std::int64_t peak_reserved() const { return peak_reserved_; }
  bool out_of_memory() const { return out_of_memory_; }
  // times that cached segments were returned to the device to make room
  int retries() const { return retries_; }

  // The blocks of every segment in address order, for tests.
  struct BlockView {
    std::int64_t address, bytes;
    bool in_use;
  };
  std::vector<std::vector<BlockView>> segments() const;

 private:
  struct Free {
    std::int64_t bytes, address;
    Block block;
    bool operator<(const Free& other) const {
      return bytes != other.bytes ? bytes < other.bytes : address < other.address;
    }
  };
  using FreeList = std::set<Free>;
  struct Record {
    std::int64_t address = 0, bytes = 0;
    Block previous = nothing, next = nothing;  // neighbours in the segment
    std::int32_t pool = 0;
    bool in_use = false;
    FreeList::iterator place{};  // place of a free block in its pool's list
    bool is_segment() const { return previous == nothing && next == nothing; }
  };
  struct Pool {
    FreeList free;
    bool large = false;
  };

  FreeList::iterator best_free(Pool& pool, std::int64_t bytes) const;  // end() = none
  std::optional<Block> find_free(Pool& pool, std::int64_t bytes);
  bool splits(const Pool& pool, std::int64_t block_bytes, std::int64_t bytes) const;
  std::optional<Block> new_segment(int pool, std::int64_t bytes, bool overcommit);
  std::optional<Block> request(std::int64_t bytes, int stream, bool optional);
  bool fits(std::int64_t bytes) const;
  Block hand_out(Block block, std::int64_t bytes);
  void return_to_pool(Block block);
  Block split(Block block, std::int64_t bytes);  // first part keeps the id; returns the second
  void absorb_next(Block block);
  Block new_record();
  void insert_free(Block block);
  void erase_free(Block block);
  int pool_of(std::int64_t bytes, int stream);
  void take(std::int64_t bytes);

  AllocatorOptions options_;
  std::vector<Record> records_;
  std::vector<Block> unused_records_;
  std::vector<Pool> pools_;                 // 2 * stream + (large ? 1 : 0)
  std::vector<FreeList::node_type> spare_;  // unused nodes of the free lists
  std::deque<std::pair<std::int64_t, Block>> deferred_;
  std::int64_t next_address_ = 0;
  std::int64_t allocated_ = 0, reserved_ = 0, pending_ = 0;
  std::int64_t peak_allocated_ = 0, peak_reserved_ = 0;
  int retries_ = 0;
  int free_segments_ = 0;  // free blocks that are whole segments
  bool out_of_memory_ = false;
};

}  // namespace lockstep
