// What the update of a model, or of some of its tensors, keeps on the device.
#pragma once

#include "costs/optimizer.hpp"
#include "memory/memory_plan.hpp"

namespace lockstep {

OptimizerMemory optimizer_memory(const OptimizerSpec& optimizer, Precision precision);

}  // namespace lockstep
