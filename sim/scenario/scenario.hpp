// A scenario file (scenarios/*.yaml, docs/scenario-format.md): one question about training one
// model on one platform with several strategies and GPU counts. Read it here; sim/points resolves
// names, loads models and platforms, and expands it to points. The structs hold plain values as the
// user wrote them, with defaults filled in; scenario_fields.hpp declares names, bounds and texts.
//
// Quantities are in base units: seconds, bytes, samples, tokens. `where` and `*_where` are places
// in the file, for errors that are found after reading.
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

// `input:`, the size of one sample.
struct InputSpec {
  // Channels, height, width; empty = the model's default.
  std::vector<std::int64_t> image;
  // Tokens per sample; 0 = the model's default.
  std::int64_t sequence = 0;
  // Classes of the classifier; 0 = the model's default.
  std::int64_t classes = 0;
};

// `dataset:`, the length of the whole run, said in exactly one way: samples x epochs, tokens, steps
// or seconds. Without a length only step times are reported.
struct DatasetSpec {
  // Samples of one epoch; 0 = not given.
  double samples = 0;
  double epochs = 1;
  // Tokens, optimizer steps or seconds of the whole run; 0 = not given. `seconds` counts steps
  // alone, without failures and checkpoints.
  double tokens = 0;
  double steps = 0;
  double seconds = 0;
  bool says_length() const { return samples > 0 || tokens > 0 || steps > 0 || seconds > 0; }
};

// `batch:`. Either `global` or `per_gpu` gives the batch, or `micro` alone does; `micro` or
// `accumulation` splits it. With R replicas of the model, where a replica counts as one GPU: global
// = per_gpu x R and per_gpu = micro x accumulation. 0 = not given.
struct BatchSpec {
  // Samples of one optimizer step over all GPUs; constant over GPU counts (strong scaling).
  std::int64_t global = 0;
  // Samples of one optimizer step on one GPU; constant over GPU counts (weak scaling).
  std::int64_t per_gpu = 0;
  // Samples of one forward and backward on one GPU.
  std::int64_t micro = 0;
  // Micro-batches per optimizer step; 0 = derived from the others, 1 by default.
  std::int64_t accumulation = 0;
};

// fused: one kernel that never writes the matrix of scores (FlashAttention). plain: matrix products
// and a softmax, with the scores in memory.
enum class AttentionKind { fused, plain };
template <>
struct EnumNames<AttentionKind> {
  static constexpr std::array names{"fused", "plain"};
};
// Layout of image tensors: NCHW or NHWC.
enum class MemoryFormat { contiguous, channels_last };
template <>
struct EnumNames<MemoryFormat> {
  static constexpr std::array names{"contiguous", "channels_last"};
};

// `data_loading:`, the input pipeline in front of the GPU.
struct DataLoading {
  // Batches already lie in device memory: no copy from the host.
  bool on_device = false;
  // One GPU's share of the input pipeline; 0 = the pipeline is never the bound.
  double samples_per_second = 0;
};

// One entry of `strategies:`: its options and its overrides of the scenario. An override that is
// absent leaves the scenario's value.
struct StrategyEntry {
  StrategyOptions options;
  // The name in tables and in `measured:`; default: the strategy's name. Unique in a scenario.
  std::string label;
  std::optional<Precision> precision;
  std::optional<bool> activation_checkpointing;
  std::optional<Recompute> recompute;
  std::optional<Compile> compile;
  std::optional<bool> cuda_graphs;
  std::optional<LowPrecision> low_precision;
  std::optional<ParallelOptions> parallel;
  Location where;
};

// NetworkKind has a third value, `message`, without a name here: it is for tests of the engine.
template <>
struct EnumNames<NetworkKind> {
  static constexpr std::array names{"analytic", "flow"};
};

template <>
struct EnumNames<Engine> {
  static constexpr std::array names{"auto", "simgrid", "loop"};
};

// `convergence.tune`: tries every learning rate with every momentum, separately for each point.
struct TuningSpec {
  // Values to try; empty = the scenario's value.
  std::vector<double> learning_rate, momentum;
};

// `convergence:`, real training on the simulated clock (docs/accuracy.md): gradients are computed
// on exactly the stale weights that the simulated schedule says. The scenario gives run length,
// batch and optimizer.
struct ConvergenceSpec {
  // "fashion-mnist", "synthetic", or a folder with data sets in MNIST's or CIFAR-10's format.
  std::string data = "fashion-mnist";
  double learning_rate = 0.01;
  // How the learning rate grows with the number of workers.
  RateScaling scaling = RateScaling::none;
  MomentumPlace momentum_at = MomentumPlace::server;
  RateSchedule schedule = RateSchedule::constant;
  double warm_up_epochs = 0;
  Initialisation initialisation = Initialisation::layers;
  RunningStatistics running_statistics = RunningStatistics::first_worker;
  // Training runs of each point, with different initial values and orders of the data.
  std::int64_t seeds = 5;
  // Evaluations of the test set in each run, and their samples; 0 = all.
  std::int64_t evaluations = 10;
  std::int64_t test_samples = 0;
  // Accuracy in 0 .. 1 whose time and cost are reported.
  std::optional<double> target;
  std::optional<TuningSpec> tune;
  Location where;
};

