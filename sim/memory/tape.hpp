// The running account while a step is played: which moment it is, how many bytes of each kind live,
// and what the picture was at the highest point. Owns the allocator.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "memory/allocator.hpp"
#include "memory/step_memory.hpp"
#include "workload/step.hpp"

namespace lockstep {

enum class MemoryKind {
  parameters,
  buffers,  // BatchNorm statistics
  gradients,
  buckets,
  optimizer_state,
  gathered_parameters,
  activations,
  activation_gradients,
  temporaries,
  workspace,
  inputs,
};
inline constexpr std::array memory_kind_names{"parameters",      "buffers",
                                              "gradients",       "buckets",
                                              "optimizer state", "gathered parameters",
                                              "activations",     "activation gradients",
                                              "temporaries",     "workspace",
                                              "inputs"};

enum class MemoryPhase {
  construction,
  inputs,
  forward,
  recomputation,
  backward,
  optimizer,
  serving
};

// Streams that own blocks (fact 29, 47); each has its own pools.
enum Stream : int { compute_stream = 0, unshard_stream = 1, reduce_stream = 2 };

class Tape {
 public:
  using Block = CachingAllocator::Block;

  explicit Tape(const AllocatorOptions& options) : allocator_(options) {}

  void at(MemoryPhase phase, int layer = -1) {
    phase_ = phase;
    layer_ = layer;
  }
  Block allocate(MemoryKind kind, double bytes, Stream stream = compute_stream);
  Block try_workspace(double bytes);  // nothing where it does not fit
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
  void record(Block block, MemoryKind kind);
  static std::string text(const Moment& moment, const TrainingStep* step);

  CachingAllocator allocator_;
  MemoryPhase phase_ = MemoryPhase::construction;
  int layer_ = -1;
  std::array<std::int64_t, memory_kind_names.size()> live_{}, at_peak_{};
  std::vector<MemoryKind> kinds_;  // by block
  std::int64_t peak_ = 0;
  Moment peak_moment_, failure_moment_;
  bool failed_ = false;
};

}  // namespace lockstep
