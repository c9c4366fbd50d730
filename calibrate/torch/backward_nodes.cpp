// Observes autograd's nodes by a RecordFunction callback, which PyTorch's profiler uses, too. The
// callback has no argument for an object, so one global function receives all nodes.
#include "torch/backward_nodes.hpp"

#include <ATen/record_function.h>

namespace lockstep {

namespace {

// RecordFunction's callbacks are plain functions without an argument of ours.
BackwardNodes::Begin current;

std::unique_ptr<at::ObserverContext> node_begins(const at::RecordFunction& function) {
  // Autograd gives gradient accumulation the largest number there is.
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