// `simulation:`, how points are simulated.
struct SimulationSpec {
  // Seed of all random draws; equal seeds give equal bytes.
  std::int64_t seed = 1;
  // Simulations of each point with consecutive seeds; absent = chosen by the point.
  std::optional<std::int64_t> seeds;
  // Optimizer steps simulated at most; fewer when the steady state is reached.
  std::int64_t steps = 100;
  // Collectives slow down the compute that they overlap with.
  bool interference = true;
  NetworkKind network = NetworkKind::flow;
  Engine engine = Engine::automatic;
};

// A figure measured on real hardware: a row that `validate` compares with (`measured:`), or one
// that sets the scale of the prediction (`anchor:`). At most one of the four times is given, and at
// least one figure.
struct MeasuredRow {
  // Label of an entry; may be left out when there is only one.
  std::string strategy;
  int gpus = 0;
  // Seconds of a step or of the whole run, or rates of all GPUs together.
  std::optional<double> step_time, total_time, samples_per_second, tokens_per_second;
  // Peak of allocated bytes on one GPU.
  std::optional<double> memory;
  // Whether the job ran, or ran out of memory.
  std::optional<bool> fits;
  std::string source;
  // The figure was used to fit a shipped device or platform model, so it is no test of the model.
  bool calibration = false;
  Location where;
};

// The meshes that `recommend` tries: all valid combinations of these sizes and options.
struct MeshLimits {
  std::vector<std::int64_t> tensor{1, 2, 4, 8};
  // Empty = 1, and several sizes for long sequences.
  std::vector<std::int64_t> context;
  std::vector<std::int64_t> expert{1, 2, 4, 8, 16, 32, 64};
  // Numbers of stages.
  std::vector<std::int64_t> pipeline{1, 2, 4, 8, 16, 32};
  // Model chunks per rank, for schedules that interleave several.
  std::vector<std::int64_t> chunks{2, 3, 4, 5, 6, 8};
  // Samples of a micro-batch.
  std::vector<std::int64_t> micro{1, 2, 4, 8};
  std::vector<PipelineSchedule> schedule{PipelineSchedule::one_f_one_b,
                                         PipelineSchedule::interleaved, PipelineSchedule::zb1p};
};
// `recommend:`, the search space of the verb of this name.
struct RecommendSpec {
  MeshLimits parallel;
};

// `energy:`, the energy of the GPUs over the whole run.
struct EnergySpec {
  // Power of the building over that of its machines (power usage effectiveness, PUE).
  double overhead = 1;
  // Grams of CO2 for each kWh of the grid; 0 = not stated.
  double carbon_intensity = 0;
};

// The whole file. read_scenario() guarantees the bounds and checks of scenario_fields.hpp: at least
// one strategy, at least one GPU count, unique labels.
struct Scenario {
  std::string name;
  std::string description;
  Recipe recipe = Recipe::none;
  // Name of a shipped model, or a path to a model file.
  std::string model;
  // Overrides of a parametric model, e.g. {layers: 24}.
  std::map<std::string, std::int64_t> model_parameters;
  InputSpec input;
  DatasetSpec dataset;
  BatchSpec batch;
  Precision precision = Precision::fp32;
  OptimizerSpec optimizer;
  FineTuning fine_tuning;
  // Largest norm of the gradient; 0 = no clipping.
  double gradient_clipping = 0;
  bool activation_checkpointing = false;
  // Layers that activation checkpointing computes a second time in backward.
  Recompute recompute = Recompute::blocks;
  Compile compile = Compile::none;
  // Hand-written fused kernels (Transformer Engine, Apex, Liger); a CUDA graph of forward and
  // backward; fp8 or fp4 products. docs/fast-path.md.
  bool fused_kernels = false;
  bool cuda_graphs = false;
  LowPrecision low_precision;
  AttentionKind attention = AttentionKind::fused;
  MemoryFormat memory_format = MemoryFormat::contiguous;
  Framework framework;
  DataLoading data_loading;
  std::string platform;
  // Differences from the platform's network between nodes.
  FabricChange fabric;
  // Folder or file of a measured profile; empty = modeled costs.
  std::string profile;
  // Dollars; absent = the platform's price.
  std::optional<double> price_per_gpu_hour;
  std::vector<int> gpus{1};
  // The mesh of one replica; entries of `strategies` may override it.
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

  // Settings of the recipe that took effect (WithRecipe::set).
  std::vector<std::string> recipe_set;
  // The file that the scenario was read from.
  std::string file;
  Location model_where, platform_where, fabric_where, profile_where, gpus_where, batch_where;
  Location cuda_graphs_where, low_precision_where;
  Location input_where, dataset_where;
  std::map<std::string, Location> model_parameters_where;
};

// The mesh that holds for an entry: its own, else the scenario's.
inline const ParallelOptions& parallel_of(const Scenario& scenario, const StrategyEntry& entry) {
  return entry.parallel ? *entry.parallel : scenario.parallel;
}

// Read a scenario from a file, a text or a YAML tree; `file_name` is the origin of relative paths
// and of errors. Throw ConfigError with all errors of the file.
Scenario read_scenario(const std::string& path);
Scenario read_scenario_text(std::string_view text, const std::string& file_name);
Scenario read_scenario_node(const Node& root, const std::string& file_name);
// The scenario with all fields, as YAML; reads back to the same scenario.
std::string write_scenario(const Scenario& scenario);
// Paths of all shipped scenarios of one training, sorted.
std::vector<std::string> shipped_scenarios();
// JSON Schema draft-07 of the format; Markdown tables of its fields for docs/scenario-format.md.
std::string scenario_schema();
std::string scenario_fields();

}  // namespace lockstep
