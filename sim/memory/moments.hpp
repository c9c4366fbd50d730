// Vocabulary of memory accounts: kinds of memory, phases and moments of a step, and the log of a
// step's moments. The report draws the memory over a step from a MemoryLog; a result names the
// moment of its peak.
#pragma once

#include <array>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

namespace lockstep {

struct TrainingStep;

// The purpose of a block; every allocated byte has exactly one kind.
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

// The part of the host's program. `serving` is a parameter server's only phase after construction.
enum class MemoryPhase {
  construction,
  inputs,
  forward,
  recomputation,
  backward,
  optimizer,
  serving
};

// The whole of a backward, or one half of a split backward: gradients of inputs, then gradients of
// weights.
enum class BackwardHalf { both, inputs, weights };

// Moments of the parameter gradients of a chunked loss, which forward computes piece by piece.
enum class PiecesMoment {
  first,    // the gradients of the first piece are computed
  another,  // the gradients of another piece are computed and added
  over,     // all pieces are done
  backward  // the backward pass reaches the layer
};

// Live bytes by kind, with each block rounded up as the allocator rounds it.
using MemoryAccount = std::array<std::int64_t, memory_kind_names.size()>;

inline std::int64_t total_bytes(const MemoryAccount& account) {
  return std::accumulate(account.begin(), account.end(), std::int64_t{0});
}

// Text of a moment: "backward of layer4.2.conv3". `step` names the layers; it may be null for
// phases without layers.
std::string moment_text(MemoryPhase phase, int layer, const TrainingStep* step);

// The account of one moment: one phase of one layer of one micro-batch.
struct MemoryMoment {
  MemoryPhase phase = MemoryPhase::construction;
  int layer = -1;  // index of a layer of the step; -1 = none
  int micro_batch = 0;
  MemoryAccount highest{};  // live bytes at the highest point of the moment
  MemoryAccount after{};    // live bytes at the end of the moment
};

// All blocks of one name and kind that are live at the peak of allocated bytes.
struct LiveTensors {
  std::string name;  // "features.0.weight", "output of layer1.0.conv2", "bucket 3"
  MemoryKind kind = MemoryKind::parameters;
  int count = 0;
  std::int64_t bytes = 0;  // sum over all blocks, each rounded as the allocator rounds it
};

// The moments of one step in the host's order. Without a pipeline it has at most three
// micro-batches: the first, the second (which represents all between the first and the last), and
// the last.
struct MemoryLog {
  std::vector<MemoryMoment> moments;
  std::vector<LiveTensors> at_peak;  // largest first; their sum is the allocated peak
};

}  // namespace lockstep
