// Implements updates like torch.optim's for-loop implementations, tensor by tensor, with
// torch.optim's default coefficients. Muon's orthogonalization is five Newton-Schulz steps in bf16
// (torch.optim.Muon).
#include "torch/optimizer.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

namespace lockstep {

namespace {

// torch.optim's defaults.
constexpr double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;

std::vector<at::Tensor> tensors_of(RealNetwork& network) {
  std::vector<at::Tensor> result;
  for (NetworkParameter& parameter : network.parameters()) result.push_back(parameter.tensor);
  return result;
}

}  // namespace

// The coefficients, 5 steps and the norm's least size are torch.optim.Muon's.
at::Tensor orthogonalised(const at::Tensor& matrix) {
  constexpr double a = 3.4445, b = -4.775, c = 2.0315, least = 1e-7;
  const bool tall = matrix.size(0) > matrix.size(1);
  at::Tensor x = matrix.to(at::kBFloat16, /*non_blocking=*/false, /*copy=*/true);
  if (tall) x = x.t();
  x.div_(x.norm().clamp_min(least));
  // Matrix units add up products of bf16 in fp32. LibTorch 1.13 adds them up in bf16 if the CPU has
  // no instructions for bf16. So on CPUs the products are computed in fp32 and rounded once.
  const at::ScalarType sums = x.is_cpu() ? at::kFloat : at::kBFloat16;
  for (int step = 0; step < newton_schulz_steps; ++step) {
    const at::Tensor wide = x.to(sums);
    const at::Tensor gram = wide.mm(wide.t()).to(at::kBFloat16).to(sums);
    const at::Tensor sum = at::addmm(gram, gram, gram, b, c).to(at::kBFloat16).to(sums);
    x = at::addmm(wide, sum, wide, a).to(at::kBFloat16);
  }
  return tall ? x.t() : x;
}

Optimizer::Optimizer(const OptimizerSpec& spec, RealNetwork& network)
    : Optimizer(for_model(spec, network.step()), tensors_of(network)) {}

Optimizer::Optimizer(const OptimizerSpec& spec, std::vector<at::Tensor> parameters)
    : spec_(spec),
      parameters_(std::move(parameters)),
      first_(parameters_.size()),
      second_(parameters_.size()),
      is_matrix_(parameters_.size()) {
  for (const HiddenMatrix& matrix : spec.matrices) {
    is_matrix_.at(static_cast<std::size_t>(matrix.tensor)) = true;
  }
}

void Optimizer::step() {
  const at::NoGradGuard no_gradients;
  ++steps_;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor gradient = parameters_[i].grad();
    if (!gradient.defined()) continue;
    const bool decoupled = spec_.name == OptimizerKind::adamw ||
                           spec_.name == OptimizerKind::lion || spec_.name == OptimizerKind::lamb ||
                           spec_.name == OptimizerKind::muon;
    if (spec_.weight_decay != 0 && !decoupled) {
      gradient = gradient.add(parameters_[i], spec_.weight_decay);
    }
    switch (spec_.name) {
      case OptimizerKind::sgd:
        sgd(i, gradient);
        break;
      case OptimizerKind::rmsprop:
        rmsprop(i, gradient);
        break;
      case OptimizerKind::lion:
        lion(i, gradient);
        break;
      case OptimizerKind::adam:
      case OptimizerKind::adamw:
      case OptimizerKind::lamb:
        adam(i, gradient);
        break;
      case OptimizerKind::muon:
        is_matrix_[i] ? muon(i, gradient) : adam(i, gradient);
        break;
    }
  }
}

void Optimizer::sgd(std::size_t i, const at::Tensor& gradient) {
  if (spec_.momentum == 0) {
    parameters_[i].add_(gradient, -spec_.learning_rate);
    return;
  }
  if (!first_[i].defined()) {
    first_[i] = gradient.detach().clone();
  } else {
    first_[i].mul_(spec_.momentum).add_(gradient);
  }
  parameters_[i].add_(first_[i], -spec_.learning_rate);
}

