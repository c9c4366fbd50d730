// Updates a network's parameters like torch.optim's for-loop implementation: a few ATen calls per
// tensor, in place. Includes ATen.
#pragma once

#include <vector>

#include "costs/optimizer.hpp"
#include "torch/real_network.hpp"

namespace lockstep {

// An approximation of the nearest orthogonal matrix in bf16, whose singular values lie between
// about 0.7 and 1.2.
at::Tensor orthogonalised(const at::Tensor& matrix);

class Optimizer {
 public:
  Optimizer(const OptimizerSpec& spec, RealNetwork& network);
  // `parameters` may be any tensors, for example FSDP shards. They must outlive the optimizer. Muon
  // updates the tensors whose indices the spec lists as matrices, and AdamW the others.
  Optimizer(const OptimizerSpec& spec, std::vector<at::Tensor> parameters);

  void step();  // parameters without a gradient stay unchanged
  void set_learning_rate(double rate) { spec_.learning_rate = rate; }
  std::vector<at::Tensor> state() const;

 private:
  void sgd(std::size_t i, const at::Tensor& gradient);
  void rmsprop(std::size_t i, const at::Tensor& gradient);
  void lion(std::size_t i, const at::Tensor& gradient);
  void adam(std::size_t i, const at::Tensor& gradient);  // also AdamW and LAMB
  void muon(std::size_t i, const at::Tensor& gradient);

  OptimizerSpec spec_;
  std::vector<at::Tensor> parameters_;
  // `first_`: momentum or first moment. `second_`: second moment.
  std::vector<at::Tensor> first_, second_;
  std::vector<bool> is_matrix_;
  std::int64_t steps_ = 0;
};

}  // namespace lockstep
