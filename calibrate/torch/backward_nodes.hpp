// Reports when autograd begins each node of a backward pass. Plain header.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace lockstep {

// While it lives, `begin` is called at the start of every autograd node on whichever thread runs
// it, with the sequence number that the node's forward operator had, or -1 for nodes without one
// (gradient accumulation). One at a time.
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
