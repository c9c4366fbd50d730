// The interface of strategies, with the job as its input and the result as its output. To add a
// strategy, derive from Strategy in a new folder, write its program such that it reads like the
// simulated algorithm, and list it in strategies/table.hpp. sim/points calls simulate() and
// stage_memory() for each point of a scenario (a strategy on a number of GPUs). Times are in
// seconds, sizes in bytes, rates in bytes/s.
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

// Options of the simulation. They change how exactly and how fast a job is simulated, but not the
// job.
struct Simulation {
  std::uint64_t seed = 1;
  int steps = 100;  // largest number of optimizer steps after the first (run_steps() may round up)
  bool interference = true;  // communication slows down concurrent compute (facts 112, 113)
  NetworkKind network = NetworkKind::flow;
  Engine engine = Engine::automatic;  // as the scenario says; see choose_engine() in run_steps.hpp
  // Writes the order of the updates of asynchronous workers to this file (results/schedule.hpp); ""
  // = no file.
  std::string schedule_file{};
  std::function<void(double)> progress{};  // called with the share of the steps that is simulated
  Observer* observer = nullptr;            // receives the simulated events; null = none
};

// A training step with the costs of its layers.
struct PricedStep {
  std::shared_ptr<const TrainingStep> step;  // of one micro-batch on one GPU; never null
  // If the job has a pipeline: the parts of the model, one for each chunk of each stage. Null = the
  // step is one part.
  std::shared_ptr<const std::vector<ModelPart>> parts;
  std::shared_ptr<const ComputeCosts> costs;
};

// The input of a strategy's simulation: the training, the machine and the stragglers of one point
// of a scenario.
struct Job : PricedStep {
  Machine machine;
  Mesh mesh;
  int accumulation = 1;  // micro-batches per optimizer step
  // The token slices of a micro-batch in the order of the tokens (TeraPipe: Li et al. 2021). Empty
  // = a micro-batch is computed as a whole.
  std::vector<PricedStep> slices{};
  ParallelOptions parallel;  // how GPUs divide a replica of the model
  OptimizerSpec optimizer;
  double gradient_clipping = 0;  // largest norm; 0 = off
  // The software that drives the device. It determines how micro-batches are prepared and where
  // gradients are stored.
  FrameworkKind framework = FrameworkKind::pytorch;
  Controller controller;
  // No copy from the host in each step, for example with synthetic data or DALI.
  bool input_on_device = false;
  // Seconds that the loader needs for one micro-batch; 0 = the loader never limits the speed.
  double data_loading_seconds = 0;
  Stragglers stragglers;
  // The kind of each rank's device: 0 = the machine's device; n >= 1 = the device of entry n - 1 of
  // QueuedWork::elsewhere. Empty = all ranks have the machine's device.
  std::vector<int> device_of_rank{};
  // Factor on the time of every transfer without other traffic, from an anchor (a measured step
  // time).
  double communication_scale = 1;
  Simulation simulation{};

  int slices_of_micro_batch() const {
    const auto count = static_cast<int>(slices.size());
    return std::max(1, count);
  }
  // Number of forward passes of a stage in an optimizer step: micro-batches times token slices.
  int passes() const { return accumulation * slices_of_micro_batch(); }
};

// The shape of the job's pipeline. Without a pipeline: one stage with one chunk.
PipelineShape pipeline_shape(const Job& job);
// The job of one part of the model. Its costs refer to `job`, so `job` must outlive the result.
Job part_job(const Job& job, std::size_t part);

// The outcome of a simulation: the steady state, and separately the first step.
struct StrategyResult {
  // Seconds of each simulated optimizer step after the first, or only of the steady state if there
  // is one. If the program repeats after several steps, each entry is the mean over such a period.
  std::vector<double> step_seconds;
  double first_step_seconds = 0;
  Engine engine = Engine::loop;  // the executor that ran the simulation
  bool extrapolated = false;     // steps had become equal, so that later steps were not simulated
  int simulated_steps = 0;       // including the first step and the steps before the steady state
  int simulated_micro_batches = 0;  // of one step; further micro-batches are equal to these
  bool phases = false;              // the simulated steps cover a run during which the rule changes
  // Seconds of the mean step after the warm-up; absent = there is no warm-up. Set by the caller of
  // simulate().
  std::optional<double> later_step_seconds;
  StepSplit split;  // mean over ranks, and over the same steps as `step_seconds`
  // If there is a pipeline: the split and the memory of each stage.
  std::vector<StageRecord> stages;
  std::vector<RankTimes> ranks;  // times of each rank, ascending by rank; equal ranks are one entry
  std::optional<double> step_without_stragglers;  // only if the point requests it
  // Means of several seeds, beginning with the job's own. Only if the point requests several seeds
  // and some value is random.
  std::vector<double> step_of_seed, staleness_of_seed;
  double device_busy = 0;              // mean busy seconds of a device per step
  double samples_per_step = 0;         // samples that all ranks together train on in a step
  std::vector<LinkTraffic> traffic;    // by link class, per step
  std::optional<Staleness> staleness;  // only of a parameter server's updates
  // Only if workers do not run in step: how unequal their numbers of steps are.
  std::optional<WorkerSteps> worker_steps;
  MemoryUse memory;  // set by the caller of simulate(), from Strategy::memory()
  ProvenanceShare provenance;
  std::vector<std::string> notes;
};

