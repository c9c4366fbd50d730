// The optimizer step: state it keeps, bytes it moves, kernels it launches, by algorithm and
// implementation (facts 137, 138), on the device or on the host (facts 44, 59).
#pragma once

#include <array>
#include <vector>

#include "core/fields.hpp"
#include "costs/cost.hpp"
#include "costs/host.hpp"
#include "costs/muon.hpp"
#include "hardware/machine.hpp"
#include "workload/hidden_matrices.hpp"
#include "workload/loop_temporaries.hpp"
#include "workload/precision.hpp"

namespace lockstep {

enum class OptimizerKind { sgd, adam, adamw, rmsprop, lion, lamb, muon };
template <>
struct EnumNames<OptimizerKind> {
  static constexpr std::array names{"sgd", "adam", "adamw", "rmsprop", "lion", "lamb", "muon"};
};
enum class OptimizerImplementation { for_loop, foreach, fused };
template <>
struct EnumNames<OptimizerImplementation> {
  static constexpr std::array names{"for-loop", "foreach", "fused"};
};

struct OptimizerSpec {
  OptimizerKind name = OptimizerKind::sgd;
  double learning_rate = 0.01;  // of real training; costs nothing, so a scenario does not say it
  double momentum = 0;          // of sgd and rmsprop; 0 keeps no state
  double weight_decay = 0;
  OptimizerImplementation implementation =
      OptimizerImplementation::foreach;  // PyTorch's default (fact 138)
  // What the model says, for_model(): the matrices that muon orthogonalises, and all parameters.
  std::vector<HiddenMatrix> matrices{};
  double elements = 0;
};

// One pass over each parameter, fused or not: SGD without momentum and decay.
inline bool is_one_pass(const OptimizerSpec& optimizer) {
  return optimizer.name == OptimizerKind::sgd && optimizer.momentum == 0 &&
         optimizer.weight_decay == 0;
}

// With the matrices of this model, where the rule asks for them. Without them it is AdamW's.
OptimizerSpec for_model(OptimizerSpec optimizer, const TrainingStep& step);
// Of these tensors alone, which are numbered anew.
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

// Bytes the optimizer keeps for each parameter: momenta, and the fp32 master copy of half-precision
// parameters. muon: the mean of the model's.
double optimizer_state_bytes(const OptimizerSpec& optimizer, Precision precision);

// ... and, during the step, for each element of a matrix that muon orthogonalises, besides what the
// one in hand takes: muon_temporaries().
struct MatrixMemory {
  double state_bytes = 0, temporary_bytes = 0;
};
MatrixMemory matrix_memory(Precision precision);
MuonSizes muon_sizes(Precision precision);

// Bytes of short-lived temporaries per parameter while it steps: a list of foreach Adam (fact 127)
// and of foreach SGD with weight decay, and fp32 copies of half-precision gradients
// for a master copy. Of what is no matrix, as the next.
double optimizer_temporary_bytes(const OptimizerSpec& optimizer, Precision precision);

// Of the tensor in hand, one tensor after the other: the for-loop form.
LoopTemporaries optimizer_loop_temporaries(const OptimizerSpec& optimizer, Precision precision);

struct OptimizerTraffic {
  double bytes_per_parameter = 0;  // read + written
  int passes = 0;                  // elementwise operations over all parameters
  int launches = 0;
  int operators = 0;  // dispatched by the host
};
// Includes GradScaler's unscale pass where the precision needs loss scaling (fact 22).
OptimizerTraffic optimizer_traffic(const OptimizerSpec& optimizer, Precision precision,
                                   double elements, int tensors);
// Of it, what is neither muon's: AdamW of what is no matrix, and the passes around both.
OptimizerTraffic traffic_beside_matrices(const OptimizerSpec& optimizer, Precision precision,
                                         double elements, int tensors);

// Loss scaling reads one flag back each step: the host waits for the device (fact 22).
bool optimizer_synchronises(Precision precision);

// Gradient clipping by global norm: one reading pass, one scaling pass. Price it with stream().
double clipping_bytes(Precision precision, double elements);
int clipping_launches(double elements, int tensors);

// The same update done by the host's cores on parameters in host memory (CPU offload, a server on a
// CPU): bound by host memory bandwidth (facts 44, 73). Throws ConfigError for muon, whose products
// are not: nothing says what the cores multiply.
double host_optimizer_seconds(const OptimizerSpec& optimizer, Precision precision, double elements,
                              const HostSpec& host);

}  // namespace lockstep
