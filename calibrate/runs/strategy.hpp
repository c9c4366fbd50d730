// The seam between the training loop and the distributed strategies. Includes ATen.
#pragma once

#include <memory>

#include "runs/slowness.hpp"
#include "runs/train_options.hpp"
#include "torch/clock.hpp"
#include "torch/process_group.hpp"
#include "torch/real_network.hpp"

namespace lockstep {

// The surroundings of a strategy; they outlive it.
struct RankContext {
  const TrainOptions& options;
  Group& group;
  RealNetwork& network;
  Slowness& slowness;
  Clock& clock;  // of the step under way: began with it
};

class RealStrategy {
 public:
  virtual ~RealStrategy() = default;
  // One optimizer step on `batch`. Reports its loss and whether the update was skipped, and marks
  // the clock twice: after the forward pass, and when all gradients are available. Returns false if
  // this was the last step, even if the options ask for more.
  virtual bool train_step(const Batch& batch, RankStep& step) = 0;
  virtual std::vector<at::Tensor> optimizer_state() const = 0;
  // Makes the network's parameters whole on this rank, to evaluate or compare them.
  virtual void gather_everything() {}
};

// loss.backward() of a rank that may be slow; the wait at its end is not slowed.
void backward(at::Tensor& loss, Slowness& slowness);

std::unique_ptr<RealStrategy> make_real_ddp(RankContext& context);
std::unique_ptr<RealStrategy> make_real_fsdp(RankContext& context);
std::unique_ptr<RealStrategy> make_ps_worker(RankContext& context);

std::unique_ptr<RealStrategy> make_diloco(RankContext& context);
std::unique_ptr<RealStrategy> make_fedavg_worker(RankContext& context);

// All parameters in one flat tensor that they are views of, and one element more: the server's
// word whether to go on.
at::Tensor flatten_parameters(RealNetwork& network);

// The server's whole run: returns when every worker has finished. Adds the staleness of every
// update after the warm-up.
void serve_parameters(const TrainOptions& options, Group& group, RealNetwork& network,
                      RankReport& report);
void serve_rounds(const TrainOptions& options, Group& group, RealNetwork& network,
                  RankReport& report);  // of fedavg

}  // namespace lockstep
