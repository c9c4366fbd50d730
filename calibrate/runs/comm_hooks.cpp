// See comm_hooks.hpp. A hook gets a bucket of this rank's gradients as soon as it is full, and returns
// a future of the bucket that all ranks have. What comes after a collective runs when it has ended.
#include "runs/comm_hooks.hpp"

#include <ATen/ATen.h>

#include <map>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include "torch/largest.hpp"

namespace lockstep {

namespace {

using FuturePointer = c10::intrusive_ptr<c10::ivalue::Future>;

// Elements that this rank did not send, by parameter: buckets are cut anew after the first step.
class Kept {
 public:
  // The bucket's gradients with it, flat.
  at::Tensor added_to(const c10d::GradBucket& bucket) {
    at::Tensor sum = bucket.getBuffer().clone();
    std::int64_t first = 0;
    for (const at::Tensor& parameter : bucket.getParameters()) {
      const auto known = by_parameter_.find(parameter.unsafeGetTensorImpl());
      at::Tensor piece = sum.slice(0, first, first + parameter.numel());
      if (known != by_parameter_.end()) piece.add_(known->second);
      first += parameter.numel();
    }
    return sum;
  }
  void keep(const std::vector<at::Tensor>& parameters, const at::Tensor& rest) {
    std::int64_t first = 0;
    for (const at::Tensor& parameter : parameters) {
      by_parameter_[parameter.unsafeGetTensorImpl()] =
          rest.slice(0, first, first + parameter.numel()).clone();
      first += parameter.numel();
    }
  }

 private:
  std::map<const void*, at::Tensor> by_parameter_;
};

// The largest elements of each rank, with their places: one message, gathered from all.
class TopK final : public c10d::CommHookInterface {
 public:
  TopK(Group& group, double fraction)
      : group_(group.process_group()), ranks_(group.size()), fraction_(fraction) {}

  at::Tensor parseHookResult(const c10::IValue& result) override { return result.toTensor(); }

  FuturePointer runHook(c10d::GradBucket& bucket) override {
    const at::NoGradGuard no_gradients;
    at::Tensor sum = kept_.added_to(bucket);
    const at::Tensor places = largest_places(sum, fraction_);
    const std::int64_t count = places.numel();
    const at::Tensor values = sum.index_select(0, places);
    kept_.keep(bucket.getParameters(), sum.index_fill_(0, places, 0));
    std::vector<at::Tensor> message{at::cat({values, places.to(at::kInt).view(at::kFloat)})};
    std::vector<std::vector<at::Tensor>> all(1);
    for (int r = 0; r < ranks_; ++r) all[0].push_back(at::empty_like(message[0]));
    const auto decode = [all = all[0], count, result = bucket.getBuffer()](auto&) mutable {
      const at::NoGradGuard no_gradients_either;
      result.zero_();
      for (const at::Tensor& from : all) {
        result.index_add_(0, from.slice(0, count).view(at::kInt).to(at::kLong),
                          from.slice(0, 0, count));
      }
      return c10::IValue(result.div_(static_cast<double>(all.size())));
    };
    return group_->allgather(all, message)->getFuture()->then(decode, c10::TensorType::get());
  }

 private:
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  const int ranks_;
  const double fraction_;
  Kept kept_;
};

}  // namespace

void register_comm_hook(c10d::Reducer& reducer, const TrainOptions& options, Group& group) {
  switch (options.comm_hook) {
    case RealHook::none:
      return;
    case RealHook::fp16:
      reducer.register_builtin_comm_hook(c10d::BuiltinCommHookType::FP16_COMPRESS);
      return;
    case RealHook::top_k:
      reducer.register_comm_hook(std::make_unique<TopK>(group, options.hook_fraction));
      return;
  }
}

}  // namespace lockstep
