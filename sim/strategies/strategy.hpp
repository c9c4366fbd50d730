// The interface of strategies: a training job goes in, simulated steps come out, with all other
// knowledge about the strategy. Derive from it to add a strategy. Each strategy is a folder whose
// program reads like the algorithm it simulates; list it in strategies/table.hpp.
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

// Options of the simulation; none of them changes the job.
struct Simulation {
  std::uint64_t seed = 1;
  int steps = 100;           // optimizer steps to simulate at most
  bool interference = true;  // communication slows down concurrent compute (facts 112, 113)
  NetworkKind network = NetworkKind::flow;
  Engine engine = Engine::automatic;  // as asked for: choose_engine() (run_steps.hpp)
  // File for the order of updates (results/schedule.hpp) of asynchronous workers; "" = none.
  std::string schedule_file{};
  std::function<void(double)> progress{};  // called with the simulated share of the steps
  Observer* observer = nullptr;            // gets the simulated events; null = none
};

struct PricedStep {
  std::shared_ptr<const TrainingStep> step;  // of one micro-batch on one GPU; never null
  // With a pipeline: the parts of the step, one for each chunk of each stage; null = the step is
  // one part.
  std::shared_ptr<const std::vector<ModelPart>> parts;
  std::shared_ptr<const ComputeCosts> costs;
};

// The training, where and how it runs: everything a strategy needs to know about one (strategy, GPU
// count) point of a scenario.
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
  double communication_scale = 1;  // factor on every transfer's lone time (an anchor's finding)
  Simulation simulation{};

  int slices_of_micro_batch() const {
    const auto count = static_cast<int>(slices.size());
    return std::max(1, count);
  }
  // Forward passes of a stage in an optimizer step.
  int passes() const { return accumulation * slices_of_micro_batch(); }
};

// The shape of the job's pipeline; one stage with one chunk if there is none.
PipelineShape pipeline_shape(const Job& job);
// The job of one part of the model. Costs refer to `job`.
Job part_job(const Job& job, std::size_t part);

// Simulated behaviour of the steady state (the first step apart).
struct StrategyResult {
  // One entry for each simulated optimizer step after the first; only the steady state if it is
  // proven. If steps repeat only after several, the mean of each such period.
  std::vector<double> step_seconds;
  double first_step_seconds = 0;
  Engine engine = Engine::loop;     // that carried it out
  bool extrapolated = false;        // steady state proven, later steps not simulated
  int simulated_steps = 0;          // including the first and the steps before the steady state
  int simulated_micro_batches = 0;  // of one step; the others are like them
  bool phases = false;  // the simulated steps stand for the whole run, however long it is
  // Mean step after the warm-up; absent = there is no warm-up.
  std::optional<double> later_step_seconds;
  StepSplit split;  // mean over ranks and steps after the first; sums to the mean step
  std::vector<StageRecord> stages;  // of a pipeline: the same by stage, and its memory
  std::vector<RankTimes> ranks;     // the same by rank, ascending; equal ranks are one entry
  std::optional<double> step_without_stragglers;  // where the point asks for it
  // Means of several seeds, this one's first, if the point asks for them and any value is random.
  std::vector<double> step_of_seed, staleness_of_seed;
  double device_busy = 0;       // mean busy seconds of a device per step
  double samples_per_step = 0;  // samples all ranks together finish per step_seconds entry
  std::vector<LinkTraffic> traffic;
  std::optional<Staleness> staleness;
  std::optional<WorkerSteps> worker_steps;  // where workers need not keep step
  MemoryUse memory;  // who asked for the simulation asks memory(), too, where it counts
  ProvenanceShare provenance;
  std::vector<std::string> notes;
};

// The place where parameters are updated.
enum class Updater { device, own_host, servers_host };

MemoryUse fullest(const std::vector<MemoryUse>& stages);

class Strategy {
 public:
  virtual ~Strategy() = default;

  // Throws ConfigError without a place in a file if the options do not fit the job; so do memory()
  // and communication().
  virtual StrategyResult simulate(const Job& job) const = 0;
  // Memory of one device of each stage, without simulating. A requested log is of the last stage.
  virtual std::vector<MemoryUse> stage_memory(const Job& job,
                                              const MemoryQuery& query = {}) const = 0;
  // The memory of the stage that needs most.
  MemoryUse memory(const Job& job, const MemoryQuery& query = {}) const {
    return fullest(stage_memory(job, query));
  }
  // A lower bound of a simulated step's seconds, from its transfers alone. 0 = unknown.
  virtual double least_communication_seconds(const Job&) const { return 0; }
  // Messages and the tensors in them, for programs that compare them with the real ones
  // (`export --layers`).
  virtual nlohmann::ordered_json communication(const Job& job) const = 0;
  // Options that differ from their defaults and have no effect in this job.
  virtual std::vector<IdleOption> idle_options(const Job& job) const = 0;
  // For synchronous ranks: adds the compression of gradients and the delay of updates to the
  // schedule.
  virtual void describe_updates(const Job&, UpdateSchedule&) const {}
  // Given options that change learning and that no replay of the updates supports.
  virtual std::vector<std::string> not_replayed(const Job&) const { return {}; }
  virtual Updater updater(const Job&) const { return Updater::device; }

  // Parameter servers that workers push to; 0 = ranks talk to each other.
  virtual int servers() const { return 0; }
  // Servers on hosts of their own, which survive the failure of a worker's node.
  virtual int server_hosts() const { return 0; }
  // Ranks that together hold parameters and optimizer state once: a replica. The loss of one rank
  // loses the replica. Throws as simulate() does.
  virtual int state_ranks(const Job& job) const { return job.mesh.gpus() / job.mesh.data; }
  // Nodes of workers, without the servers' own hosts, that keep a share of parameters and optimizer
  // state and write it to a checkpoint.
  virtual int state_nodes(const Job& job) const { return nodes_of(state_ranks(job), job.machine); }
  // Whether the other workers continue after the loss of one.
  virtual bool outlives_workers() const { return false; }

  // The precision in which operators compute if the scenario asks for `precision`.
  virtual Precision compute_precision(Precision precision) const { return precision; }
  // Whether autocast is active besides.
  virtual bool autocasts(Precision) const { return false; }
  // Batch norms stay fp32 there.
  virtual bool widens_batch_norm(Precision) const { return false; }
  // Why the strategy excludes models that are spread over several GPUs; "" = it does not.
  virtual std::string mesh_misfit(const ParallelOptions& parallel) const {
    if (drains(parallel.pipeline.schedule)) return "";
    return "stages that never drain update apart, each with all of its weights";
  }
  // The error if the options exclude this precision; the field is relative to the strategy's entry.
  virtual std::optional<Diagnostic> misfit(Precision) const { return std::nullopt; }
  // Why the framework does not run the job, where the model's weights may lie with their channels last; the
  // field is as above.
  virtual std::optional<Diagnostic> refusal(const Job&, bool) const { return std::nullopt; }
  // Why the options exclude this optimizer on ranks with this device.
  virtual std::optional<Diagnostic> optimizer_misfit(const OptimizerSpec&, const Device&) const {
    return std::nullopt;
  }
};

// A strategy with the options of its folder.
template <class Options>
class StrategyOf : public Strategy {
 public:
  explicit StrategyOf(const Options& options) : options_(options) {}

 protected:
  Options options_;
};

}  // namespace lockstep
