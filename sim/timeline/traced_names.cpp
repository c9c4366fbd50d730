// Maps the simulator's names to PyTorch's. Sources: ATen's native_functions.yaml for operators,
// autograd's `evaluate_function` annotation for nodes of backward, and NCCL's kernels
// ncclDevKernel_AllReduce_... (ncclKernel_AllReduce_... before 2.19), whose algorithm and type are
// left out here.
#include "timeline/traced_names.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "costs/nccl_tuning.hpp"

namespace lockstep {

namespace {

// Kinds of layers whose operator has another name than the kind. All other operators have the
// kind's name.
constexpr std::array<std::pair<std::string_view, std::string_view>, 13> operators{{
    {"conv", "conv2d"},
    {"max_pool", "max_pool2d"},
    {"avg_pool", "avg_pool2d"},
    {"adaptive_avg_pool", "adaptive_avg_pool2d"},
    {"attention", "scaled_dot_product_attention"},
    {"cross_entropy", "cross_entropy_loss"},
    {"multiply", "mul"},
    {"concat", "cat"},
    {"position_embedding", "add"},
    {"class_token", "cat"},
    {"select_token", "select"},
    {"rotary", "mul"},
    {"layer_scale", "mul"},
}};

std::string_view plain_operator(std::string_view kind) {
  for (const auto& [known, name] : operators) {
    if (known == kind) return name;
  }
  return kind;
}

// Converts to the camel case of PyTorch and NCCL: "all_reduce" -> "AllReduce".
std::string joined(std::string_view words) {
  std::string result;
  bool begins = true;
  for (const char c : words) {
    if (c != '_') result += begins ? static_cast<char>(std::toupper(c)) : c;
    begins = c == '_';
  }
  return result;
}

}  // namespace

std::string operator_name(std::string_view kind) {
  return "aten::" + std::string(plain_operator(kind));
}

std::string node_name(std::string_view kind) {
  return "autograd::engine::evaluate_function: " + joined(plain_operator(kind)) + "Backward0";
}

std::string optimizer_name(const OptimizerSpec& optimizer) {
  constexpr std::array names{"SGD", "Adam", "AdamW", "RMSprop", "Lion", "Lamb", "Muon"};
  static_assert(names.size() == EnumNames<OptimizerKind>::names.size());
  const std::string name = names[static_cast<std::size_t>(optimizer.name)];
  return "Optimizer.step#" + name + ".step";
}

std::string optimizer_operator(const OptimizerSpec& optimizer) {
  // Muon is no single operator; its update begins with the momentum's lerp_.
  if (optimizer.name == OptimizerKind::muon) return "aten::lerp_";
  if (optimizer.implementation == OptimizerImplementation::fused) {
    return "aten::_fused_" + enum_name(optimizer.name) + "_";
  }
  // The update's first operator is mul_, which decays a momentum, or for SGD without momentum add_,
  // which applies the gradient.
  const bool multiplies = optimizer.name != OptimizerKind::sgd || optimizer.momentum > 0;
  const bool foreach = optimizer.implementation == OptimizerImplementation::foreach;
  return std::string("aten::") + (foreach ? "_foreach_" : "") + (multiplies ? "mul_" : "add_");
}

bool is_collective(std::string_view operation) {
  const auto& names = EnumNames<Collective>::names;
  return std::find(names.begin(), names.end(), operation) != names.end();
}

std::string collective_name(std::string_view operation, bool kernel) {
  return kernel ? "ncclDevKernel_" + joined(operation) : "gloo:" + std::string(operation);
}

// Strategies choose the names of streams. Threads of the host, and routes of messages to and from
// parameter servers, are not on the device.
bool is_on_device(std::string_view stream) {
  constexpr std::array<std::string_view, 3> threads{"host", "loader", "host optimizer"};
  constexpr std::array<std::string_view, 3> ways{"push to ", "pull from ", "out of buffers"};
  const auto begins = [&](std::string_view way) { return stream.starts_with(way); };
  return std::find(threads.begin(), threads.end(), stream) == threads.end() &&
         std::none_of(ways.begin(), ways.end(), begins);
}

std::string_view phase_name(Phase phase) {
  constexpr std::array<std::string_view, 4> names{"forward", "backward", "optimizer", "copies"};
  return names[static_cast<std::size_t>(phase)];
}

// The list has the order of WaitCause.
std::string_view cause_name(WaitCause cause) {
  constexpr std::array<std::string_view, 7> names{"exposed communication",
                                                  "data loading",
                                                  "waiting",
                                                  "copies",
                                                  "host-bound",
                                                  "optimizer",
                                                  "bubble"};
  return names[static_cast<std::size_t>(cause)];
}

bool are_servers(std::string_view group) {
  return group == "servers";
}

}  // namespace lockstep
