// Expansion of a scenario into its points. A point is one strategy entry on one GPU count, as a
// simulation job. Every question (`run`, `sweep`, `explain`, `validate`, ...) starts with expand();
// simulate.hpp then simulates the points.
//
//     scenario, files --expand()--> points --simulate_each()--> results
//         --summarise_point()--> predictions
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

// One strategy entry on one GPU count, ready to be simulated, with the values that are known before
// any simulation.
struct Point {
  std::size_t entry = 0;  // index into Scenario::strategies
  std::string label;      // of the entry; names the point in tables and messages
  Location where;         // of the entry in the scenario's file, for messages
  std::shared_ptr<const Strategy> strategy;
  // The input of strategy->simulate(): step, machine, mesh, costs, stragglers, seed.
  Job job;
  // The stragglers for a second simulation, which shows the cost of the scenario's stragglers: only
  // the fixed spread between ranks (per_rank_sigma) is left. Absent if the scenario names no
  // stragglers.
  std::optional<Stragglers> usual;
  // Number of simulations, with the seeds job.simulation.seed, job.simulation.seed + 1, ... Absent
  // = simulate_each() decides.
  std::optional<std::int64_t> seeds;
  std::int64_t global_batch = 0;          // samples per optimizer step, all replicas together
  std::int64_t micro_batch = 0;           // samples per micro-batch and replica
  Precision precision = Precision::fp32;  // of parameter shards and optimizer
  std::int64_t parameters = 0;            // of the whole model
  std::int64_t tokens_per_sample = 0;     // 0 = the model reads no tokens
  // Device seconds of one GPU's forward and backward in one optimizer step, without interference
  // and waiting, and the part of these seconds that memory bandwidth limits.
  double compute_seconds = 0;
  double memory_bound_seconds = 0;
  double model_flops = 0;     // per mean GPU and optimizer step; no recomputation
  double relative_error = 0;  // one sigma of modelled compute costs, relative (interval.hpp)
  // The inputs of the point, for questions that need more than the simulation's result.
  std::shared_ptr<const ModelFile> model;
  std::shared_ptr<const Profile> profile;  // null = none: all costs are modelled
  std::map<std::string, std::shared_ptr<const Device>> devices;  // as Inputs::devices
  // Options of the training step. Their `precision` is the precision of operators.
  StepOptions step_options;
};

// Returns all points in the order of the file: strategy entries outermost, GPU counts inside.
// `workloads` is a cache that never changes the result. `edit` changes the hardware before costs
// are computed; measured costs change in proportion to the modelled costs (what_if.hpp). Throws one
// ConfigError with the misfits found so far, for example a batch that does not divide, more GPUs
// than the platform has, too many points, or an option that the strategy excludes.
// REQUIRES: `scales` is empty (all costs as modelled) or has one element per strategy entry.
std::vector<Point> expand(const Scenario& scenario, const Inputs& inputs, Workloads& workloads,
                          const std::vector<CostScale>& scales = {}, const MachineEdit& edit = {});
// Reads the scenario's files and expands the scenario. Use it for a single scenario, because it
// caches nothing for later calls. Throws ConfigError also if a file cannot be read.
std::vector<Point> expand(const Scenario& scenario, const std::vector<CostScale>& scales = {},
                          const MachineEdit& edit = {});

// The largest number of points of one scenario. expand() refuses more, because each point costs a
// simulation.
inline constexpr std::size_t most_points = 4096;

}  // namespace lockstep
