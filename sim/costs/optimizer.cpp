// Bytes, kernels and state of each optimizer, by implementation. Every rule is a list of
// elementwise passes with their bytes per parameter, as torch.optim runs them. A fused
// implementation instead reads and writes each tensor once.
#include "costs/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/errors.hpp"
#include "costs/muon.hpp"

namespace lockstep {
namespace {

// Limits of one multi-tensor launch (PyTorch's MultiTensorApply): 30 to 110 tensors depending on
// the number of lists, and 320 blocks of 65,536 elements.
constexpr double tensors_per_launch = 36;
constexpr double elements_per_launch = 320 * 65536.0;

// Bytes per element of the tensors that the update reads and writes. With an fp32 master copy
// (`master`), the update reads fp32 gradients: half-precision gradients are copied to fp32 first
// (`widens_gradients`), and the updated master copy is cast back to half precision (fact 137).
// pure-bf16 updates in bf16; all other modes in fp32.
struct Sizes {
  double parameter, gradient, state;
  bool master, widens_gradients;
};
Sizes sizes(Precision precision) {
  switch (precision) {
    case Precision::pure_fp16:
    case Precision::master_bf16:
      return {4, 4, 4, true, true};
    case Precision::master_bf16_fp32_gradients:
      return {4, 4, 4, true, false};
    case Precision::pure_bf16:
      return {2, 2, 2, false, false};
    default:
      return {4, 4, 4, false, false};
  }
}

// Number of state tensors per parameter, without a master copy.
int states(const OptimizerSpec& optimizer) {
  const int momentum = optimizer.momentum != 0 ? 1 : 0;
  switch (optimizer.name) {
    case OptimizerKind::sgd:
      return momentum;
    case OptimizerKind::rmsprop:
      return 1 + momentum;
    case OptimizerKind::lion:
      return 1;
    case OptimizerKind::adam:
    case OptimizerKind::adamw:
    case OptimizerKind::lamb:
    case OptimizerKind::muon:  // AdamW for all tensors but its matrices
      return 2;
  }
  return 2;
}

double matrix_elements(const OptimizerSpec& optimizer) {
  const auto& matrices = optimizer.matrices;
  return std::accumulate(
      matrices.begin(), matrices.end(), 0.0,
      [](double sum, const HiddenMatrix& matrix) { return sum + matrix.elements(); });
}

int multi_tensor_launches(double elements, int tensors) {
  return static_cast<int>(std::max(
      {1.0, std::ceil(tensors / tensors_per_launch), std::ceil(elements / elements_per_launch)}));
}

// Elementwise passes over all parameters, with their bytes per parameter.
struct Passes {
  double bytes;
  int count;
};

// The separate elementwise operations of the for-loop and foreach implementations: torch.optim for
// SGD, Adam, AdamW and RMSprop; Chen et al. 2023, algorithm 2, for Lion; You et al. 2019, algorithm
// 2, for LAMB. p, g, m: bytes of a parameter, gradient and state element.
Passes separate_passes(const OptimizerSpec& optimizer, const Sizes& s) {
  const double p = s.parameter, g = s.gradient, m = s.state;
  Passes passes{0, 0};
  const auto add = [&](double bytes) {
    passes.bytes += bytes;
    ++passes.count;
  };
  const OptimizerKind kind = optimizer.name;
  const bool decoupled =
      kind == OptimizerKind::adamw || kind == OptimizerKind::lion || kind == OptimizerKind::muon;
  if (optimizer.weight_decay != 0 && kind != OptimizerKind::lamb)
    add(decoupled ? 2 * p : p + 2 * g);  // p *= 1-lr*wd, or g += wd*p
  switch (kind) {
    case OptimizerKind::sgd:
      if (optimizer.momentum != 0) {
        add(2 * m);      // buffer *= momentum
        add(2 * m + g);  // buffer += gradient
        add(2 * p + m);  // p -= lr * buffer
      } else {
        add(2 * p + g);
      }
      return passes;
    case OptimizerKind::rmsprop:
      add(2 * m);      // mean square *= alpha
      add(2 * m + g);  // mean square += (1-alpha) g^2
      add(2 * m);      // square root into a temporary
      add(2 * m);      // + epsilon
      if (optimizer.momentum != 0) {
        add(2 * m);      // buffer *= momentum
        add(3 * m + g);  // buffer += g / temporary
        add(2 * p + m);  // p -= lr * buffer
      } else {
        add(2 * p + g + m);  // p -= lr * g / temporary
      }
      return passes;
    case OptimizerKind::lion:
      add(2 * m);      // moment into a temporary, * beta1
      add(2 * m + g);  // temporary += (1-beta1) g
      add(2 * m);      // its sign
      add(2 * p + m);  // p -= lr * sign
      add(2 * m);      // moment *= beta2
      add(2 * m + g);  // moment += (1-beta2) g
      return passes;
    case OptimizerKind::adam:
    case OptimizerKind::adamw:
    case OptimizerKind::lamb:
    case OptimizerKind::muon:
      break;
  }
  add(2 * m + g);  // first moment: lerp towards the gradient
  add(2 * m);      // second moment *= beta2
  add(2 * m + g);  // second moment += (1-beta2) g^2
  add(2 * m);      // square root into a temporary
  add(2 * m);      // / bias correction
  add(2 * m);      // + epsilon
  if (kind != OptimizerKind::lamb) {
    add(2 * p + 2 * m);  // p -= step * first / temporary
    return passes;
  }
  add(3 * m);                                       // first / temporary
  if (optimizer.weight_decay != 0) add(p + 2 * m);  // + wd * p
  add(p);                                           // norm of the parameter
  add(m);                                           // norm of its update
  add(2 * p + m);                                   // p -= lr * ratio * update
  return passes;
}

// Bytes per parameter of a fused update: one pass over parameter, gradient and states. LAMB needs
// more: it first reads all gradients for their norm, writes its update over the gradient, and reads
// update and parameter a second time for their norms and the step.
double fused_bytes(const OptimizerSpec& optimizer, const Sizes& s) {
  const double one_pass = 2 * s.parameter + s.gradient + 2 * s.state * states(optimizer);
  return optimizer.name == OptimizerKind::lamb ? one_pass + 2 * s.parameter + 4 * s.gradient
                                               : one_pass;
}

OptimizerTraffic update_traffic(const OptimizerSpec& optimizer, const Sizes& s, double elements,
                                int tensors) {
  if (elements <= 0 || tensors <= 0) return {};
  const int grouped = multi_tensor_launches(elements, tensors);
  if (optimizer.implementation == OptimizerImplementation::fused)
    return {fused_bytes(optimizer, s), 1, grouped, 1};
  const Passes passes = separate_passes(optimizer, s);
  const int each = passes.count;
  if (optimizer.implementation == OptimizerImplementation::foreach)
    return {passes.bytes, each, each * grouped, each};
  return {passes.bytes, each, each * tensors, each * tensors};
}

}  // namespace

OptimizerSpec for_model(OptimizerSpec optimizer, const TrainingStep& step) {
  if (optimizer.name != OptimizerKind::muon) return optimizer;
  optimizer.matrices = hidden_matrices(step);
  optimizer.elements = static_cast<double>(step.parameter_count);
  return optimizer;
}

OptimizerSpec of_tensors(const OptimizerSpec& optimizer, const std::vector<int>& tensors) {
  OptimizerSpec part = optimizer;
  part.matrices.clear();
  for (HiddenMatrix matrix : optimizer.matrices) {
    const auto found = std::find(tensors.begin(), tensors.end(), matrix.tensor);
    if (found == tensors.end()) continue;
    matrix.tensor = static_cast<int>(found - tensors.begin());
    part.matrices.push_back(matrix);
  }
  return part;
}

double optimizer_state_bytes(const OptimizerSpec& optimizer, Precision precision) {
  const Sizes s = sizes(precision);
  const double master = s.master ? s.parameter : 0;
  if (optimizer.elements <= 0) return states(optimizer) * s.state + master;
  // Muon stores only a momentum for an element of a matrix: one state less than AdamW.
  const double share = matrix_elements(optimizer) / optimizer.elements;
  return (states(optimizer) - share) * s.state + master;
}

MatrixMemory matrix_memory(Precision precision) {
  const Sizes s = sizes(precision);
  return {s.state + (s.master ? s.parameter : 0), s.widens_gradients ? s.gradient : 0};
}

MuonSizes muon_sizes(Precision precision) {
  const Sizes s = sizes(precision);
  return {s.parameter, s.gradient, s.state};
}

double optimizer_temporary_bytes(const OptimizerSpec& optimizer, Precision precision) {
  const Sizes s = sizes(precision);
  const bool foreach = optimizer.implementation == OptimizerImplementation::foreach;
  // Adam's, RMSprop's, Lion's and LAMB's denominators or updates; for SGD and RMSprop also the
  // gradients with the decay added. Adam's decayed gradients do not count, because it frees them
  // before it allocates the denominators.
  const bool denominators = foreach && optimizer.name != OptimizerKind::sgd;
  const bool decayed =
      foreach && optimizer.weight_decay > 0 &&
      (optimizer.name == OptimizerKind::sgd || optimizer.name == OptimizerKind::rmsprop);
  return s.state * (denominators + decayed) + (s.widens_gradients ? s.gradient : 0);
}

LoopTemporaries optimizer_loop_temporaries(const OptimizerSpec& optimizer, Precision precision) {
  if (optimizer.implementation != OptimizerImplementation::for_loop) return {};
  const Sizes s = sizes(precision);
  const double decayed = optimizer.weight_decay > 0 ? s.state : 0;
  switch (optimizer.name) {
    case OptimizerKind::sgd:
      return {.decayed = decayed};
    case OptimizerKind::rmsprop:
      return {.decayed = decayed, .kept = s.state};
    case OptimizerKind::lion:
      return {.scratch = s.state};
    case OptimizerKind::adam:
      return {.decayed = decayed, .scratch = s.state, .kept = s.state};
    case OptimizerKind::adamw:
    case OptimizerKind::lamb:
    case OptimizerKind::muon:
      break;
  }
  return {.scratch = s.state, .kept = s.state};
}

// bytes_per_parameter is a mean over all `elements`, although the update here leaves out matrices.
// The extra passes for master copies and loss scaling cover all elements.
OptimizerTraffic traffic_beside_matrices(const OptimizerSpec& optimizer, Precision precision,
                                         double elements, int tensors) {
  if (elements <= 0 || tensors <= 0) return {};
  const Sizes s = sizes(precision);
  const double rest = elements - matrix_elements(optimizer);
  OptimizerTraffic traffic =
      update_traffic(optimizer, s, rest, tensors - static_cast<int>(optimizer.matrices.size()));
  traffic.bytes_per_parameter *= rest / elements;
  const int grouped = multi_tensor_launches(elements, tensors);
  const auto extra_pass = [&](double bytes) {
    traffic.bytes_per_parameter += bytes;
    traffic.passes += 1;
    traffic.launches += grouped;
    traffic.operators += 1;
  };
  // Copy gradients to fp32 for a master copy.
  if (s.widens_gradients) extra_pass(2 + s.gradient);
  if (s.master) extra_pass(s.parameter + 2);  // cast the master copy back
  if (optimizer_synchronises(precision))
    extra_pass(2 * s.gradient);  // unscale and look for infinities
  return traffic;
}

OptimizerTraffic optimizer_traffic(const OptimizerSpec& optimizer, Precision precision,
                                   double elements, int tensors) {
  OptimizerTraffic traffic = traffic_beside_matrices(optimizer, precision, elements, tensors);
  // bytes_per_parameter is a mean over all elements, so the bytes of each matrix are divided by
  // their number.
  for (const HiddenMatrix& matrix : optimizer.matrices) {
    for (const Kernel& kernel : muon_kernels(matrix, muon_sizes(precision))) {
      traffic.bytes_per_parameter += (kernel.bytes_read + kernel.bytes_written) / elements;
      traffic.launches += kernel.launches;
      traffic.operators += kernel.operators;
    }
  }
  return traffic;
}

bool optimizer_synchronises(Precision precision) {
  return precision == Precision::amp_fp16 || precision == Precision::pure_fp16;
}

double clipping_bytes(Precision precision, double elements) {
  return 3 * sizes(precision).gradient * elements;  // norm reads; scaling reads and writes
}

int clipping_launches(double elements, int tensors) {
  return 2 * multi_tensor_launches(elements, std::max(tensors, 1));
}

double host_optimizer_seconds(const OptimizerSpec& optimizer, Precision precision, double elements,
                              const HostSpec& host) {
  if (optimizer.name == OptimizerKind::muon) {
    throw file_error("", "optimizer.name",
                     "muon multiplies matrices, and nothing says how fast the host's cores do",
                     "adamw, or updates on the device");
  }
  const Sizes s = sizes(precision);
  const double bytes = optimizer.implementation == OptimizerImplementation::fused
                           ? fused_bytes(optimizer, s)
                           : separate_passes(optimizer, s).bytes;
  // An update on the host reaches about 0.8 of the memory bandwidth (STREAM; a similar share as on
  // devices, fact 128).
  return host.memory_bandwidth > 0 ? elements * bytes / (0.8 * host.memory_bandwidth) : 0;
}

}  // namespace lockstep
