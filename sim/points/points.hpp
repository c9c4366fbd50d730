// From a scenario to the points it asks for: one per strategy and GPU count.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "points/batch.hpp"
#include "points/inputs.hpp"
#include "points/what_if.hpp"
#include "points/workloads.hpp"
#include "results/record.hpp"
#include "scenario/scenario.hpp"
#include "strategies/strategy.hpp"
#include "workload/model.hpp"

namespace lockstep {

struct Point {
  std::size_t entry = 0;  // index into scenario.strategies
  std::string label;
  Location where;  // of the entry
  std::shared_ptr<const Strategy> strategy;
  Job job;
  std::optional<Stragglers> usual;  // ranks without the job's stragglers; absent = it has none
  // Simulations, with job.seed and the numbers after it, where that is said.
  std::optional<std::int64_t> seeds;
  std::int64_t global_batch = 0;
  std::int64_t micro_batch = 0;
  Precision precision = Precision::fp32;
  std::int64_t parameters = 0;         // of the whole model
  std::int64_t tokens_per_sample = 0;  // 0 = the model reads none
  double compute_seconds = 0;          // of one step's device work, forward and backward alone;
  double memory_bound_seconds = 0;     // so much of it is bound by memory bandwidth
  double model_flops = 0;              // per GPU and optimizer step, recomputation not counted
  double relative_error = 0;           // one sigma of what is modelled (interval)
  // What it was made from; no profile = null.
  std::shared_ptr<const ModelFile> model;
  std::shared_ptr<const Profile> profile;
  std::map<std::string, std::shared_ptr<const Device>> devices;  // Inputs::devices
  StepOptions step_options;  // with the precision that operators compute in
};

// All points in the order of the file: strategies outermost, GPU counts inside; a pure function of
// the scenario and the files it names. Throws one ConfigError with every misfit (batch not
// divisible, more GPUs than the platform has, too many points, ...). `scales` has one element per
// strategy entry, or none (= all as modelled). `edit` changes the hardware, and with it what was
// measured there (what_if.hpp).
std::vector<Point> expand(const Scenario& scenario, const Inputs& inputs, Workloads& workloads,
                          const std::vector<CostScale>& scales = {}, const MachineEdit& edit = {});
// The same where the files are read for this alone.
std::vector<Point> expand(const Scenario& scenario, const std::vector<CostScale>& scales = {},
                          const MachineEdit& edit = {});

// More are refused: each is a simulation.
inline constexpr std::size_t most_points = 4096;

}  // namespace lockstep
