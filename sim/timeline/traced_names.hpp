// The names that PyTorch and its profiler give to the simulator's operations, and classes of stream
// names. Used by the renderings of a timeline, so that viewers and import-trace treat a simulated
// trace like a recorded one.
#pragma once

#include <string>
#include <string_view>

#include "costs/optimizer.hpp"
#include "engine/ranks.hpp"

namespace lockstep {

// The operator that a layer of this kind (a `kind` of the model file) calls, e.g. "aten::conv2d",
// and the autograd node of its backward, e.g. "autograd::engine::evaluate_function:
// Conv2dBackward0".
std::string operator_name(std::string_view kind);
std::string node_name(std::string_view kind);

// The profiler's annotation around an update, e.g. "Optimizer.step#SGD.step", and the first
// operator that the update calls, e.g. "aten::_foreach_mul_".
std::string optimizer_name(const OptimizerSpec& optimizer);
std::string optimizer_operator(const OptimizerSpec& optimizer);

// Whether an operation is a name of EnumNames<Collective>, e.g. "all_reduce".
bool is_collective(std::string_view operation);
// The name of a collective's slice: NCCL's kernel if `kernel`, else Gloo's annotation.
std::string collective_name(std::string_view operation, bool kernel);

// Whether work on the stream keeps a GPU busy. False for threads of the host, and for messages.
bool is_on_device(std::string_view stream);

// The names of the parts of a step, as in docs/numbers.md.
std::string_view phase_name(Phase phase);
std::string_view cause_name(WaitCause cause);

// Whether a group's members are parameter servers; other groups are ranks.
bool are_servers(std::string_view group);

}  // namespace lockstep
