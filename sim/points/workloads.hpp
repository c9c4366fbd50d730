// Priced training steps of micro-batches, shared by all points that need the same step. Building
// and pricing a step is the most expensive part of expand(), and many points of a sweep differ only
// in GPU count or options of the network.
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

// Factors that an anchor (questions/anchor.cpp) puts on modelled costs; 1 = as modelled.
struct CostScale {
  double device = 1;         // device seconds of compute
  double host = 1;           // host seconds
  double communication = 1;  // lone time of a transfer
};

// The modelled costs of a machine. `described`: as the machine's file describes it. `changed`:
// after the changes of the scenario's `fabric:` and of the question; the same object if nothing
// changes.
struct ModelledCosts {
  std::shared_ptr<const ComputeCosts> described, changed;
};

// A priced micro-batch of one rank, with figures of the whole model.
struct Workload : PricedStep {
  // Parameters of the whole model, however it is spread over ranks; tokens of one sample. Both are
  // 0 for a token slice that is not the first of its sequence.
  std::int64_t parameters = 0, tokens = 0;
  // Device seconds of forward and backward of one micro-batch if nothing runs beside them, and the
  // part of these seconds that is bound by memory bandwidth.
  double compute_seconds = 0, memory_bound_seconds = 0;
};

// A cache of costs and workloads. Not thread-safe. It is emptied when it holds several hundred
// workloads; workloads that callers still hold stay valid.
class Workloads {
 public:
  // Modelled costs of the machine as its file describes it.
  std::shared_ptr<const ComputeCosts> described(const std::shared_ptr<const Machine>& machine,
                                                const Framework& framework);
  // Builds and prices one micro-batch, or returns it from the cache. `step_options`: its precision
  // is that of the operators; `precision`: that of parameters, gradients and optimizer. Throws
  // ConfigError as scenario_step() does.
  std::shared_ptr<const Workload> get(const Scenario& scenario, const Inputs& inputs,
                                      const ModelledCosts& modelled, const CostScale& scale,
                                      const StepOptions& step_options, Precision precision);

 private:
  // Everything that a workload depends on. Files, profiles and costs are compared by the address of
  // their object; the key keeps the objects alive, so that no address is reused.
  using Key = std::tuple<std::shared_ptr<const ComputeCosts>, std::shared_ptr<const Profile>,
                         std::shared_ptr<const ModelFile>, double, double, std::int64_t, Precision,
                         bool, bool, Precision, std::vector<std::int64_t>, std::int64_t,
                         std::int64_t, std::int64_t, std::map<std::string, std::int64_t>, bool,
                         bool, bool, Recompute, std::string, std::string, bool, Compile, bool, bool,
                         std::int64_t, LowPrecisionRecipe, bool>;
  // Everything that the modelled costs depend on: the machine and the fields of Framework.
  using CostsKey =
      std::tuple<std::shared_ptr<const Machine>, FrameworkKind, double, double, double, int>;

  std::map<CostsKey, std::shared_ptr<const ComputeCosts>> costs_;
  std::map<Key, std::shared_ptr<const Workload>> workloads_;
};

// Options of the training step of an entry with micro-batches of `micro` samples. The entry's
// fields win over the scenario's.
StepOptions step_options(const Scenario& scenario, const StrategyEntry& entry, std::int64_t micro);

// Adds misfits for fp8 and fp4: a device without such units, operands that are not half precision,
// and all-gathers in fp8 with a strategy other than FSDP2.
void check_fast_path(const Scenario& scenario, const StrategyEntry& entry, const Device& device,
                     Misfits& misfits);
// Adds a misfit if CUDA graphs are asked for and the host must wait for the device within the step:
// a recorded graph cannot wait.
void check_captured(const Scenario& scenario, const StrategyEntry& entry, const TrainingStep& step,
                    Misfits& misfits);

// Builds the training step of one micro-batch. Throws ConfigError. An error that a scenario's
// parameter or input size causes is located in the scenario; any other error is located in the
// model's file.
TrainingStep scenario_step(const Scenario& scenario, const ModelFile& model,
                           const StepOptions& options);

}  // namespace lockstep
