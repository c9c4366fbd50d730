// What kinds of memory there are, at which moments of a step, and the account of each moment.
#pragma once

#include <array>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

namespace lockstep {

struct TrainingStep;

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

// Which half of backward; `weights` is played by the gradients that `inputs` has left.
enum class BackwardHalf { both, inputs, weights };

// When the gradients of a layer that works on pieces of the tokens are there, in forward; and backward.
enum class PiecesMoment {
  first,    // those of the first piece
  another,  // those of another piece, which are added to them
  over,     // all of them
  backward  // it comes to the layer
};

// Live bytes by kind, blocks rounded as the allocator rounds them.
using MemoryAccount = std::array<std::int64_t, memory_kind_names.size()>;

inline std::int64_t total_bytes(const MemoryAccount& account) {
  return std::accumulate(account.begin(), account.end(), std::int64_t{0});
}

// "backward of layer4.2.conv3". `step` names the layers; may be null where no moment is a layer's.
std::string moment_text(MemoryPhase phase, int layer, const TrainingStep* step);

struct MemoryMoment {
  MemoryPhase phase = MemoryPhase::construction;
  int layer = -1;  // of the step's, or none
  int micro_batch = 0;
  MemoryAccount highest{};  // when most bytes lived,
  MemoryAccount after{};    // and at its end
};

// What lives at the allocated peak under one name.
struct LiveTensors {
  std::string name;  // "features.0.weight", "output of layer1.0.conv2", "bucket 3"
  MemoryKind kind = MemoryKind::parameters;
  int count = 0;
  std::int64_t bytes = 0;  // of all of them, blocks rounded
};

// Of one step, in the host's order; of its micro-batches the first, the second (for all between) and
// the last.
struct MemoryLog {
  std::vector<MemoryMoment> moments;
  std::vector<LiveTensors> at_peak;  // largest first; their sum is the allocated peak
};

}  // namespace lockstep
