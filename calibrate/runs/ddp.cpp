// Data-parallel training with PyTorch's own engine, c10d::Reducer. It makes the same calls around
// the Reducer as torch/nn/parallel/distributed.py.
#include <ATen/core/grad_mode.h>

#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "runs/comm_hooks.hpp"
#include "runs/strategy.hpp"
#include "torch/grad_scaler.hpp"
#include "torch/optimizer.hpp"

namespace lockstep {

namespace {

// _sync_module_states and _sync_buffers of PyTorch broadcast in pieces of this size.
constexpr std::size_t broadcast_bytes = 250 * 1024 * 1024;

std::vector<at::Tensor> tensors_of(RealNetwork& network) {
  std::vector<at::Tensor> result;
  for (NetworkParameter& parameter : network.parameters()) result.push_back(parameter.tensor);
  return result;
}

// Calls the constructor of Reducer, whose arguments differ between releases. 1.13 and 2.4 have the
// arguments of the first branch. Later releases add skip_all_reduce_unused_params and
// use_python_reducer (both false by default in DDP). 2.8 has no limits of the first buckets, and
// 2.11 and 2.15 add the limits of rebuilt buckets.
template <class Reducer, class Limits, class GroupPointer, class... Rest>
std::unique_ptr<Reducer> construct_reducer(const std::vector<at::Tensor>& parameters,
                                           const std::vector<std::vector<std::size_t>>& buckets,
                                           const Limits& limits, const GroupPointer& group,
                                           const std::vector<std::int64_t>& caps,
                                           const Rest&... rest) {
  using Parameters = decltype(parameters);
  using Buckets = decltype(buckets);
  if constexpr (std::is_constructible_v<Reducer, Parameters, Buckets, Limits, GroupPointer,
                                        Rest...>) {
    return std::make_unique<Reducer>(parameters, buckets, limits, group, rest...);
  } else if constexpr (std::is_constructible_v<Reducer, Parameters, Buckets, Limits, GroupPointer,
                                               Rest..., bool, bool>) {
    return std::make_unique<Reducer>(parameters, buckets, limits, group, rest..., false, false);
  } else if constexpr (std::is_constructible_v<Reducer, Parameters, Buckets, GroupPointer, Rest...,
                                               bool, bool>) {
    return std::make_unique<Reducer>(parameters, buckets, group, rest..., false, false);
  } else {
    return std::make_unique<Reducer>(parameters, buckets, group, rest..., false, false, caps);
  }
}

std::unique_ptr<c10d::Reducer> make_reducer(const TrainOptions& options, Group& group,
                                            const std::vector<at::Tensor>& parameters) {
  const auto first = static_cast<std::size_t>(options.first_bucket_bytes);
  const auto cap = static_cast<std::size_t>(options.bucket_bytes);
  const std::vector<bool> sparse(parameters.size(), false);
  auto [buckets, limits] =
      c10d::compute_bucket_assignment_by_size(parameters, {first, cap}, sparse);
  std::reverse(buckets.begin(), buckets.end());
  std::reverse(limits.begin(), limits.end());
  const std::vector<std::int64_t> caps{static_cast<std::int64_t>(first),
                                       static_cast<std::int64_t>(cap)};
  return construct_reducer<c10d::Reducer>(
      parameters, buckets, limits, group.process_group(), caps, sparse, caps.back(),
      /*find_unused_parameters=*/false, options.gradient_as_bucket_view,
      std::unordered_map<std::size_t, std::string>{}, caps.front());
}

class RealDdp final : public RealStrategy {
 public:
  explicit RealDdp(RankContext& context)
      : context_(context),
        parameters_(tensors_of(context.network)),
        optimizer_(context.options.optimizer, context.network),
        scaler_(context.options.step.precision, at::Device(context.options.device)) {
    hooks_.before = [this](std::size_t) { context_.slowness.pay(); };
    if (context.group.size() == 1)
      return;  // plain training, like the simulator's ddp on one device
    broadcast(parameters_);
    broadcast(context.network.buffers());
    reducer_ = make_reducer(context.options, context.group, parameters_);
    register_comm_hook(*reducer_, context.options, context.group);
  }

  bool train_step(const Batch& batch, RankStep& step) override {
    if (reducer_) {
      reducer_->prepare_for_forward();
      if (reducer_->should_rebuild_buckets()) reducer_->rebuild_buckets();
      broadcast(context_.network.buffers());
    }
    at::Tensor loss = context_.network.forward(batch, hooks_);
    context_.slowness.pause();
    context_.clock.mark();
    if (reducer_) reducer_->prepare_for_backward({});
    at::Tensor scaled = scaler_.scale(loss);
    backward(scaled, context_.slowness);
    context_.clock.mark();
    step.skipped = !scaler_.unscale(parameters_);
    if (!step.skipped) optimizer_.step();
    context_.slowness.pause();
    context_.network.drop_gradients();
    step.loss = loss.item<double>();
    return true;
  }

  std::vector<at::Tensor> optimizer_state() const override { return optimizer_.state(); }

 private:
  void broadcast(const std::vector<at::Tensor>& tensors) {
    if (tensors.empty()) return;
    const at::NoGradGuard no_gradients;
    std::vector<at::Tensor> plain;
    for (const at::Tensor& tensor : tensors) plain.push_back(tensor.detach());
    c10d::broadcast_coalesced(context_.group.process_group(), plain, broadcast_bytes, 0);
  }

  RankContext& context_;
  std::vector<at::Tensor> parameters_;
  Optimizer optimizer_;
  GradScaler scaler_;
  std::unique_ptr<c10d::Reducer> reducer_;  // null with one rank
  ForwardHooks hooks_;
};

}  // namespace

std::unique_ptr<RealStrategy> make_real_ddp(RankContext& context) {
  return std::make_unique<RealDdp>(context);
}

}  // namespace lockstep
