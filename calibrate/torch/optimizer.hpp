// The update of a network's parameters as torch.optim's for-loop implementation does it: a few ATen
// calls per tensor, in place. Includes ATen.
#pragma once

#include <vector>

#include "costs/optimizer.hpp"
#include "torch/real_network.hpp"

namespace lockstep {

// The nearest orthogonal matrix, approximately: bf16, singular values of about 0.7 to 1.2.
at::Tensor orthogonalised(const at::Tensor& matrix);

class Optimizer {
 public:
  Optimizer(const OptimizerSpec& spec, RealNetwork& network);
  // `parameters` may be any tensors: an FSDP shard, a server's part. They must outlive the
  // optimizer. Muon takes the tensors that the spec lists as matrices, by their place.
  Optimizer(const OptimizerSpec& spec, std::vector<at::Tensor> parameters);

  void step();  // parameters without a gradient are left alone
  void set_learning_rate(double rate) { spec_.learning_rate = rate; }
  std::vector<at::Tensor> state() const;

 private:
  void sgd(std::size_t i, const at::Tensor& gradient);
  void rmsprop(std::size_t i, const at::Tensor& gradient);
  void lion(std::size_t i, const at::Tensor& gradient);
  void adam(std::size_t i, const at::Tensor& gradient);  // and AdamW, LAMB
  void muon(std::size_t i, const at::Tensor& gradient);

  OptimizerSpec spec_;
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> first_, second_;  // momentum; moments
  std::vector<bool> is_matrix_;
  std::int64_t steps_ = 0;
};

}  // namespace lockstep
