// A scenario file (scenarios/*.yaml, docs/scenario-format.md): one question about training one
// model on one platform with several strategies and GPU counts. Read it here; points.hpp resolves
// names and expands it to points. Holds plain values as the user wrote them, with defaults filled
// in.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/errors.hpp"
#include "core/yaml.hpp"
#include "costs/host.hpp"
#include "costs/optimizer.hpp"
#include "engine/transfer.hpp"
#include "faults/options.hpp"
#include "hardware/machine.hpp"
#include "parallel/options.hpp"
#include "results/learning.hpp"
#include "scenario/recipe.hpp"
#include "strategies/common/straggler_options.hpp"
#include "strategies/table.hpp"
#include "workload/compile.hpp"
#include "workload/fine_tuning.hpp"
#include "workload/low_precision.hpp"
#include "workload/precision.hpp"
#include "workload/recompute.hpp"

namespace lockstep {

struct InputSpec {
  std::vector<std::int64_t> image;  // channels, height, width; empty = the model's default
  std::int64_t sequence = 0;        // tokens per sample; 0 = the model's default
  std::int64_t classes = 0;         // 0 = the model's default
};

struct DatasetSpec {
  double samples = 0;  // one epoch; 0 = no dataset: only step times are reported
  double epochs = 1;
  double tokens = 0;   // whole run, instead of samples x epochs
  double steps = 0;    // likewise
  double seconds = 0;  // likewise: of the steps alone
  bool says_length() const { return samples > 0 || tokens > 0 || steps > 0 || seconds > 0; }
};

// Exactly one of global / per_gpu / micro gives the batch; accumulation splits it.
struct BatchSpec {
  std::int64_t global = 0;        // samples of one optimizer step over all GPUs (strong scaling)
  std::int64_t per_gpu = 0;       // samples of one optimizer step on one GPU (weak scaling)
  std::int64_t micro = 0;         // samples of one forward/backward on one GPU
  std::int64_t accumulation = 0;  // micro-batches per optimizer step; 0 = derived, 1 by default
};

enum class AttentionKind { fused, plain };
template <>
struct EnumNames<AttentionKind> {
  static constexpr std::array names{"fused", "plain"};
};
enum class MemoryFormat { contiguous, channels_last };
template <>
struct EnumNames<MemoryFormat> {
  static constexpr std::array names{"contiguous", "channels_last"};
};

struct DataLoading {
  bool on_device = false;         // batches already lie in device memory
  double samples_per_second = 0;  // one GPU's share of the input pipeline; 0 = never the bound
};

// One entry of `strategies:`: its options and its overrides of the scenario.
struct StrategyEntry {
  StrategyOptions options;
  std::string label;  // how tables and `measured:` name it; default: the strategy's name
  std::optional<Precision> precision;
  std::optional<bool> activation_checkpointing;
  std::optional<Recompute> recompute;
  std::optional<Compile> compile;
  std::optional<bool> cuda_graphs;
  std::optional<LowPrecision> low_precision;
  std::optional<ParallelOptions> parallel;
  Location where;
};

// Without `message`, which is for tests of the engine.
template <>
struct EnumNames<NetworkKind> {
  static constexpr std::array names{"analytic", "flow"};
};

template <>
struct EnumNames<Engine> {
  static constexpr std::array names{"auto", "simgrid", "loop"};
};

// Tries every learning rate with every momentum, separately for each point.
struct TuningSpec {
  std::vector<double> learning_rate, momentum;  // empty = the scenario's one
};

// Real training on the simulated clock (docs/accuracy.md). The scenario gives run length, batch and
// optimizer.
struct ConvergenceSpec {
  std::string data = "fashion-mnist";  // or synthetic, or a folder
  double learning_rate = 0.01;
  RateScaling scaling = RateScaling::none;
  MomentumPlace momentum_at = MomentumPlace::server;
  RateSchedule schedule = RateSchedule::constant;
  double warm_up_epochs = 0;
  Initialisation initialisation = Initialisation::layers;
  RunningStatistics running_statistics = RunningStatistics::first_worker;
  std::int64_t seeds = 5;
  std::int64_t evaluations = 10;
  std::int64_t test_samples = 0;  // 0 = all
  std::optional<double> target;   // accuracy
  std::optional<TuningSpec> tune;
  Location where;
};

struct SimulationSpec {
  std::int64_t seed = 1;
  std::optional<std::int64_t> seeds;
  std::int64_t steps = 100;  // simulated at most; fewer when the steady state is reached
  bool interference = true;
  NetworkKind network = NetworkKind::flow;
  Engine engine = Engine::automatic;
};

// A figure measured on real hardware: a row that `validate` compares with, or (as `anchor:`) one
// that sets the scale of the prediction. Exactly one of the five figures is given.
struct MeasuredRow {
  std::string strategy;  // label of an entry; may be left out when there is only one
  int gpus = 0;
  std::optional<double> step_time, total_time, samples_per_second, tokens_per_second;
  std::optional<double> memory;  // peak allocated bytes
  std::optional<bool> fits;      // whether the job ran, or ran out of memory
  std::string source;
  bool calibration = false;  // used to fit a shipped device or platform model: not a test of it
  Location where;
};

// The meshes that `recommend` tries: all valid combinations of these sizes and options.
struct MeshLimits {
  std::vector<std::int64_t> tensor{1, 2, 4, 8};
  std::vector<std::int64_t> context;  // empty = of long sequences several, else 1
  std::vector<std::int64_t> expert{1, 2, 4, 8, 16, 32, 64};
  std::vector<std::int64_t> pipeline{1, 2, 4, 8, 16, 32};  // stages
  std::vector<std::int64_t> chunks{2, 3, 4, 5, 6, 8};      // of schedules that take several
  std::vector<std::int64_t> micro{1, 2, 4, 8};             // samples of a micro-batch
  std::vector<PipelineSchedule> schedule{PipelineSchedule::one_f_one_b,
                                         PipelineSchedule::interleaved, PipelineSchedule::zb1p};
};
struct RecommendSpec {
  MeshLimits parallel;
};

// Energy of the GPUs over the whole run.
struct EnergySpec {
  double overhead = 1;          // of the building: its power over that of its machines (PUE)
  double carbon_intensity = 0;  // grams of CO2 for each kWh of the grid; 0 = not said
};

struct Scenario {
  std::string name;
  std::string description;
  Recipe recipe = Recipe::none;
  std::string model;                                     // name or path
  std::map<std::string, std::int64_t> model_parameters;  // overrides of a parametric model
  InputSpec input;
  DatasetSpec dataset;
  BatchSpec batch;
  Precision precision = Precision::fp32;
  OptimizerSpec optimizer;
  FineTuning fine_tuning;
  double gradient_clipping = 0;
  bool activation_checkpointing = false;
  Recompute recompute = Recompute::blocks;
  Compile compile = Compile::none;
  bool fused_kernels = false;
  bool cuda_graphs = false;
  LowPrecision low_precision;
  AttentionKind attention = AttentionKind::fused;
  MemoryFormat memory_format = MemoryFormat::contiguous;
  Framework framework;
  DataLoading data_loading;
  std::string platform;
  FabricChange fabric;
  std::string profile;  // folder or file of a measured profile; empty = modelled costs
  std::optional<double> price_per_gpu_hour;
  std::vector<int> gpus{1};
  ParallelOptions parallel;
  std::vector<StrategyEntry> strategies;
  Stragglers stragglers;
  std::optional<EnergySpec> energy;
  std::optional<Faults> faults;
  std::optional<Checkpoints> checkpoints;
  SimulationSpec simulation;
  std::optional<ConvergenceSpec> convergence;
  std::optional<RecommendSpec> recommend;
  std::vector<MeasuredRow> measured;
  std::vector<MeasuredRow> anchor;

  std::vector<std::string> recipe_set;  // settings of the recipe (WithRecipe::set)
  std::string file;                     // where it was read from
  Location model_where, platform_where, fabric_where, profile_where, gpus_where, batch_where;
  Location cuda_graphs_where, low_precision_where;
  Location input_where, dataset_where;
  std::map<std::string, Location> model_parameters_where;
};

inline const ParallelOptions& parallel_of(const Scenario& scenario, const StrategyEntry& entry) {
  return entry.parallel ? *entry.parallel : scenario.parallel;
}

Scenario read_scenario(const std::string& path);  // throws ConfigError with all errors of the file
Scenario read_scenario_text(std::string_view text, const std::string& file_name);
Scenario read_scenario_node(const Node& root, const std::string& file_name);
std::string write_scenario(
    const Scenario& scenario);                 // fully expanded; reads back to the same scenario
std::vector<std::string> shipped_scenarios();  // paths of all that ask one question, sorted
std::string scenario_schema();                 // JSON Schema draft-07
std::string scenario_fields();                 // Markdown tables for docs/scenario-format.md

}  // namespace lockstep
