// The names that PyTorch and its profiler give to the simulator's operations. Used to write traces.
#pragma once

#include <string>
#include <string_view>

#include "costs/optimizer.hpp"
#include "engine/ranks.hpp"

namespace lockstep {

// The operator that a layer of this kind (of the model file) calls, "aten::conv2d", and the node of
// its backward.
std::string operator_name(std::string_view kind);
std::string node_name(std::string_view kind);

// "Optimizer.step#SGD.step", and the operators that it calls.
std::string optimizer_name(const OptimizerSpec& optimizer);
std::string optimizer_operator(const OptimizerSpec& optimizer);

// Operations are those of EnumNames<Collective>.
bool is_collective(std::string_view operation);
std::string collective_name(std::string_view operation, bool kernel);

// Whether work on the stream keeps a GPU busy. False for threads of the host, and for messages.
bool is_on_device(std::string_view stream);

// The name of the part of a step (docs/numbers.md).
std::string_view phase_name(Phase phase);
std::string_view cause_name(WaitCause cause);

// Whether a group's members are parameter servers; other groups are ranks.
bool are_servers(std::string_view group);

}  // namespace lockstep
