// Communication between the ranks of a real run: PyTorch's Gloo process group, with a
// reduce-scatter in every release. Includes LibTorch.
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
  // A file through which the ranks find each other. All ranks must be able to write it, so they run
  // on one machine, perhaps in several network namespaces.
  std::string store_file;
  // Address of this rank that the other ranks can reach. Gloo binds to it, at free ports.
  std::string own_address = "127.0.0.1";
  double timeout_seconds = 120;  // of every operation: a rank that waits longer throws
};

// A tensor of an operation, and its memory on the host: the tensor itself, or a copy of a GPU's
// tensor.
struct Staged {
  at::Tensor tensor, host;
  bool comes_back = false;  // copy `host` to `tensor` after the operation
};

// An operation that may still run. The object keeps the operation's tensors alive; its destructor
// does not cancel the operation.
class Pending {
 public:
  Pending() = default;  // no operation: wait() returns at once
  Pending(c10::intrusive_ptr<c10d::Work> work, std::vector<Staged> tensors)
      : work_(std::move(work)), tensors_(std::move(tensors)) {}

  // Waits for the end. Throws std::runtime_error if a peer has ended or the timeout is over.
  void wait();
  bool done() const { return !work_ || work_->isCompleted(); }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  std::vector<Staged> tensors_;
};

// A group of ranks. All ranks must call the same collectives in the same order. The collectives run
// one after another on a separate thread, as on one NCCL communicator; send and recv run
// independently. Tensors must be contiguous. Tensors on a GPU pass through host memory, and their
// results are available after wait(). Every function throws std::runtime_error if a peer has ended.
class Group {
 public:
  // Blocks until all ranks have joined.
  explicit Group(const GroupOptions& options);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // Another group of the same ranks with its own thread. All ranks must call it.
  std::unique_ptr<Group> sibling(const std::string& name) const;

  int rank() const { return rank_; }
  int size() const { return size_; }

  Pending all_reduce_async(at::Tensor tensor);  // sum, in place
  Pending broadcast_async(at::Tensor tensor, int root);
  // `output` has size() times the elements of `input`, in the order of ranks.
  Pending all_gather_async(at::Tensor output, at::Tensor input);
  // `input` has size() times the elements of `output`. Rank r gets the sum of all ranks' r-th
  // parts.
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

  // The process group for PyTorch's own engines (c10d::Reducer). Since LibTorch 2, its tensors may
  // be on a GPU.
  c10::intrusive_ptr<c10d::ProcessGroup> process_group() const;

 private:
  class Gloo;
  GroupOptions options_;
  int rank_;
  int size_;
  std::unique_ptr<Gloo> gloo_;
};

}  // namespace lockstep
