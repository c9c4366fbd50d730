// Training steps of micro-batches with their costs, shared by all points that need the same step.
// Building such a step is the most expensive part of expand(), and many points of a sweep differ
// only in GPU count or options of the network.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>

#include "costs/compute.hpp"
#include "points/inputs.hpp"
#include "points/misfits.hpp"
#include "points/what_if.hpp"
#include "scenario/scenario.hpp"
#include "strategies/strategy.hpp"
#include "workload/model.hpp"

namespace lockstep {

// Factors by which an anchor (questions/anchor.cpp) multiplies all costs of an entry, modelled or
// from a profile; 1 = unchanged.
struct CostScale {
  double device = 1;         // device seconds of compute
  double host = 1;           // host seconds
  double communication = 1;  // time of a transfer, without other traffic
};

// The modelled costs of a machine. `described`: for the machine in its file. `changed`: after the
// scenario's `fabric:` and the question have changed the machine; the same object if nothing
// changes.
struct ModelledCosts {
  std::shared_ptr<const ComputeCosts> described, changed;
};

// A micro-batch of one rank with its costs, and values of the whole model.
struct Workload : PricedStep {
  // Parameters of the whole model, however it is divided among ranks, and tokens of one sample.
  // Both are 0 for a token slice that is not the first of its sequence.
  std::int64_t parameters = 0, tokens = 0;
  // Device seconds of forward and backward of one micro-batch through all stages if nothing else
  // runs at the same time, and the part of these seconds that memory bandwidth limits.
  double compute_seconds = 0, memory_bound_seconds = 0;
};

// A cache of costs and workloads. Not thread-safe. The cache is emptied when it has several hundred
// workloads; workloads that callers hold stay valid.
class Workloads {
 public:
  // Modelled costs of the machine as its file describes it.
  std::shared_ptr<const ComputeCosts> described(const std::shared_ptr<const Machine>& machine,
                                                const Framework& framework);
  // Builds one micro-batch with its costs, or returns it from the cache. `step_options.precision`
  // is the precision of operators; `precision` is that of parameters, gradients and optimizer.
  // Throws ConfigError like scenario_step().
  std::shared_ptr<const Workload> get(const Scenario& scenario, const Inputs& inputs,
                                      const ModelledCosts& modelled, const CostScale& scale,
                                      const StepOptions& step_options, Precision precision);

 private:
  // Everything that determines a workload. Files, profiles and costs are compared by the address of
  // their object. The key owns the objects, so that no address is reused.
  using Key = std::tuple<std::shared_ptr<const ComputeCosts>, std::shared_ptr<const Profile>,
                         std::shared_ptr<const ModelFile>, double, double, std::int64_t, Precision,
                         bool, bool, Precision, std::vector<std::int64_t>, std::int64_t,
                         std::int64_t, std::int64_t, std::map<std::string, std::int64_t>, bool,
                         bool, bool, Recompute, std::string, std::string, bool, Compile, bool, bool,
                         std::int64_t, LowPrecisionRecipe, bool, FrameworkKind>;
  // Everything that determines the modelled costs: the machine and fields of Framework.
  using CostsKey =
      std::tuple<std::shared_ptr<const Machine>, FrameworkKind, double, double, double, int>;

  std::map<CostsKey, std::shared_ptr<const ComputeCosts>> costs_;
  std::map<Key, std::shared_ptr<const Workload>> workloads_;
};

// Options of the training step of an entry with micro-batches of `micro` samples. If the entry and
// the scenario both give a field, the entry's value counts.
StepOptions step_options(const Scenario& scenario, const StrategyEntry& entry, std::int64_t micro);

// Adds misfits for layers in fp8 or fp4 (`low_precision`): a device without such units, a precision
// that does not compute in half, and all-gathers in fp8 unless FSDP2 gathers for the recipe
// fp8-tensorwise.
void check_fast_path(const Scenario& scenario, const StrategyEntry& entry, const Device& device,
                     Misfits& misfits);
// Adds a misfit if the step is captured in CUDA graphs and its host must wait for the device within
// the step, because a recorded graph cannot wait.
void check_captured(const Scenario& scenario, const StrategyEntry& entry, const TrainingStep& step,
                    Misfits& misfits);

// Builds the training step of one micro-batch. Throws ConfigError. The error is located in the
// scenario if its `model_parameters`, `input` or `dataset.tokens` cause it, otherwise in the
// model's file.
TrainingStep scenario_step(const Scenario& scenario, const ModelFile& model,
                           const StepOptions& options);

}  // namespace lockstep
