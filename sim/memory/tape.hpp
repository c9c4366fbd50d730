// Counts the live memory of a device while a step's allocations are simulated (step_memory.hpp):
// the current moment, the live bytes of each kind, and the account at the highest point. The tape
// owns the allocator, and every allocation must go through it, so that every allocation is counted.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "memory/allocator.hpp"
#include "memory/moments.hpp"
#include "memory/step_memory.hpp"
#include "workload/step.hpp"

namespace lockstep {

// CUDA streams to which blocks belong (facts 29, 47). Each has its own pools in the allocator, so a
// block of one stream never serves another.
enum Stream : int { compute_stream = 0, unshard_stream = 1, reduce_stream = 2 };

// The purpose of a block, for the log: {"output", "features.0"}, {"bucket", {}, 3}. A block without
// a name takes the phase and layer of the moment in which it is allocated as its name.
// REQUIRES: the texts outlive the tape.
struct Subject {
  std::string_view name;
  std::string_view of{};
  int which = -1;
};

// Counts blocks. With a log, all moments and the lives of all blocks are recorded, which takes time
// and memory; without a log, only the peak is recorded.
class Tape {
 public:
  using Block = CachingAllocator::Block;

  // `log`: receives the account of each moment; null = no log. `most`: the limit on reserved bytes
  // that full() checks.
  explicit Tape(const AllocatorOptions& options, MemoryLog* log = nullptr,
                double most = std::numeric_limits<double>::infinity())
      : allocator_(options), log_(log), most_(most) {}

  // Whether more than `most` bytes have been reserved; the player (step_player.hpp) then stops.
  bool full() const { return static_cast<double>(allocator_.peak_reserved()) > most_; }

  // Begins a moment: the following allocations belong to this phase and layer.
  void at(MemoryPhase phase, int layer = -1) {
    phase_ = phase;
    layer_ = layer;
    if (log_) begin_moment();
  }
  // For the log: the following moments belong to this step and micro-batch.
  void micro_batch(int step, int micro_batch) {
    step_ = step;
    micro_batch_ = micro_batch;
  }
  void end_log(const TrainingStep& step);  // must be called after the last moment
  Block allocate(MemoryKind kind, double bytes, const Subject& subject = {},
                 Stream stream = compute_stream);
  Block try_workspace(double bytes);  // CachingAllocator::nothing if it does not fit
  // Allocates a block and frees it at once: a temporary that only affects peaks.
  void touch(MemoryKind kind, double bytes, const Subject& subject = {});
  void free(Block block);
  void free(std::vector<Block>& blocks);  // also empties the list
  // The host's code frees the block now, as with record_stream. It cannot serve another request
  // before complete() of `event`, at which the other stream is done with it.
  void free_after(Block block, std::int64_t event);
  void complete(std::int64_t event) { allocator_.complete(event); }

  bool on_host() const { return allocator_.kind() == AllocatorKind::host; }
  std::int64_t bytes(Block block) const { return allocator_.block_bytes(block); }
  std::int64_t live(MemoryKind kind) const { return live_[static_cast<std::size_t>(kind)]; }
  // The result of all steps. `outside_bytes`: device memory outside the allocator. `step` has the
  // names of layers for texts; it may be null if no moment has a layer.
  StepMemory summary(const TrainingStep* step, double outside_bytes, std::int64_t capacity) const;

 private:
  struct Moment {
    MemoryPhase phase = MemoryPhase::construction;
    int layer = -1;
  };
  // The life of a block, for the log. Time is the number of allocations so far: `gone` is that
  // number when the block is freed.
  struct Life {
    MemoryKind kind = MemoryKind::parameters;
    Moment moment;
    Subject subject;
    std::int64_t bytes = 0;
    std::size_t gone = 0;
  };
  void record(Block block, MemoryKind kind, const Subject& subject);
  void forget(Block block);
  void begin_moment();
  void end_moment();
  std::vector<LiveTensors> living_at_peak(const TrainingStep& step) const;

  CachingAllocator allocator_;
  MemoryLog* log_ = nullptr;
  double most_;
  std::vector<int> log_steps_;  // step of each moment of the log
  int step_ = -1, micro_batch_ = 0;
  std::int64_t moment_peak_ = 0;
  MemoryPhase phase_ = MemoryPhase::construction;
  int layer_ = -1;
  MemoryAccount live_{}, at_peak_{};
  std::vector<MemoryKind> kinds_;  // by block
  std::vector<Life> lives_;        // of every allocation, if there is a log
  std::vector<std::size_t> life_;  // by block: index of its life
  std::size_t peak_life_ = 0;      // index of the life whose allocation made the peak
  std::int64_t peak_ = 0;
  Moment peak_moment_, failure_moment_;
  bool failed_ = false;
};

}  // namespace lockstep
