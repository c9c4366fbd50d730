// The messages between the stages of a pipeline: activations, gradients, and the few numbers that
// all stages share. The schedule determines their place in a stage's program (with_messages() of
// parallel/schedule.hpp). The training loop plays them if the job has a pipeline.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "strategies/common/context.hpp"

namespace lockstep {

// One direction between two stages: a channel, and the costs of its messages, either one cost for
// each token slice or one for all.
struct StageEdge {
  Channel* channel = nullptr;
  std::vector<PricedTransfer> transfers;
};
using StageEdges = std::map<std::pair<int, int>, StageEdge>;  // by sender and receiver

// The messages of one stage. Activations go from each part of the model to the next, and gradients
// go back. Each pair of consecutive parts has a channel for each direction, in which messages
// remain in order. Two consecutive parts on the same stage exchange no message.
class StageTransfers {
 public:
  struct Edges {
    StageEdges parts;       // between parts of the model
    StageEdges neighbours;  // between stages, for a single number of the whole job
    StageEdges shared;      // between stages that hold the same parameter, for its gradient
  };
  StageTransfers(TrainingWorld& world, StageRanks& stage, const Edges& edges);

  // Executes a message action of the stage's program: posts a receive, sends, or waits until a sent
  // message has arrived.
  Program play(const Action& message);
  // Makes the compute stream wait for the message that the action needs, if it needs one.
  Program arrived(const Action& action);
  // Makes the compute stream wait for all messages of this step.
  void end_step();
  // Sums the gradients of parameters on two stages, such as a head tied to its embedding
  // (Megatron-LM, finalize_model_grads: _allreduce_embedding_grads; fact H43).
  Program share_gradients();
  // Makes the compute stream wait until a number has gone from the first stage to the last and
  // back.
  // REQUIRES: every stage calls it.
  Program meet();

 private:
  // edge_in(): the edge on which the action's message arrives, from the part before or after this
  // one. edge_out(): the edge on which it leaves.
  const StageEdge* edge_in(const Action& action, bool from_before) const;
  const StageEdge* edge_out(const Action& action, bool to_next) const;
  int part_of(const Action& action) const;
  Event send(const StageEdge& edge, int micro = 0);
  Event receive(const StageEdge& edge);
  Program wait(const Event& event);

  // Identifies a message under way by its deed (parallel/schedule.hpp), chunk and micro-batch.
  using Key = std::tuple<Deed, int, int>;
  TrainingWorld& world_;
  StageRanks& stage_;
  const Edges& edges_;
  const PipelineShape shape_;
  std::map<Key, Event> under_way_;  // arrivals of the messages
};

// The transfers of all stages of a job. Owns the edges; the world owns the channels.
class JobTransfers {
 public:
  explicit JobTransfers(TrainingWorld& world);
  StageTransfers& of(int stage) { return stages_[static_cast<std::size_t>(stage)]; }

 private:
  StageTransfers::Edges edges_;
  std::deque<StageTransfers> stages_;
};

}  // namespace lockstep
