// The program that a rank plays in each step: its actions, each with its layers.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "memory/gradient_pool.hpp"
#include "memory/step_memory.hpp"
#include "parallel/schedule.hpp"

namespace lockstep {

// Layers [first, end) of a step that are played together.
struct LayerRange {
  int first = 0, end = 0;
};

struct PlayedProgram {
  RankProgram actions;
  std::vector<LayerRange> chunks;
  // The batch of the whole step is there from its begin, and micro-batches are in flight together; there are
  // messages between the actions.
  bool pipelined = false;
  PipelineHolding holding{};
  double held_bytes = 0;  // of further micro-batches, until the step ends
};

// A step has a first and a last micro-batch, and those between repeat the second.
inline constexpr int distinct_micro_batches = 3;
PlayedProgram without_pipeline(const TrainingStep& step, int micro_batches);
// A rank's program with messages.
PlayedProgram pipelined(const JoinedParts& rank, const RankProgram& program,
                        const PipelineHolding& holding);

// A micro-batch between its first forward and its last backward.
struct Flight {
  struct Chunk {
    int arrived = -1, leaving = -1;  // gradients from the next part, for the part before
    std::vector<int> held;           // gradients that the host holds until backward is done
    std::vector<std::pair<int, int>> for_weights;  // layer, gradient of its output
    std::vector<int> sent;                         // tensors that are on their way
    bool halved = false;  // between the gradients of the input and those of the weights
  };
  Flight(Tape& tape, std::size_t tensors, std::size_t layers, std::size_t chunk_count)
      : blocks(tensors, CachingAllocator::nothing), gradients(tape, layers), chunks(chunk_count) {}

  std::vector<Tape::Block> blocks;  // by tensor of the Liveness
  GradientPool gradients;
  std::vector<Chunk> chunks;
};

}  // namespace lockstep
