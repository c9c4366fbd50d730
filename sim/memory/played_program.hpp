// The actions that a rank carries out in each step, each with the layers of its chunk, and the
// state of a micro-batch in flight. Pipelines use their schedule's program; without a pipeline,
// forward and backward alternate.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "memory/gradient_pool.hpp"
#include "memory/step_memory.hpp"
#include "parallel/schedule.hpp"

namespace lockstep {

// Layers [first, end) of a step that form one chunk.
struct LayerRange {
  int first = 0, end = 0;
};

// A program with the layers of its chunks.
struct PlayedProgram {
  RankProgram actions;
  std::vector<LayerRange> chunks;
  // If true, the inputs of the whole step are copied at its beginning, several micro-batches are in
  // flight at the same time, and the actions include messages.
  bool pipelined = false;
  PipelineHolding holding{};
  double held_bytes = 0;  // held until the step ends for micro-batches that are not simulated
};

// The number of micro-batches that can differ in memory: the first, the last, and one that
// represents all between.
inline constexpr int distinct_micro_batches = 3;
// The program that carries out one micro-batch after the other. At most distinct_micro_batches are
// played.
PlayedProgram without_pipeline(const TrainingStep& step, int micro_batches);
// The program of a pipeline's rank, with messages.
PlayedProgram pipelined(const JoinedParts& rank, const RankProgram& program,
                        const PipelineHolding& holding);

// A micro-batch in flight, between its first forward and its last backward. Gradients are given by
// their ids in its pool.
struct Flight {
  // The state of the micro-batch in one chunk of the rank.
  struct Chunk {
    int arrived = -1, leaving = -1;  // gradients: from the next part, and for the previous part
    std::vector<int> held;           // gradients that the host holds until backward is done
    std::vector<std::pair<int, int>> for_weights;  // layer, and gradient of its output
    std::vector<int> sent;                         // tensors whose send is not complete
    bool halved = false;  // whether only the first half of a split backward is done
  };
  Flight(Tape& tape, std::size_t tensors, std::size_t layers, std::size_t chunk_count)
      : blocks(tensors, CachingAllocator::nothing), gradients(tape, layers), chunks(chunk_count) {}

  std::vector<Tape::Block> blocks;  // by tensor of the Liveness
  GradientPool gradients;
  std::vector<Chunk> chunks;
};

}  // namespace lockstep
