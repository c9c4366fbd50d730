// The interface of strategies, with the job that goes in and the result that comes out. To add a
// strategy, derive from Strategy in a folder of its own, whose program reads like the simulated
// algorithm, and list it in strategies/table.hpp. Room points calls simulate() and memory() for
// each point of a scenario. Times are seconds, sizes bytes, rates bytes/s.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "costs/compute.hpp"
#include "costs/optimizer.hpp"
#include "engine/observer.hpp"
#include "hardware/machine.hpp"
#include "memory/step_memory.hpp"
#include "parallel/mesh.hpp"
#include "parallel/schedule.hpp"
#include "results/record.hpp"
#include "strategies/common/idle_options.hpp"
#include "strategies/common/straggler_options.hpp"
#include "workload/partition.hpp"
#include "workload/step.hpp"

namespace lockstep {

struct UpdateSchedule;  // results/schedule.hpp

// Options of the simulation. They change how exactly and how fast a job is simulated, not the job.
struct Simulation {
  std::uint64_t seed = 1;
  int steps = 100;           // optimizer steps to simulate at most
  bool interference = true;  // communication slows down concurrent compute (facts 112, 113)
  NetworkKind network = NetworkKind::flow;
  Engine engine = Engine::automatic;  // from the scenario; choose_engine() decides (run_steps.hpp)
  // File for the order of updates (results/schedule.hpp) of asynchronous workers; "" = none.
  std::string schedule_file{};
  std::function<void(double)> progress{};  // called with the simulated share of the steps
  Observer* observer = nullptr;            // gets the simulated events; null = none
};

// A training step with the costs of its layers.
struct PricedStep {
  std::shared_ptr<const TrainingStep> step;  // of one micro-batch on one GPU; never null
  // With a pipeline: the parts of the step, one for each chunk of each stage; null = the step is
  // one part.
  std::shared_ptr<const std::vector<ModelPart>> parts;
  std::shared_ptr<const ComputeCosts> costs;
};

// The input of a strategy's simulation: the training, the machine and the stragglers of one point
// (a strategy on a number of GPUs) of a scenario.
struct Job : PricedStep {
  Machine machine;
  Mesh mesh;
  int accumulation = 1;  // micro-batches per optimizer step
  // The token slices of a micro-batch in the order of the tokens (TeraPipe: Li et al. 2021); empty
  // = the step is computed as a whole.
  std::vector<PricedStep> slices{};
  ParallelOptions parallel;  // how a replica of the model is spread over GPUs
  OptimizerSpec optimizer;
  double gradient_clipping = 0;  // max norm; 0 = off
  // The software that drives the device: how it prepares micro-batches and keeps its gradients.
  FrameworkKind framework = FrameworkKind::pytorch;
  Controller controller;
  bool input_on_device = false;  // synthetic data, DALI: no copy from the host in each step
  // Seconds that the loader needs to deliver one micro-batch; 0 = never the bound.
  double data_loading_seconds = 0;
  Stragglers stragglers;
  // The kind of each rank's device: 0 = the machine's, from 1 on an index into
  // QueuedWork::elsewhere of its work. Empty = the machine's device everywhere.
  std::vector<int> device_of_rank{};
  double communication_scale = 1;  // factor on every transfer's lone time, from an anchor
  Simulation simulation{};

  int slices_of_micro_batch() const {
    const auto count = static_cast<int>(slices.size());
    return std::max(1, count);
  }
  // Forward passes of a stage in an optimizer step: micro-batches times token slices.
  int passes() const { return accumulation * slices_of_micro_batch(); }
};

// The shape of the job's pipeline; one stage with one chunk if there is none.
PipelineShape pipeline_shape(const Job& job);
// The job of one part of the model. Its costs refer to `job`, which must outlive it.
Job part_job(const Job& job, std::size_t part);

// The outcome of a simulation: figures of the steady state, and the first step apart.
struct StrategyResult {
  // Seconds of each simulated optimizer step after the first; only of the steady state if there is
  // one. If the program repeats after several steps, an entry is the mean of such a period.
  std::vector<double> step_seconds;
  double first_step_seconds = 0;
  Engine engine = Engine::loop;     // the executor that ran the simulation
  bool extrapolated = false;        // steps had become equal, so later steps were not simulated
  int simulated_steps = 0;          // including the first and the steps before the steady state
  int simulated_micro_batches = 0;  // of one step; the other micro-batches are equal to these
  bool phases = false;  // the simulated steps stand for a whole run with a change of the rule
  // Mean step after the warm-up; absent = there is no warm-up.
  std::optional<double> later_step_seconds;
  StepSplit split;  // mean over ranks and steps after the first; sums to the mean step
  std::vector<StageRecord> stages;  // of a pipeline: the split and the memory of each stage
  std::vector<RankTimes> ranks;     // times of each rank, ascending; equal ranks are one entry
  std::optional<double> step_without_stragglers;  // if the point asks for it
  // Means of several seeds, this one's first, if the point asks for them and any value is random.
  std::vector<double> step_of_seed, staleness_of_seed;
  double device_busy = 0;       // mean busy seconds of a device per step
  double samples_per_step = 0;  // samples that all ranks together finish per step_seconds entry
  std::vector<LinkTraffic> traffic;         // by link class, per step
  std::optional<Staleness> staleness;       // of a parameter server's updates
  std::optional<WorkerSteps> worker_steps;  // if workers do not keep step: how unequal they are
  MemoryUse memory;  // not set by simulate(): the caller fills it from Strategy::memory()
  ProvenanceShare provenance;
  std::vector<std::string> notes;
};

// The place where parameters are updated.
enum class Updater { device, own_host, servers_host };

// The memory of the stage that needs most device memory.
// REQUIRES: there is a stage.
MemoryUse fullest(const std::vector<MemoryUse>& stages);

// A strategy with its options. Objects are immutable; all knowledge about a job comes with the
// call.
class Strategy {
 public:
  virtual ~Strategy() = default;

