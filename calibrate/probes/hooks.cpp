// Measures the stages of communication hooks on the buckets into which DDP divides a model's
// gradients. c10d's own function computes the buckets. Times are CPU times of the thread, so that
// waiting does not count.
#include "probes/hooks.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "probes/other_memory.hpp"
#include "probes/torch_errors.hpp"
#include "torch/clock.hpp"
#include "torch/hook_stages.hpp"
#include "torch/precision.hpp"
#include "torch/real_network.hpp"

namespace lockstep {

namespace {

using Tensors = std::vector<at::Tensor>;

constexpr double first_bucket_bytes = 1024 * 1024;  // DdpOptions::first_bucket_bytes
// Steps before the measurement, because unsent values are smaller in the first steps than later.
constexpr int first_steps = 5;

// The buckets by size. `parameters` begin with the last layer, because backward fills the buckets
// in this order.
std::map<double, Tensors> buckets_of(const Tensors& parameters, const std::vector<double>& caps) {
  std::map<double, Tensors> buckets;
  for (const double cap : caps) {
    const auto places = std::get<0>(c10d::compute_bucket_assignment_by_size(
        parameters, {static_cast<std::size_t>(first_bucket_bytes), static_cast<std::size_t>(cap)},
        std::vector<bool>(parameters.size(), false)));
    for (const std::vector<std::size_t>& of_bucket : places) {
      Tensors bucket;
      double bytes = 0;
      for (const std::size_t place : of_bucket) {
        bucket.push_back(parameters[place]);
        bytes += static_cast<double>(parameters[place].nbytes());
      }
      buckets.try_emplace(bytes, bucket);
    }
  }
  return buckets;
}

at::Tensor flat_gradients(const Tensors& bucket) {
  Tensors pieces;
  for (const at::Tensor& parameter : bucket) pieces.push_back(parameter.grad().flatten());
  return at::cat(pieces);
}

StageSeconds one_repetition(CompressionHook& hook, const HookSettings& settings,
                            const Tensors& bucket) {
  const HookStages stages = hook.stages(flat_gradients(bucket), bucket, 0);
  at::Tensor received;
  StageSeconds seconds;
  for (const auto& stage : stages) {
    const double begin = thread_cpu_seconds();
    const at::Tensor message = stage(received);
    seconds.push_back(thread_cpu_seconds() - begin);
    const bool gathered = settings.hook == CodedHook::top_k;
    received = gathered ? message.repeat({settings.ranks}) : message;
  }
  return seconds;
}

}  // namespace

std::vector<HookPoint> probe_hook(const TrainingStep& step, const HookProbeOptions& options) {
  return with_plain_errors([&] {
    flush_denormals();  // like real runs
    RealNetwork network(step, at::kCPU, 1);
    network.forward(random_batch(step, at::kCPU, 1)).backward();
    Tensors parameters;
    for (const NetworkParameter& one : network.parameters()) parameters.push_back(one.tensor);
    std::reverse(parameters.begin(), parameters.end());
    const at::NoGradGuard no_gradients;
    OtherMemory others;
    std::vector<HookPoint> points;
    for (const auto& [bytes, bucket] : buckets_of(parameters, options.bucket_bytes)) {
      const auto hook = make_compression_hook(options.settings, 1);
      for (int i = 0; i < first_steps; ++i) one_repetition(*hook, options.settings, bucket);
      HookPoint& point = points.emplace_back();
      point.bytes = bytes;
      do {
        others.pass();
        point.samples.push_back(one_repetition(*hook, options.settings, bucket));
      } while (!options.enough(point.samples));
    }
    return points;
  });
}

}  // namespace lockstep
