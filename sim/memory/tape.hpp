// The running account while a step is played: which moment it is, how many bytes of each kind live,
// and what the picture was at the highest point. Owns the allocator.
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

// Streams that own blocks (fact 29, 47); each has its own pools.
enum Stream : int { compute_stream = 0, unshard_stream = 1, reduce_stream = 2 };

// What a block is for: "output" of "features.0", "bucket" 3. Without a name it is called by the
// moment in which it appears. Texts outlive the tape.
struct Subject {
  std::string_view name;
  std::string_view of{};
  int which = -1;
};

class Tape {
 public:
  using Block = CachingAllocator::Block;

  // `log`: where each moment's account is put; null = nowhere. `most`: bytes reserved.
  explicit Tape(const AllocatorOptions& options, MemoryLog* log = nullptr,
                double most = std::numeric_limits<double>::infinity())
      : allocator_(options), log_(log), most_(most) {}

  // More than `most` has been reserved.
  bool full() const { return static_cast<double>(allocator_.peak_reserved()) > most_; }

  void at(MemoryPhase phase, int layer = -1) {
    phase_ = phase;
    layer_ = layer;
    if (log_) begin_moment();
  }
  // For the log: of the moments that follow.
  void micro_batch(int step, int micro_batch) {
    step_ = step;
    micro_batch_ = micro_batch;
  }
  void end_log(const TrainingStep& step);  // after the last moment
  Block allocate(MemoryKind kind, double bytes, const Subject& subject = {},
                 Stream stream = compute_stream);
  Block try_workspace(double bytes);  // nothing where it does not fit
  // Allocates and frees at once.
  void touch(MemoryKind kind, double bytes, const Subject& subject = {});
  void free(Block block);
  void free(std::vector<Block>& blocks);  // and empties the list
  // The host lets go of the block, the device is done with it at `event`.
  void free_after(Block block, std::int64_t event);
  void complete(std::int64_t event) { allocator_.complete(event); }

  bool on_host() const { return allocator_.kind() == AllocatorKind::host; }
  std::int64_t bytes(Block block) const { return allocator_.block_bytes(block); }
  std::int64_t live(MemoryKind kind) const { return live_[static_cast<std::size_t>(kind)]; }
  // `outside_bytes`: on the device but not the allocator's. `step` names the layers; may be null
  // where no moment is a layer's.
  StepMemory summary(const TrainingStep* step, double outside_bytes, std::int64_t capacity) const;

 private:
  struct Moment {
    MemoryPhase phase = MemoryPhase::construction;
    int layer = -1;
  };
  // A block's time, for the log. Allocations are counted; it is gone before that number.
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
  std::vector<int> log_steps_;  // in which each moment of the log lies
  int step_ = -1, micro_batch_ = 0;
  std::int64_t moment_peak_ = 0;
  MemoryPhase phase_ = MemoryPhase::construction;
  int layer_ = -1;
  MemoryAccount live_{}, at_peak_{};
  std::vector<MemoryKind> kinds_;  // by block
  std::vector<Life> lives_;        // of every allocation, where there is a log
  std::vector<std::size_t> life_;  // by block
  std::size_t peak_life_ = 0;      // whose allocation made the peak
  std::int64_t peak_ = 0;
  Moment peak_moment_, failure_moment_;
  bool failed_ = false;
};

}  // namespace lockstep