// The device or host that updates the parameters.
enum class Updater { device, own_host, servers_host };

// The memory of the stage that needs the most device memory.
// REQUIRES: there is a stage.
MemoryUse fullest(const std::vector<MemoryUse>& stages);

// A strategy with its options. Objects are immutable; everything that depends on a job is passed
// with the call.
class Strategy {
 public:
  virtual ~Strategy() = default;

  // Simulates the job. simulate(), stage_memory() and communication() throw ConfigError, without a
  // place in a file, if the options do not fit the job.
  virtual StrategyResult simulate(const Job& job) const = 0;
  // The memory of one device of each stage, computed without simulated time. If `query` requests a
  // log, the log is that of the last stage.
  virtual std::vector<MemoryUse> stage_memory(const Job& job,
                                              const MemoryQuery& query = {}) const = 0;
  // The memory of the stage that needs the most.
  MemoryUse memory(const Job& job, const MemoryQuery& query = {}) const {
    return fullest(stage_memory(job, query));
  }
  // A lower bound of the seconds of a simulated step that follows from the step's transfers; 0 =
  // unknown.
  virtual double least_communication_seconds(const Job&) const { return 0; }
  // The messages and the tensors that each message contains. Other programs compare them with the
  // messages of real training (`export --layers`).
  virtual nlohmann::ordered_json communication(const Job& job) const = 0;
  // Options that differ from their defaults and have no effect in this job.
  virtual std::vector<IdleOption> idle_options(const Job& job) const = 0;
  // Adds the compression of gradients and the delay of updates to the schedule; only for
  // synchronous ranks.
  virtual void describe_updates(const Job&, UpdateSchedule&) const {}
  // Names of options that change accuracy and that the replay of the updates does not support.
  virtual std::vector<std::string> not_replayed(const Job&) const { return {}; }
  // The device or host that updates the parameters, for explanations and checkpoints.
  virtual Updater updater(const Job&) const { return Updater::device; }

  // Number of parameter servers to which workers push; 0 = ranks communicate with each other.
  virtual int servers() const { return 0; }
  // Number of hosts on which only servers run. They survive the failure of a worker's node.
  virtual int server_hosts() const { return 0; }
  // Number of ranks that together hold parameters and optimizer state exactly once: a replica. If
  // one of these ranks is lost, the replica is lost. Throws as simulate() does.
  virtual int state_ranks(const Job& job) const { return job.mesh.gpus() / job.mesh.data; }
  // Number of workers' nodes that hold a share of parameters and optimizer state and write it to a
  // checkpoint. Hosts on which only servers run are not counted.
  virtual int state_nodes(const Job& job) const { return nodes_of(state_ranks(job), job.machine); }
  // Whether the other workers continue after the loss of one.
  virtual bool outlives_workers() const { return false; }

  // The precision in which operators compute if the scenario says `precision`. For example, FSDP
  // computes in the precision in which it gathers parameters.
  virtual Precision compute_precision(Precision precision) const { return precision; }
  // Whether autocast is active in addition to compute_precision().
  virtual bool autocasts(Precision) const { return false; }
  // Whether batch norms stay in fp32 while other operators compute in a lower precision (FSDP1).
  virtual bool widens_batch_norm(Precision) const { return false; }
  // The reason why the strategy cannot train a model that GPUs divide as `parallel` says; "" = it
  // can.
  virtual std::string mesh_misfit(const ParallelOptions& parallel) const {
    if (drains(parallel.pipeline.schedule)) return "";
    return "stages that never drain update apart, each with all of its weights";
  }
  // The error if the options exclude this precision; absent = they allow it. In this function and
  // the next two, the error's field is relative to the strategy's entry in the scenario.
  virtual std::optional<Diagnostic> misfit(Precision) const { return std::nullopt; }
  // The error if the framework refuses to run the job. The flag says whether the model's weights
  // may be stored with their channels last.
  virtual std::optional<Diagnostic> refusal(const Job&, bool) const { return std::nullopt; }
  // The error if the options exclude this optimizer on ranks with this device.
  virtual std::optional<Diagnostic> optimizer_misfit(const OptimizerSpec&, const Device&) const {
    return std::nullopt;
  }
};

// Base of a strategy that stores the options of its folder.
template <class Options>
class StrategyOf : public Strategy {
 public:
  explicit StrategyOf(const Options& options) : options_(options) {}

 protected:
  Options options_;
};

}  // namespace lockstep
