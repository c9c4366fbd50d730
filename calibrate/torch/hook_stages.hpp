// The work of communication hooks, apart from the collectives between it: real DDP runs it over
// Gloo, the probe times it. Includes ATen.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "costs/hook_work.hpp"

namespace lockstep {

// Each stage but the last makes the message of a collective. Each but the first gets the result of
// the collective before: the messages of all ranks one after the other (top-k), or their sum in
// place of the message (PowerSGD). An empty message needs no collective. The last stage returns the
// bucket.
using HookStages = std::vector<std::function<at::Tensor(const at::Tensor& received)>>;

class CompressionHook {
 public:
  virtual ~CompressionHook() = default;
  // The stages for one bucket. `flat`: the bucket's gradients, which become the gradients that all
  // ranks have. `parameters`: the gradients' parameters, in the order of the bucket; unsent
  // elements and factors are kept by parameter, because buckets are cut anew after the first step.
  // `bucket`: its number. No work is done yet. Stages must not outlive the hook.
  virtual HookStages stages(const at::Tensor& flat, const std::vector<at::Tensor>& parameters,
                            std::uint64_t bucket) = 0;
};

// `seed`: of PowerSGD's first factors (keyed_generator()).
std::unique_ptr<CompressionHook> make_compression_hook(const HookSettings& settings,
                                                       std::uint64_t seed);

}  // namespace lockstep
