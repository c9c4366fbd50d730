// The interface between the training loop (rank.cpp) and the distributed strategies. Includes ATen.
#pragma once

#include <memory>

#include "runs/slowness.hpp"
#include "runs/train_options.hpp"
#include "torch/clock.hpp"
#include "torch/process_group.hpp"
#include "torch/real_network.hpp"

namespace lockstep {

// Everything that a strategy uses. It must outlive the strategy.
struct RankContext {
  const TrainOptions& options;
  Group& group;
  RealNetwork& network;
  Slowness& slowness;
  Clock& clock;  // clock of the present step, started at its beginning
};

class RealStrategy {
 public:
  virtual ~RealStrategy() = default;
  // One optimizer step on `batch`. Reports its loss and whether the update was skipped, and marks
  // the clock twice: after the forward pass, and when all gradients are available. Returns false if
  // this was the last step, even if the options ask for more.
  virtual bool train_step(const Batch& batch, RankStep& step) = 0;
  virtual std::vector<at::Tensor> optimizer_state() const = 0;
  // Gathers all parameters on this rank, so that the network can be evaluated or compared.
  virtual void gather_everything() {}
};

// Runs loss.backward() on a rank that may be slowed. The wait at the end of backward is not slowed.
void backward(at::Tensor& loss, Slowness& slowness);

std::unique_ptr<RealStrategy> make_real_ddp(RankContext& context);
std::unique_ptr<RealStrategy> make_real_fsdp(RankContext& context);
std::unique_ptr<RealStrategy> make_ps_worker(RankContext& context);

std::unique_ptr<RealStrategy> make_diloco(RankContext& context);
std::unique_ptr<RealStrategy> make_fedavg_worker(RankContext& context);

// Moves all parameters into one flat tensor, of which they become views. It has one additional
// element: 0 = the worker must continue, 1 = the training is over.
at::Tensor flatten_parameters(RealNetwork& network);

// The whole run of a server: returns when every worker has finished. Adds every push, and every
// update after the warm-up with its staleness, to the report. serve_rounds() is for fedavg.
void serve_parameters(const TrainOptions& options, Group& group, RealNetwork& network,
                      RankReport& report);
void serve_rounds(const TrainOptions& options, Group& group, RealNetwork& network,
                  RankReport& report);

}  // namespace lockstep
