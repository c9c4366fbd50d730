// Observes autograd's nodes with a RecordFunction callback, as PyTorch's profiler does. The
// callback has no argument for an object, so the function that it calls is a global variable.
#include "torch/backward_nodes.hpp"

#include <ATen/record_function.h>

namespace lockstep {

namespace {

// The function that node_begins() calls.
BackwardNodes::Begin current;

std::unique_ptr<at::ObserverContext> node_begins(const at::RecordFunction& function) {
  // Nodes of gradient accumulation have the largest possible number.
  const std::int64_t number = function.seqNr();
  current(number >= 0 && static_cast<std::uint64_t>(number) < UINT64_MAX / 2 ? number : -1);
  return nullptr;
}

}  // namespace

BackwardNodes::BackwardNodes(Begin begin) {
  current = std::move(begin);
  handle_ = at::addGlobalCallback(
      at::RecordFunctionCallback(node_begins).scopes({at::RecordScope::BACKWARD_FUNCTION}));
}

BackwardNodes::~BackwardNodes() {
  at::removeCallback(handle_);
  current = nullptr;
}

}  // namespace lockstep
