// A job in a world of its own: its stages with their ranks and links, and the parts of the model
// that they hold. Without a pipeline there is one stage with one part. A strategy prices its hooks
// with a part's context, and acts on it while the training loop runs.
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

// The ranks of a stage. Links are the stage's own.
struct StageRanks {
  StageRanks(World& world, const Job& job, int stage, const std::string& name,
             const RankSpeeds& speeds, const StepCosts& costs);

  // Returns the same communicator for the same name: parts of one stage share their process groups. `groups`: of the stage's
  // ranks; none = all of them together.
  Communicator& communicator(const std::string& name, const RankGroups& groups = {},
                             Axis axis = Axis::data);

  const int stage;
  const RankSpeeds& speeds;
  JobNetwork network;
  RankGroup& ranks;

 private:
  std::map<std::string, Communicator*> communicators_;
};

struct TrainingContext {
  TrainingContext(const Job& part_job, World& world, StageRanks& stage, const RankSpeeds& speeds);

  // Whether backward is simulated in two parts.
  bool splits_backward() const {
    return job.mesh.pipeline > 1 && lockstep::splits_backward(job.parallel.pipeline.schedule);
  }

  // Issued by the host, as ProcessGroupNCCL does it; starts after `after` on the device.
  Event collective(Communicator& communicator, const PricedTransfer& transfer, const Event& after);
  // An exchange of one of the step's layers, over the ranks of its axis.
  Event exchange(const AxisExchange& exchange, const Event& after);
  // Sums gradients of parameters that all tensor ranks hold and of which every tensor rank has a
  // summand: one tensor after the other (PyTorch), or all as one (Megatron-LM,
  // finalize_model_grads; fact H18).
  void sum_over_tensor_ranks();
  // Reduces one number over all tensor ranks; the compute stream waits for it.
  void reduce_scalar_over_tensor_ranks();
  Event copy(StreamId stream, const PricedTransfer& transfer, const Event& after);
  void copies(const QueuedWork& work, std::string_view name = {});  // on the compute stream
  // Kernels on another stream: the host launches them, the stream runs them after `after`. On a
  // CPU, which has no streams, the computing thread waits and runs them.
  Event run(StreamId stream, const QueuedWork& kernels, const Event& after);

  const Job job;  // with the part's step and costs
  const StepCosts costs;
  const RankSpeeds& speeds;
  World& world;
  StageRanks& stage;
  JobNetwork& network;
  RankGroup& ranks;
  ProvenanceTally always;      // the same in every step
  ProvenanceTally provenance;  // of the steps that are being issued

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
  std::vector<PricedTransfer> sums_;  // of gradients over the tensor ranks
  QueuedWork flattening_;             // before and after, where all are one
  PricedTransfer scalar_;             // over the tensor ranks
  std::map<const AxisExchange*, PricedExchange> exchanges_;
};

class TrainingWorld {
 public:
  // `axes`: groups of its communicators besides those of the mesh, except a group of all ranks.
  TrainingWorld(const Job& job, const std::string& name, Engine engine,
                std::span<const RankGroups> axes = {});

  const Job& job;
  const Engine engine;
  World world;
  const RankSpeeds speeds;
  std::deque<StageRanks> stages;
  std::deque<TrainingContext> parts;               // in the order of the model
  std::deque<Job> sliced_jobs;                     // of one token slice each
  std::deque<std::deque<TrainingContext>> slices;  // the parts of each slice
};

}  // namespace lockstep
