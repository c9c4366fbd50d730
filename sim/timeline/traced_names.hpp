// The names of the simulator's operations in PyTorch and its profiler, and questions about names of
// streams and groups. The renderings of a timeline use them, so that viewers and import-trace treat
// a simulated trace like a recorded one.
#pragma once

#include <string>
#include <string_view>

#include "costs/optimizer.hpp"
#include "engine/ranks.hpp"

namespace lockstep {

// operator_name(): the operator that a layer of this kind (a `kind` of the model file) calls, for
// example "aten::conv2d". node_name(): the autograd node of its backward, for example
// "autograd::engine::evaluate_function: Conv2dBackward0".
std::string operator_name(std::string_view kind);
std::string node_name(std::string_view kind);

// optimizer_name(): the profiler's annotation around an update, for example
// "Optimizer.step#SGD.step". optimizer_operator(): the first operator that the update calls, for
// example "aten::_foreach_mul_".
std::string optimizer_name(const OptimizerSpec& optimizer);
std::string optimizer_operator(const OptimizerSpec& optimizer);

// Whether an operation is a collective (a name of EnumNames<Collective>), for example "all_reduce".
bool is_collective(std::string_view operation);
// The name of a collective's slice: that of NCCL's kernel if `kernel`, otherwise Gloo's annotation.
std::string collective_name(std::string_view operation, bool kernel);

// Whether work on the stream keeps a GPU busy. False for threads of the host, and for messages.
bool is_on_device(std::string_view stream);

// The names of the parts of a step, as in docs/numbers.md.
std::string_view phase_name(Phase phase);
std::string_view cause_name(WaitCause cause);

// Whether a group's members are parameter servers; other groups are ranks.
bool are_servers(std::string_view group);

}  // namespace lockstep
