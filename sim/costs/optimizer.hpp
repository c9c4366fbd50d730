// Model of the optimizer step: the state that an optimizer stores, the bytes that an update moves
// and the kernels that it launches, by update rule and implementation (facts 137, 138), on the
// device or on the host (facts 44, 59). The cost models turn the bytes into seconds; sim/memory
// allocates state and temporaries.
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
// Implementations of torch.optim. for_loop launches a kernel for each tensor and operation, foreach
// for each operation over a list of tensors, and fused for a whole update of a list. A list has a
// limited number of tensors and elements (optimizer.cpp).
enum class OptimizerImplementation { for_loop, foreach, fused };
template <>
struct EnumNames<OptimizerImplementation> {
  static constexpr std::array names{"for-loop", "foreach", "fused"};
};

// `optimizer:` of a scenario.
struct OptimizerSpec {
  OptimizerKind name = OptimizerKind::sgd;
  double learning_rate = 0.01;  // for real training runs; not part of a scenario
  double momentum = 0;          // of sgd and rmsprop; with 0 no momentum is stored
  double weight_decay = 0;
  OptimizerImplementation implementation =
      OptimizerImplementation::foreach;  // PyTorch's default (fact 138)
  // Set by for_model(), and only for muon: the matrices that muon orthogonalises, and the number of
  // the model's parameters.
  std::vector<HiddenMatrix> matrices{};
  double elements = 0;
};

// Whether every implementation makes a single pass over the parameters, which is so for SGD without
// momentum and weight decay.
inline bool is_one_pass(const OptimizerSpec& optimizer) {
  return optimizer.name == OptimizerKind::sgd && optimizer.momentum == 0 &&
         optimizer.weight_decay == 0;
}

// The spec with the matrices of a model, if the rule is muon; other rules are returned unchanged. A
// muon spec without matrices costs as much as AdamW.
OptimizerSpec for_model(OptimizerSpec optimizer, const TrainingStep& step);
// The spec for the listed tensors only. Matrices of other tensors are dropped, and
// HiddenMatrix::tensor becomes the position in `tensors`.
OptimizerSpec of_tensors(const OptimizerSpec& optimizer, const std::vector<int>& tensors);

template <class Visitor>
void describe(Visitor& v, OptimizerSpec& o) {
  v.field("name", o.name, "Update rule. muon: of the matrices of hidden layers, AdamW of the rest.",
          {.several = true});
  v.field("momentum", o.momentum, "Momentum of sgd and rmsprop; with 0 no momentum is stored.",
          {.min = 0, .max = 1, .several = true});
  v.field("weight_decay", o.weight_decay, "Weight decay; not 0 costs one more pass when not fused.",
          {.min = 0, .max = 10});
  v.field("implementation", o.implementation,
          "Kernels per tensor and operation, per operation over all tensors, or one.");
}

// State bytes per parameter: moments and momenta, and the fp32 master copy of half-precision
// parameters. For muon it is the mean over all parameters of the model.
double optimizer_state_bytes(const OptimizerSpec& optimizer, Precision precision);

// Bytes per element of a matrix that muon orthogonalises: state, and fp32 copies of half-precision
// gradients, which live to the end of the update. muon_temporaries() counts the temporaries of the
// one matrix that is being updated.
struct MatrixMemory {
  double state_bytes = 0, temporary_bytes = 0;
};
MatrixMemory matrix_memory(Precision precision);
MuonSizes muon_sizes(Precision precision);

// Bytes per parameter of the temporaries of all tensors that live during the update. foreach has a
// list of denominators or of updates (fact 127; all rules but SGD), and with weight decay a list of
// decayed gradients (SGD and RMSprop). With a master copy, every implementation adds fp32 copies of
// gradients that are half-precision. Matrices of muon have matrix_memory() instead.
double optimizer_temporary_bytes(const OptimizerSpec& optimizer, Precision precision);

// Temporaries of one tensor in the for-loop implementation, which updates one tensor after the
// other. All members are 0 for other implementations.
LoopTemporaries optimizer_loop_temporaries(const OptimizerSpec& optimizer, Precision precision);

// Work of one update.
struct OptimizerTraffic {
  double bytes_per_parameter = 0;  // read + written
  int passes = 0;  // elementwise operations over all parameters; without muon's matrices
  int launches = 0;
  int operators = 0;  // operators that the host dispatches
};
// Work of an update of `elements` parameters in `tensors` tensors. It includes the casts for a
// master copy and, if the precision needs loss scaling (fact 22), GradScaler's unscale pass.
OptimizerTraffic optimizer_traffic(const OptimizerSpec& optimizer, Precision precision,
                                   double elements, int tensors);
// The work without the orthogonalisation of muon's matrices. It consists of the update of all other
// tensors, and of the passes that cover all elements including the matrices (casts for a master
// copy, GradScaler's unscale pass).
OptimizerTraffic traffic_beside_matrices(const OptimizerSpec& optimizer, Precision precision,
                                         double elements, int tensors);

// Whether the host waits for the device in each step because loss scaling reads a flag back (fact
// 22).
bool optimizer_synchronises(Precision precision);

// Bytes and launches of gradient clipping by the global norm: one pass reads the gradients, one
// scales them. ComputeCosts::stream() turns them into seconds.
double clipping_bytes(Precision precision, double elements);
int clipping_launches(double elements, int tensors);

// Seconds that the host's cores need for an update of parameters in host memory (CPU offload, or a
// parameter server on a CPU). Host memory bandwidth limits it (facts 44, 73); 0 if that bandwidth
// is unknown. Throws ConfigError for muon, because arithmetic limits its products and the
// arithmetic rate of the host's cores is unknown.
double host_optimizer_seconds(const OptimizerSpec& optimizer, Precision precision, double elements,
                              const HostSpec& host);

}  // namespace lockstep
