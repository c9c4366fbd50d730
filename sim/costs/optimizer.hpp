// Model of the optimizer step: the state that it keeps, the bytes that it moves and the kernels
// that it launches, by update rule and implementation (facts 137, 138), on the device or on the
// host (facts 44, 59). Cost sources price the traffic; the memory room allocates state and
// temporaries.
#pragma once

#include <array>
#include <vector>

#include "core/fields.hpp"
#include "costs/cost.hpp"
#include "costs/host.hpp"
#include "costs/muon.hpp"
#include "hardware/machine.hpp"
#include "workload/hidden_matrices.hpp"
#include "workload/precision.hpp"

namespace lockstep {

enum class OptimizerKind { sgd, adam, adamw, rmsprop, lion, lamb, muon };
template <>
struct EnumNames<OptimizerKind> {
  static constexpr std::array names{"sgd", "adam", "adamw", "rmsprop", "lion", "lamb", "muon"};
};
// Forms of torch.optim: one kernel per tensor and operation, one per operation over lists of
// tensors, one for the whole update.
enum class OptimizerImplementation { for_loop, foreach, fused };
template <>
struct EnumNames<OptimizerImplementation> {
  static constexpr std::array names{"for-loop", "foreach", "fused"};
};

// `optimizer:` of a scenario.
struct OptimizerSpec {
  OptimizerKind name = OptimizerKind::sgd;
  double learning_rate = 0.01;  // for real training runs; not part of a scenario
  double momentum = 0;          // of sgd and rmsprop; 0 keeps no state
  double weight_decay = 0;
  OptimizerImplementation implementation =
      OptimizerImplementation::foreach;  // PyTorch's default (fact 138)
  // Filled in by for_model(): the matrices that muon orthogonalizes, and the number of all
  // parameters.
  std::vector<HiddenMatrix> matrices{};
  double elements = 0;
};

// Whether every implementation makes one pass over the parameters: SGD without momentum and decay.
inline bool is_one_pass(const OptimizerSpec& optimizer) {
  return optimizer.name == OptimizerKind::sgd && optimizer.momentum == 0 &&
         optimizer.weight_decay == 0;
}

// The spec with the matrices of a model, if the rule is muon. Without them muon is priced as AdamW.
OptimizerSpec for_model(OptimizerSpec optimizer, const TrainingStep& step);
// The spec for a subset of the trainable tensors, whose matrices are renumbered by their position
// in `tensors`.
OptimizerSpec of_tensors(const OptimizerSpec& optimizer, const std::vector<int>& tensors);

template <class Visitor>
void describe(Visitor& v, OptimizerSpec& o) {
  v.field("name", o.name, "Update rule. muon: of the matrices of hidden layers, AdamW of the rest.",
          {.several = true});
  v.field("momentum", o.momentum, "Momentum of sgd and rmsprop; 0 keeps no state.",
          {.min = 0, .max = 1, .several = true});
  v.field("weight_decay", o.weight_decay, "Weight decay; not 0 costs one more pass when not fused.",
          {.min = 0, .max = 10});
  v.field("implementation", o.implementation,
          "Kernels per tensor and operation, per operation over all tensors, or one.");
}

// State bytes per parameter: momenta, and the fp32 master copy of half-precision parameters. For
// muon the mean over the model's parameters.
double optimizer_state_bytes(const OptimizerSpec& optimizer, Precision precision);

// Bytes per element of a matrix that muon orthogonalizes: state, and temporaries during the step.
// The temporaries of the matrix that is being updated are apart, muon_temporaries().
struct MatrixMemory {
  double state_bytes = 0, temporary_bytes = 0;
};
MatrixMemory matrix_memory(Precision precision);
MuonSizes muon_sizes(Precision precision);

// Bytes per parameter of temporaries that live during the update: a list of foreach Adam (fact 127)
// or of foreach SGD with weight decay, and fp32 copies of half-precision gradients for a master
// copy. Like the next function, not for muon's matrices.
double optimizer_temporary_bytes(const OptimizerSpec& optimizer, Precision precision);

// Bytes per parameter of temporaries for one tensor after the other, in the for-loop form: Adam's
// square root and quotient (observed in PyTorch 2.15, calibrate/oracle/gpu).
double optimizer_largest_temporary_bytes(const OptimizerSpec& optimizer, Precision precision);

// Work of one update.
struct OptimizerTraffic {
  double bytes_per_parameter = 0;  // read + written
  int passes = 0;                  // elementwise operations over all parameters
  int launches = 0;
  int operators = 0;  // dispatched by the host
};
// Work of an update of `elements` parameters in `tensors` tensors. Includes GradScaler's unscale
// pass if the precision needs loss scaling (fact 22).
OptimizerTraffic optimizer_traffic(const OptimizerSpec& optimizer, Precision precision,
                                   double elements, int tensors);
// The work without the orthogonalization of muon's matrices: the update of all other tensors, and
// the passes over all gradients and parameters.
OptimizerTraffic traffic_beside_matrices(const OptimizerSpec& optimizer, Precision precision,
                                         double elements, int tensors);

// Whether the host waits for the device in each step, because loss scaling reads a flag back (fact
// 22).
bool optimizer_synchronises(Precision precision);

// Bytes and launches of gradient clipping by global norm: one pass that reads, one pass that
// scales. ComputeCosts::stream() prices them.
double clipping_bytes(Precision precision, double elements);
int clipping_launches(double elements, int tensors);

// Seconds of an update by the host's cores on parameters in host memory (CPU offload, a server on a
// CPU): bound by host memory bandwidth (facts 44, 73). Throws ConfigError for muon, whose products
// are bound by arithmetic: the rate of the host's cores is not known.
double host_optimizer_seconds(const OptimizerSpec& optimizer, Precision precision, double elements,
                              const HostSpec& host);

}  // namespace lockstep
