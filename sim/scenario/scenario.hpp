// A scenario file (scenarios/*.yaml, docs/scenario-format.md): one question about training one
// model on one platform with several strategies and GPU counts. After it is read here, sim/points
// loads the model and the platform, and expands the scenario to points (one strategy on one GPU
// count each). The structs contain the values that the user wrote, and defaults for all others;
// scenario_fields.hpp declares names, bounds and descriptions.
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

// `dataset:`, the length of the whole run: samples x epochs, tokens, steps or seconds. At most one
// of the four is given. Without a length only step times are reported.
struct DatasetSpec {
  // Samples of one epoch; 0 = not given.
  double samples = 0;
  double epochs = 1;
  // Tokens, optimizer steps or seconds of the whole run; 0 = not given. `seconds` is the time of
  // the steps, without failures and checkpoints.
  double tokens = 0;
  double steps = 0;
  double seconds = 0;
  bool says_length() const { return samples > 0 || tokens > 0 || steps > 0 || seconds > 0; }
};

// `batch:`, the samples of an optimizer step, given as `global` or `per_gpu`; `micro` or
// `accumulation` splits them into micro-batches. If neither is given, `micro` x `accumulation` is
// the batch of one GPU. With R replicas of the model, each of which counts as one GPU here: global
// = per_gpu x R and per_gpu = micro x accumulation. 0 = not given.
struct BatchSpec {
  // Samples of one optimizer step over all GPUs; constant over GPU counts (strong scaling).
  std::int64_t global = 0;
  // Samples of one optimizer step on one GPU; constant over GPU counts (weak scaling).
  std::int64_t per_gpu = 0;
  // Samples of one forward and backward on one GPU.
  std::int64_t micro = 0;
  // Micro-batches per optimizer step; 0 = derived from the other fields, or 1 if they do not
  // determine it.
  std::int64_t accumulation = 0;
};

// fused: one kernel that never writes the matrix of scores to memory (FlashAttention). plain:
// matrix products and a softmax, which write the scores to memory.
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
  // Whether batches already are in device memory, so that none is copied from the host.
  bool on_device = false;
  // Samples per second that the input pipeline delivers to one GPU; 0 = unlimited.
  double samples_per_second = 0;
};

// One entry of `strategies:`: a strategy with its options, and values that replace the scenario's
// for this entry. If such a value is absent, the scenario's value holds.
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

// NetworkKind's third value, `message`, has no name, because only tests of the engine use it.
template <>
struct EnumNames<NetworkKind> {
  static constexpr std::array names{"analytic", "flow"};
};

template <>
struct EnumNames<Engine> {
  static constexpr std::array names{"auto", "simgrid", "loop"};
};

// `convergence.tune`: for each point, every learning rate is tried with every momentum.
struct TuningSpec {
  // Values to try; empty = the scenario's value.
  std::vector<double> learning_rate, momentum;
};

// `convergence:`, real training in the simulated order of events (docs/accuracy.md): each gradient
// is computed on the weights, perhaps stale, that the worker has in the simulation. Run length,
// batch and optimizer come from other fields of the scenario.
struct ConvergenceSpec {
  // "fashion-mnist", "synthetic", or a folder with data sets in MNIST's or CIFAR-10's format.
  std::string data = "fashion-mnist";
  double learning_rate = 0.01;
  // Growth of the learning rate with the number of workers.
  RateScaling scaling = RateScaling::none;
  MomentumPlace momentum_at = MomentumPlace::server;
  RateSchedule schedule = RateSchedule::constant;
  double warm_up_epochs = 0;
  Initialisation initialisation = Initialisation::layers;
  RunningStatistics running_statistics = RunningStatistics::first_worker;
  // Number of training runs of each point; each run has its own initial weights and order of the
  // data.
  std::int64_t seeds = 5;
  // Number of evaluations on the test set in each run, and samples of each evaluation (0 = all).
  std::int64_t evaluations = 10;
  std::int64_t test_samples = 0;
  // Accuracy (0 to 1) for which the time and cost to reach it are reported.
  std::optional<double> target;
  std::optional<TuningSpec> tune;
  Location where;
};

// `simulation:`, how points are simulated.
struct SimulationSpec {
  // Seed of all random draws; equal seeds give byte-identical results.
  std::int64_t seed = 1;
  // Number of simulations of each point, with consecutive seeds; absent = chosen automatically.
  std::optional<std::int64_t> seeds;
  // Largest number of simulated optimizer steps; the simulation stops earlier in a steady state.
  std::int64_t steps = 100;
  // Whether collectives slow down the compute that they overlap with.
  bool interference = true;
  NetworkKind network = NetworkKind::flow;
  Engine engine = Engine::automatic;
};

// Values measured on real hardware: a row that `validate` compares with predictions (`measured:`),
// or a row to which predictions are scaled (`anchor:`). At most one of `step_time`, `total_time`,
// `samples_per_second` and `tokens_per_second` is given. A row without any of the four has `memory`
// or `fits`.
struct MeasuredRow {
  // Label of an entry of `strategies`; may be empty if there is only one entry.
  std::string strategy;
  int gpus = 0;
  // Seconds of a step or of the whole run, or the rate of all GPUs together.
  std::optional<double> step_time, total_time, samples_per_second, tokens_per_second;
  // Peak of allocated bytes on one GPU.
  std::optional<double> memory;
  // Whether the job ran, or ran out of memory.
  std::optional<bool> fits;
  std::string source;
  // Whether a shipped device or platform model was fitted to this row, so that it cannot test that
  // model.
  bool calibration = false;
  Location where;
};

// The meshes that `recommend` tries: all valid combinations of these values.
struct MeshLimits {
  std::vector<std::int64_t> tensor{1, 2, 4, 8};
  // Empty = 1; for sequences of at least 32,768 tokens, also larger sizes.
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
// `recommend:`, the search space of the command `recommend`.
struct RecommendSpec {
  MeshLimits parallel;
};

// `energy:`, the energy of the GPUs over the whole run.
struct EnergySpec {
  // Power of the building divided by the power of its machines (power usage effectiveness, PUE).
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
  // `fused_kernels`: hand-written fused kernels (Transformer Engine, Apex, Liger). `cuda_graphs`: a
  // CUDA graph of forward and backward. `low_precision`: fp8 or fp4 products. See
  // docs/fast-path.md.
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
  // Folder or file of a measured profile; empty = modelled costs.
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

// The mesh of an entry: its own if it has one, otherwise the scenario's.
inline const ParallelOptions& parallel_of(const Scenario& scenario, const StrategyEntry& entry) {
  return entry.parallel ? *entry.parallel : scenario.parallel;
}

// Read a scenario from a file, a text or a YAML tree. Relative paths are resolved from the folder
// of `file_name`, and errors name it. Throw ConfigError with all errors of the file.
Scenario read_scenario(const std::string& path);
Scenario read_scenario_text(std::string_view text, const std::string& file_name);
Scenario read_scenario_node(const Node& root, const std::string& file_name);
// The scenario with all fields, as YAML. Reading the text gives the same scenario.
std::string write_scenario(const Scenario& scenario);
// Paths of all shipped scenarios of one training that list no alternatives, sorted.
std::vector<std::string> shipped_scenarios();
// JSON Schema draft-07 of the format; Markdown tables of its fields for docs/scenario-format.md.
std::string scenario_schema();
std::string scenario_fields();

}  // namespace lockstep
