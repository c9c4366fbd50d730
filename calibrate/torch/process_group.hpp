// Communication between the ranks of a real run: PyTorch's Gloo process group with an additional
// reduce-scatter and with errors that name their cause. Includes LibTorch.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

namespace lockstep {

struct GroupOptions {
  int rank = 0;
  int size = 1;
  // Where the ranks find each other: a file that all can write (one machine, also across network
  // namespaces).
  std::string store_file;
  // Address of this rank that the others can reach; Gloo binds to it, at ports that are free.
  std::string own_address = "127.0.0.1";
  double timeout_seconds = 120;  // of every operation; a rank that waits longer throws
};

// A tensor that an operation works on, and where in host memory: the tensor itself, or a copy.
struct Staged {
  at::Tensor tensor, host;
  bool comes_back = false;  // the copy goes back when the operation has ended
};

// An operation under way. Keeps its tensors alive; dropping it does not cancel it.
class Pending {
 public:
  Pending() = default;  // nothing under way: wait() returns at once
  Pending(c10::intrusive_ptr<c10d::Work> work, std::vector<Staged> tensors)
      : work_(std::move(work)), tensors_(std::move(tensors)) {}

  // Throws std::runtime_error: a peer has gone, or the timeout is over.
  void wait();
  bool done() const { return !work_ || work_->isCompleted(); }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  std::vector<Staged> tensors_;
};

// All ranks call the same collectives in the same order; they run one after another in that order
// on one thread of their own, as on one NCCL communicator. send and recv run beside them. Tensors
// must be contiguous. Tensors on a GPU pass through host memory, and results are available after
// wait(). Anything here throws std::runtime_error when a peer is gone.
class Group {
 public:
  // Blocks until all ranks are here.
  explicit Group(const GroupOptions& options);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // Another group of the same ranks, with a thread of its own; all ranks must make it.
  std::unique_ptr<Group> sibling(const std::string& name) const;

  int rank() const { return rank_; }
  int size() const { return size_; }

  Pending all_reduce_async(at::Tensor tensor);  // sum, in place
  Pending broadcast_async(at::Tensor tensor, int root);
  // output: size() x the elements of input, in rank order.
  Pending all_gather_async(at::Tensor output, at::Tensor input);
  // input: size() x the elements of output; rank r gets the sum of everybody's r-th part.
  Pending reduce_scatter_async(at::Tensor output, at::Tensor input);
  Pending send_async(at::Tensor tensor, int to, int tag = 0);
  Pending recv_async(at::Tensor tensor, int from, int tag = 0);

  void all_reduce(at::Tensor tensor) { all_reduce_async(tensor).wait(); }
  void broadcast(at::Tensor tensor, int root) { broadcast_async(tensor, root).wait(); }
  void all_gather(at::Tensor output, at::Tensor input) { all_gather_async(output, input).wait(); }
  void reduce_scatter(at::Tensor output, at::Tensor input) {
    reduce_scatter_async(output, input).wait();
  }
  void send(at::Tensor tensor, int to, int tag = 0) { send_async(tensor, to, tag).wait(); }
  void recv(at::Tensor tensor, int from, int tag = 0) { recv_async(tensor, from, tag).wait(); }
  int recv_any(at::Tensor tensor, int tag = 0);  // from the first sender; returns its rank
  void barrier();

  // For PyTorch's own engines (c10d::Reducer). Its tensors may be on a GPU since LibTorch 2.
  c10::intrusive_ptr<c10d::ProcessGroup> process_group() const;

 private:
  class Gloo;
  GroupOptions options_;
  int rank_;
  int size_;
  std::unique_ptr<Gloo> gloo_;
};

}  // namespace lockstep
