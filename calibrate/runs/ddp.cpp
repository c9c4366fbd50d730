// Data-parallel training with PyTorch's own engine, c10d::Reducer: the calls that
// torch/nn/parallel/distributed.py makes around it.
#include <limits>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "runs/strategy.hpp"
#include "torch/clock.hpp"
#include "torch/optimizer.hpp"

namespace lockstep {

namespace {

// _sync_module_states and _sync_buffers broadcast in pieces of this size.
constexpr std::size_t broadcast_bytes = 250 * 1024 * 1024;

std::vector<at::Tensor> tensors_of(Network& network) {
  std::vector<at::Tensor> result;
  for (NetworkParameter& parameter : network.parameters()) result.push_back(parameter.tensor);
  return result;
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
  return std::make_unique<c10d::Reducer>(
      parameters, buckets, limits, group.process_group(), sparse, static_cast<std::int64_t>(cap),
      /*find_unused_parameters=*/false, options.gradient_as_bucket_view,
      std::unordered_map<std::size_t, std::string>{}, static_cast<std::int64_t>(first));
}

class RealDdp final : public RealStrategy {
 public:
  explicit RealDdp(RankContext& context)
      : context_(context),
        parameters_(tensors_of(context.network)),
        optimizer_(context.options.optimizer, context.network) {
    broadcast(parameters_);
    broadcast(context.network.buffers());
    reducer_ = make_reducer(context.options, context.group, parameters_);
    hooks_.before = [this](std::size_t) { context_.slowness.pay(); };
  }

  bool train_step(const Batch& batch, RankStep& step) override {
    reducer_->prepare_for_forward();
    if (reducer_->should_rebuild_buckets()) reducer_->rebuild_buckets();
    broadcast(context_.network.buffers());
    at::Tensor loss = context_.network.forward(batch, hooks_);
    context_.slowness.pause();
    const double forward_end = host_seconds();
    reducer_->prepare_for_backward({});
    backward(loss, context_.slowness);
    const double backward_end = host_seconds();
    optimizer_.step();
    context_.slowness.pause();
    if (!context_.options.gradient_as_bucket_view) context_.network.drop_gradients();
    step.loss = loss.item<double>();
    step.end = host_seconds();
    step.forward = forward_end - step.begin;
    step.backward = backward_end - forward_end;
    step.optimizer = step.end - backward_end;
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
  std::unique_ptr<c10d::Reducer> reducer_;
  ForwardHooks hooks_;
};

}  // namespace

std::unique_ptr<RealStrategy> make_real_ddp(RankContext& context) {
  return std::make_unique<RealDdp>(context);
}

}  // namespace lockstep