// torch.optim.RMSprop, not centred, alpha 0.99.
void Optimizer::rmsprop(std::size_t i, const at::Tensor& gradient) {
  constexpr double alpha = 0.99;
  if (!second_[i].defined()) second_[i] = at::zeros_like(parameters_[i]);
  second_[i].mul_(alpha).addcmul_(gradient, gradient, 1 - alpha);
  const at::Tensor scale = second_[i].sqrt().add_(epsilon);
  if (spec_.momentum == 0) {
    parameters_[i].addcdiv_(gradient, scale, -spec_.learning_rate);
    return;
  }
  if (!first_[i].defined()) first_[i] = at::zeros_like(parameters_[i]);
  first_[i].mul_(spec_.momentum).addcdiv_(gradient, scale);
  parameters_[i].add_(first_[i], -spec_.learning_rate);
}

// Lion (Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms", algorithm 2), with betas
// 0.9 and 0.99.
void Optimizer::lion(std::size_t i, const at::Tensor& gradient) {
  constexpr double slow = 0.99;
  if (!first_[i].defined()) first_[i] = at::zeros_like(parameters_[i]);
  parameters_[i].mul_(1 - spec_.learning_rate * spec_.weight_decay);
  const at::Tensor update = first_[i].mul(beta1).add_(gradient, 1 - beta1).sign_();
  parameters_[i].add_(update, -spec_.learning_rate);
  first_[i].mul_(slow).add_(gradient, 1 - slow);
}

void Optimizer::adam(std::size_t i, const at::Tensor& gradient) {
  if (!first_[i].defined()) {
    first_[i] = at::zeros_like(parameters_[i]);
    second_[i] = at::zeros_like(parameters_[i]);
  }
  if (spec_.name == OptimizerKind::adamw || spec_.name == OptimizerKind::muon) {
    parameters_[i].mul_(1 - spec_.learning_rate * spec_.weight_decay);
  }
  first_[i].mul_(beta1).add_(gradient, 1 - beta1);
  second_[i].mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
  const double correction1 = 1 - std::pow(beta1, steps_), correction2 = 1 - std::pow(beta2, steps_);
  const at::Tensor scale = (second_[i].sqrt() / std::sqrt(correction2)).add_(epsilon);
  if (spec_.name == OptimizerKind::lamb) {
    // LAMB (You et al. 2019, algorithm 2): the update's norm is the parameter's norm times the
    // rate.
    const at::Tensor update = (first_[i] / scale).div_(correction1);
    update.add_(parameters_[i], spec_.weight_decay);
    const double length = parameters_[i].norm().item<double>();
    const double size = update.norm().item<double>();
    const double ratio = length > 0 && size > 0 ? length / size : 1;
    parameters_[i].add_(update, -spec_.learning_rate * ratio);
    return;
  }
  parameters_[i].addcdiv_(first_[i], scale, -spec_.learning_rate / correction1);
}

// torch.optim.Muon, adjust_lr_fn match_rms_adamw (Liu et al. 2025, "Muon is Scalable for LLM
// Training"): updates are as large as AdamW's, so that both can have one learning rate.
void Optimizer::muon(std::size_t i, const at::Tensor& gradient) {
  constexpr double momentum = 0.95;
  at::Tensor& parameter = parameters_[i];
  if (!first_[i].defined()) first_[i] = at::zeros_like(parameter);
  first_[i].lerp_(gradient, 1 - momentum);
  const at::Tensor update = orthogonalised(gradient.lerp(first_[i], momentum));
  const double rows = static_cast<double>(parameter.size(0));
  const double columns = static_cast<double>(parameter.size(1));
  const double ratio = 0.2 * std::sqrt(std::max(rows, columns));
  parameter.mul_(1 - spec_.learning_rate * spec_.weight_decay);
  parameter.add_(update, -spec_.learning_rate * ratio);
}

std::vector<at::Tensor> Optimizer::state() const {
  std::vector<at::Tensor> result;
  for (const auto* group : {&first_, &second_}) {
    for (const at::Tensor& tensor : *group) {
      if (tensor.defined()) result.push_back(tensor);
    }
  }
  return result;
}

}  // namespace lockstep
