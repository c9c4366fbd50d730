// A job in a simulated world of its own: the stages of the pipeline with their ranks and links, and
// the parts of the model that each stage holds. Without a pipeline, one stage holds one part. A
// strategy makes a TrainingWorld, computes the costs of its transfers through a part's
// TrainingContext, and issues work through it while the training loop runs (training_loop.hpp).
//
//   TrainingWorld
//     StageRanks        stage 0: ranks, links, communicators
//       TrainingContext   part 0 of the model: costs, exchanges; if interleaved, also part 2, ...
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

// The ranks of a stage, with their links. Ranks are numbered within the stage.
struct StageRanks {
  StageRanks(World& world, const Job& job, int stage, const std::string& name,
             const RankSpeeds& speeds, const StepCosts& costs);

  // The communicator with this name. It is made at the first call, so that parts of one stage share
  // their process groups. `groups` is the group of each rank; empty = all ranks together. Exposed
  // communication of its collectives is counted on `axis` of the mesh.
  Communicator& communicator(const std::string& name, const RankGroups& groups = {},
                             Axis axis = Axis::data);

  const int stage;
  const RankSpeeds& speeds;
  JobNetwork network;
  RankGroup& ranks;

 private:
  std::map<std::string, Communicator*> communicators_;
};

// A part of the model on the ranks of a stage: the costs of its layers and exchanges, and functions
// that issue work from the stage's host. Hooks of a strategy hold a reference to it.
struct TrainingContext {
  // Computes the costs of the layers and exchanges of the part. `part_job` is the part_job() of the
  // whole job.
  TrainingContext(const Job& part_job, World& world, StageRanks& stage, const RankSpeeds& speeds);

  // Whether the pipeline's schedule computes the gradients of inputs and of weights in two actions.
  bool splits_backward() const {
    return job.mesh.pipeline > 1 && lockstep::splits_backward(job.parallel.pipeline.schedule);
  }

  // Issues a collective from the host, which needs the time of ProcessGroupNCCL (fact 24). The
  // collective starts when `after` has happened on the device of each rank. Returns its end.
  Event collective(Communicator& communicator, const PricedTransfer& transfer, const Event& after);
  // Issues an exchange of one of the part's layers, over the ranks of the exchange's axis. Returns
  // its end.
  Event exchange(const AxisExchange& exchange, const Event& after);
  // Sums gradients over the tensor ranks, for parameters that every tensor rank holds whole
  // although it computes only a summand of their gradient, for example norms under sequence
  // parallelism. PyTorch sums one tensor after the other; Megatron-LM (finalize_model_grads) sums
  // all as one (fact H18).
  void sum_over_tensor_ranks();
  // Reduces one number over all tensor ranks, and makes the compute stream wait for the result.
  void reduce_scalar_over_tensor_ranks();
  // Copies over links, on a stream of its own, after `after`. Returns the end of the copy.
  Event copy(StreamId stream, const PricedTransfer& transfer, const Event& after);
  // Runs kernels on the compute stream that count as copies. Does nothing if there is no work.
  void copies(const QueuedWork& work, std::string_view name = {});
  // Runs kernels on another stream: the host launches them, and the stream executes them after
  // `after`. A CPU has no streams; its computing thread waits for `after` and executes the kernels.
  Event run(StreamId stream, const QueuedWork& kernels, const Event& after);

  const Job job;  // the whole job, with the step and the costs of this part
  const StepCosts costs;
  const RankSpeeds& speeds;
  World& world;
  StageRanks& stage;
  JobNetwork& network;
  RankGroup& ranks;
  ProvenanceTally always;      // provenance of the seconds that every step has
  ProvenanceTally provenance;  // provenance of the seconds issued so far in this period

  // The cost and the communicator of an exchange of the step's layers.
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
  QueuedWork flattening_;             // copies before and after all tensors are summed as one
  PricedTransfer scalar_;             // all-reduce of one number over the tensor ranks
  std::map<const AxisExchange*, PricedExchange> exchanges_;
};

// The world of a job, with everything in it. A simulated point has one.
class TrainingWorld {
 public:
  // `name` is the name of the rank group, for an observer. `axes` are the groups of the strategy's
  // communicators, as the group of each rank of a stage. Groups of the mesh, and a single group of
  // all ranks, need not be listed. Ranks share a lane only if they are in equal groups on every
  // axis.
  TrainingWorld(const Job& job, const std::string& name, Engine engine,
                std::span<const RankGroups> axes = {});

  const Job& job;
  const Engine engine;
  World world;
  const RankSpeeds speeds;
  std::deque<StageRanks> stages;
  std::deque<TrainingContext> parts;  // in the order of the model
  std::deque<Job> sliced_jobs;        // for each token slice, the job with the step of this slice
  // By token slice: its parts, in the order of the model. Empty = micro-batches are not cut.
  std::deque<std::deque<TrainingContext>> slices;
};

}  // namespace lockstep
