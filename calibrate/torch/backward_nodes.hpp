// Reports when autograd begins each node of a backward pass. Slowed ranks and probes use it.
// Includes no LibTorch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace lockstep {

// While an object exists, `begin` is called at the start of every autograd node, on the thread that
// runs the node. The argument is the sequence number of the node's forward operator, or -1 for
// nodes without one (gradient accumulation). At most one object may exist.
class BackwardNodes {
 public:
  using Begin = std::function<void(std::int64_t sequence_number)>;
  explicit BackwardNodes(Begin begin);
  ~BackwardNodes();
  BackwardNodes(const BackwardNodes&) = delete;
  BackwardNodes& operator=(const BackwardNodes&) = delete;

 private:
  std::uint64_t handle_;
};

}  // namespace lockstep
