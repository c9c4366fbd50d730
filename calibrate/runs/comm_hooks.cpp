// Implements the hooks as chains of stages (torch/hook_stages.hpp) and collectives. A hook gets a
// bucket of this rank's gradients as soon as the bucket is full, and returns a future of the
// bucket's common result. The stage after a collective runs on the collective's thread when the
// collective has ended.
#include "runs/comm_hooks.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <torch/csrc/distributed/c10d/comm.hpp>

#include "torch/hook_stages.hpp"

namespace lockstep {

namespace {

using FuturePointer = c10::intrusive_ptr<c10::ivalue::Future>;

// The tensor of a completed future. Rethrows an error of an earlier stage.
at::Tensor value_of(c10::ivalue::Future& left) {
  return left.value().toTensor();
}

FuturePointer known(const at::Tensor& value) {
  auto future = c10::make_intrusive<c10::ivalue::Future>(c10::TensorType::get());
  future->markCompleted(value);
  return future;
}

// A hook with stages. All ranks must start the collectives of a group in the same order, so each
// collective of a bucket has a separate group, whose thread handles the buckets in their order. In
// a single group, the order of one bucket's second collective and the next bucket's first would be
// random.
class StagedHook final : public c10d::CommHookInterface {
 public:
  StagedHook(Group& group, const HookSettings& settings, std::uint64_t seed)
      : settings_(settings), work_(make_compression_hook(settings, seed)) {
    groups_.push_back(group.process_group());
    for (std::size_t i = 1; i + 1 < stages_of(settings.hook); ++i) {
      siblings_.push_back(group.sibling(fmt::format("hook{}", i)));
      groups_.push_back(siblings_.back()->process_group());
    }
  }

  at::Tensor parseHookResult(const c10::IValue& result) override { return result.toTensor(); }

  FuturePointer runHook(c10d::GradBucket& bucket) override {
    const auto stages = std::make_shared<const HookStages>(
        work_->stages(bucket.getBuffer(), bucket.getParameters(), bucket.getIndex()));
    const auto run = [stages](std::size_t stage, const at::Tensor& received) {
      const at::NoGradGuard no_gradients;
      return stages->at(stage)(received);
    };
    FuturePointer received = exchange(0, run(0, {}));
    for (std::size_t i = 1; i < groups_.size(); ++i) {
      const auto next = [this, run, i](c10::ivalue::Future& left) {
        return exchange(i, run(i, value_of(left)));
      };
      received = received->thenAsync(next, c10::TensorType::get());
    }
    const auto last = [run, i = groups_.size()](c10::ivalue::Future& left) {
      return c10::IValue(run(i, value_of(left)));
    };
    return received->then(last, c10::TensorType::get());
  }

 private:
  FuturePointer exchange(std::size_t stage, const at::Tensor& message) {
    if (message.numel() == 0) return known(message);
    std::vector<at::Tensor> sent{message};
    at::Tensor received = message;
    FuturePointer done;
    if (settings_.hook == CodedHook::top_k) {
      received = at::empty({settings_.ranks * message.numel()});
      std::vector<std::vector<at::Tensor>> parts{received.chunk(settings_.ranks)};
      done = groups_[stage]->allgather(parts, sent)->getFuture();
    } else {
      done = groups_[stage]->allreduce(sent)->getFuture();
    }
    const auto unless_failed = [received](c10::ivalue::Future& left) {
      (void)left.value();
      return c10::IValue(received);
    };
    return done->then(unless_failed, c10::TensorType::get());
  }

  const HookSettings settings_;
  const std::unique_ptr<CompressionHook> work_;
  std::vector<std::unique_ptr<Group>> siblings_;
  // One for each collective of a bucket.
  std::vector<c10::intrusive_ptr<c10d::ProcessGroup>> groups_;
};

}  // namespace

void register_comm_hook(c10d::Reducer& reducer, const TrainOptions& options, Group& group) {
  HookSettings settings{
      .fraction = options.hook_fraction, .rank = options.hook_rank, .ranks = group.size()};
  switch (options.comm_hook) {
    case RealHook::none:
      return;
    case RealHook::fp16:
      reducer.register_builtin_comm_hook(c10d::BuiltinCommHookType::FP16_COMPRESS);
      return;
    case RealHook::top_k:
      settings.hook = CodedHook::top_k;
      break;
    case RealHook::powersgd:
      settings.hook = CodedHook::powersgd;
      break;
  }
  reducer.register_comm_hook(
      std::make_unique<StagedHook>(group, settings, static_cast<std::uint64_t>(options.seed)));
}

}  // namespace lockstep
