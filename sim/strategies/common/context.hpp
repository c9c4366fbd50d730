// A job in a simulated world of its own: the pipeline's stages with their ranks and links, and the
// parts of the model that the stages hold. Without a pipeline there is one stage with one part. A
// strategy makes a TrainingWorld, prices its transfers with a part's TrainingContext, and issues
// work through the context while the training loop runs (training_loop.hpp).
//
//   TrainingWorld
//     StageRanks        stage 0: ranks, links, communicators
//       TrainingContext   part 0 of the model: costs, exchanges; with interleaving also part 2, ...
//     StageRanks        stage 1
//       TrainingContext   part 1 of the model
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/channel.hpp"
#include "strategies/common/mesh_groups.hpp"
#include "strategies/common/network.hpp"
#include "strategies/common/run_steps.hpp"
#include "strategies/common/stragglers.hpp"

namespace lockstep {

// The ranks of a stage, with links of their own. A number of a rank counts within the stage.
struct StageRanks {
  StageRanks(World& world, const Job& job, int stage, const std::string& name,
             const RankSpeeds& speeds, const StepCosts& costs);

  // The communicator of this name, made at the first call: parts of one stage share their process
  // groups. `groups`: the group of each rank; empty = all ranks together. `axis`: the axis of the
  // mesh whose exposed communication counts the waits for it.
  Communicator& communicator(const std::string& name, const RankGroups& groups = {},
                             Axis axis = Axis::data);

  const int stage;
  const RankSpeeds& speeds;
  JobNetwork network;
  RankGroup& ranks;

 private:
  std::map<std::string, Communicator*> communicators_;
};

// A part of the model on the ranks of a stage: prices of its layers and exchanges, and functions
// that issue work from the stage's host. Hooks of a strategy hold a reference to it.
struct TrainingContext {
  // `part_job`: part_job() of the whole job. Prices the layers and exchanges of the part.
  TrainingContext(const Job& part_job, World& world, StageRanks& stage, const RankSpeeds& speeds);

  // Whether the pipeline's schedule has the gradients of inputs and of weights as two actions.
  bool splits_backward() const {
    return job.mesh.pipeline > 1 && lockstep::splits_backward(job.parallel.pipeline.schedule);
  }

  // Issues a collective from the host, at the host's cost of ProcessGroupNCCL (fact 24). It starts
  // when `after` has happened on the device of each rank. Returns its end.
  Event collective(Communicator& communicator, const PricedTransfer& transfer, const Event& after);
  // Issues an exchange of one of the part's layers, over the ranks of its axis. Returns its end.
  Event exchange(const AxisExchange& exchange, const Event& after);
  // Sums gradients over the tensor ranks, for parameters that every tensor rank holds whole while
  // it has a summand of their gradient only, such as norms under sequence parallelism: one tensor
  // after the other (PyTorch), or all as one (Megatron-LM, finalize_model_grads; fact H18).
  void sum_over_tensor_ranks();
  // Reduces one number over all tensor ranks; the compute stream waits for it.
  void reduce_scalar_over_tensor_ranks();
  // A copy over links on a stream of its own, after `after`. Returns its end.
  Event copy(StreamId stream, const PricedTransfer& transfer, const Event& after);
  // Kernels on the compute stream that count as copies; no work = nothing happens.
  void copies(const QueuedWork& work, std::string_view name = {});
  // Kernels on another stream: the host launches them, the stream runs them after `after`. On a
  // CPU, which has no streams, the computing thread waits and runs them.
  Event run(StreamId stream, const QueuedWork& kernels, const Event& after);

  const Job job;  // the whole job, with the step and the costs of this part
  const StepCosts costs;
  const RankSpeeds& speeds;
  World& world;
  StageRanks& stage;
  JobNetwork& network;
  RankGroup& ranks;
  ProvenanceTally always;      // sources of the seconds that every step has
  ProvenanceTally provenance;  // sources of the seconds of the steps issued so far in this period

  // The price and the communicator of an exchange of the step's layers.
  struct PricedExchange {
    Communicator* communicator = nullptr;
    PricedTransfer transfer;
  };
  const PricedExchange& priced(const AxisExchange& exchange) const {
    return exchanges_.at(&exchange);
  }

 private:
  void price_exchanges();
  void price_sums();
  void over_tensor_ranks(const PricedTransfer& transfer);
  std::vector<PricedTransfer> sums_;  // all-reduces of gradients over the tensor ranks
  QueuedWork flattening_;             // copies before and after a sum of all tensors as one
  PricedTransfer scalar_;             // all-reduce of one number over the tensor ranks
  std::map<const AxisExchange*, PricedExchange> exchanges_;
};

// The world of a job, with everything in it. One per simulated point.
class TrainingWorld {
 public:
  // `name`: of the rank group, for an observer. `axes`: the group of each rank of a stage, for each
  // division that the strategy's communicators use in addition to the mesh's. A single group of all
  // ranks need not be listed. Ranks share a lane only if their groups are alike on all axes.
  TrainingWorld(const Job& job, const std::string& name, Engine engine,
                std::span<const RankGroups> axes = {});

  const Job& job;
  const Engine engine;
  World world;
  const RankSpeeds speeds;
  std::deque<StageRanks> stages;
  std::deque<TrainingContext> parts;  // in the order of the model
  std::deque<Job> sliced_jobs;        // the job with the step of one token slice, for each slice
  // By token slice, its parts in the order of the model; empty = micro-batches are whole.
  std::deque<std::deque<TrainingContext>> slices;
};

}  // namespace lockstep
