// The computation of communication hooks, without the collectives between its stages. Real DDP runs
// it with Gloo's collectives, and the probe measures its time. Includes ATen.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "costs/hook_work.hpp"

namespace lockstep {

// Each stage except the last returns the message of a collective. Each stage except the first gets
// the result of the previous collective: the messages of all ranks, one after the other (top-k), or
// their sum (PowerSGD). An empty message needs no collective. The last stage returns the bucket.
using HookStages = std::vector<std::function<at::Tensor(const at::Tensor& received)>>;

class CompressionHook {
 public:
  virtual ~CompressionHook() = default;
  // The stages for one bucket. `flat`: the bucket's gradients, which the stages replace by the
  // common result of all ranks. `parameters`: the gradients' parameters, in the order of the
  // bucket; unsent elements and factors are stored by parameter, because DDP rebuilds its buckets
  // after the first step. `bucket`: the bucket's number. This call does no work. The stages must
  // not outlive the hook.
  virtual HookStages stages(const at::Tensor& flat, const std::vector<at::Tensor>& parameters,
                            std::uint64_t bucket) = 0;
};

// Makes the hook of `settings`. `seed` determines PowerSGD's first factors (keyed_generator()).
std::unique_ptr<CompressionHook> make_compression_hook(const HookSettings& settings,
                                                       std::uint64_t seed);

}  // namespace lockstep
