// Communication hooks of real DDP: LibTorch's own cast to fp16, top-k and PowerSGD. Includes
// LibTorch.
#pragma once

#include <memory>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "runs/train_options.hpp"
#include "torch/process_group.hpp"

namespace lockstep {

// Makes `reducer` use the hook of `options.comm_hook` instead of the plain all-reduce; `none`
// changes nothing.
void register_comm_hook(c10d::Reducer& reducer, const TrainOptions& options, Group& group);

}  // namespace lockstep
