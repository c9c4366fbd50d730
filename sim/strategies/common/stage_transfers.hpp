// The messages between the stages of a pipeline, placed by the schedule. Used by the training loop
// of jobs with a pipeline.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "strategies/common/context.hpp"

namespace lockstep {

// A channel between two stages and the prices of its messages: one per token slice, or one for all.
struct StageEdge {
  Channel* channel = nullptr;
  std::vector<PricedTransfer> transfers;
};
using StageEdges = std::map<std::pair<int, int>, StageEdge>;  // by sender and receiver

// Activations go from each part of the model to the next, gradients go back. Each such edge has a
// channel and an order of its own. Parts on one stage pass them on without a message.
class StageTransfers {
 public:
  struct Edges {
    StageEdges parts;       // between parts of the model
    StageEdges neighbours;  // between stages, for a number of the whole job
    StageEdges shared;      // between stages that hold the same parameter, for its gradient
  };
  StageTransfers(TrainingWorld& world, StageRanks& stage, const Edges& edges);

  // Executes a message of the stage's program (parallel/schedule.hpp: with_messages).
  Program play(const Action& message);
  // Returns when the action's input has arrived.
  Program arrived(const Action& action);
  // Returns when all messages of this step have arrived.
  void end_step();
  // Sums the gradients of parameters on two stages, such as a head tied to its embedding
  // (Megatron-LM, finalize_model_grads: _allreduce_embedding_grads; fact H43).
  Program share_gradients();
  // Returns when all stages have called it, and a number has gone to the last stage and back.
  Program meet();

 private:
  // The edge to the part before, or after.
  const StageEdge* edge_in(const Action& action, bool from_before) const;
  const StageEdge* edge_out(const Action& action, bool to_next) const;
  int part_of(const Action& action) const;
  Event send(const StageEdge& edge, int micro = 0);
  Event receive(const StageEdge& edge);
  Program wait(const Event& event);

  // Messages under way: deed, chunk and micro-batch.
  using Key = std::tuple<Deed, int, int>;
  TrainingWorld& world_;
  StageRanks& stage_;
  const Edges& edges_;
  const PipelineShape shape_;
  std::map<Key, Event> under_way_;
};

// The transfers of all stages of a job.
class JobTransfers {
 public:
  explicit JobTransfers(TrainingWorld& world);
  StageTransfers& of(int stage) { return stages_[static_cast<std::size_t>(stage)]; }

 private:
  StageTransfers::Edges edges_;
  std::deque<StageTransfers> stages_;
};

}  // namespace lockstep