  // Simulates the job. Throws ConfigError, without a place in a file, if the options do not fit the
  // job; so do memory() and communication().
  virtual StrategyResult simulate(const Job& job) const = 0;
  // Memory of one device of each stage, without simulated time. A log that `query` asks for is of
  // the last stage.
  virtual std::vector<MemoryUse> stage_memory(const Job& job,
                                              const MemoryQuery& query = {}) const = 0;
  // The memory of the stage that needs most.
  MemoryUse memory(const Job& job, const MemoryQuery& query = {}) const {
    return fullest(stage_memory(job, query));
  }
  // A lower bound of a simulated step's seconds, from its transfers alone; 0 = unknown.
  virtual double least_communication_seconds(const Job&) const { return 0; }
  // Messages and the tensors in them, for programs that compare them with the real ones
  // (`export --layers`).
  virtual nlohmann::ordered_json communication(const Job& job) const = 0;
  // Options that differ from their defaults and have no effect in this job.
  virtual std::vector<IdleOption> idle_options(const Job& job) const = 0;
  // For synchronous ranks: adds the compression of gradients and the delay of updates to the
  // schedule.
  virtual void describe_updates(const Job&, UpdateSchedule&) const {}
  // Names of options that change accuracy and that the replay of the updates does not support.
  virtual std::vector<std::string> not_replayed(const Job&) const { return {}; }
  // The device or host that updates the parameters, for explanations and checkpoints.
  virtual Updater updater(const Job&) const { return Updater::device; }

  // Parameter servers that workers push to; 0 = ranks talk to each other.
  virtual int servers() const { return 0; }
  // Number of servers' own hosts. They survive the failure of a worker's node.
  virtual int server_hosts() const { return 0; }
  // Number of ranks that together hold parameters and optimizer state once: a replica. The loss of
  // one rank loses the replica. Throws as simulate() does.
  virtual int state_ranks(const Job& job) const { return job.mesh.gpus() / job.mesh.data; }
  // Number of workers' nodes, without the servers' own hosts, that keep a share of parameters and
  // optimizer state and write it to a checkpoint.
  virtual int state_nodes(const Job& job) const { return nodes_of(state_ranks(job), job.machine); }
  // Whether the other workers continue after the loss of one.
  virtual bool outlives_workers() const { return false; }

  // The precision in which operators compute if the scenario asks for `precision`. FSDP computes in
  // the precision in which it gathers parameters.
  virtual Precision compute_precision(Precision precision) const { return precision; }
  // Whether autocast is active in addition.
  virtual bool autocasts(Precision) const { return false; }
  // Whether batch norms stay fp32 although other operators compute in a lower precision (FSDP1).
  virtual bool widens_batch_norm(Precision) const { return false; }
  // Why the strategy cannot train a model that `parallel` spreads over GPUs; "" = it can.
  virtual std::string mesh_misfit(const ParallelOptions& parallel) const {
    if (drains(parallel.pipeline.schedule)) return "";
    return "stages that never drain update apart, each with all of its weights";
  }
  // The error if the options exclude this precision; absent = they do not. The field is relative to
  // the strategy's entry, also in the next two functions.
  virtual std::optional<Diagnostic> misfit(Precision) const { return std::nullopt; }
  // The error if the framework refuses to run the job. The flag says whether the model's weights
  // may lie with their channels last.
  virtual std::optional<Diagnostic> refusal(const Job&, bool) const { return std::nullopt; }
  // The error if the options exclude this optimizer on ranks with this device.
  virtual std::optional<Diagnostic> optimizer_misfit(const OptimizerSpec&, const Device&) const {
    return std::nullopt;
  }
};

// Base of a strategy that keeps the options of its folder.
template <class Options>
class StrategyOf : public Strategy {
 public:
  explicit StrategyOf(const Options& options) : options_(options) {}

 protected:
  Options options_;
};

}  // namespace lockstep
