// The result of a run: one Prediction per strategy and GPU count. Simulations fill it; renderings,
// reports and questions read it. Plain data; every number is defined, with its formula, in
// docs/numbers.md. Seconds, bytes, dollars. Knows nothing of the engine. fields.hpp declares the
// names of the fields in output; real training is in real_run.hpp.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// A 90 % interval, in the unit of its figure.
struct Interval {
  double low = 0, high = 0;
};

// Energy of all GPUs of a run and its emissions. The lower bound counts board power while GPUs are
// busy and nothing while they wait; the upper bound counts board power all the time. Hosts,
// switches and storage are not included.
struct Energy {
  Interval kilowatt_hours;
  std::optional<Interval> carbon_kilograms;  // where the grid is known
};

// Exposed communication by the axis of the mesh whose message is awaited, seconds. If another
// collective delays the awaited one, the delay counts for the awaited axis. `data`: gradients and
// parameters, and transfers to hosts and drives.
struct AxisSeconds {
  double tensor = 0, context = 0, expert = 0, pipeline = 0, data = 0;
};
// All members of AxisSeconds, to iterate over.
inline constexpr std::array axis_parts{&AxisSeconds::tensor, &AxisSeconds::context,
                                       &AxisSeconds::expert, &AxisSeconds::pipeline,
                                       &AxisSeconds::data};

// The parts of one optimizer step on the average rank. The parts add up to the step time exactly.
struct StepSplit {
  double data_loading = 0;  // the device waits for input
  double forward = 0;       // device busy
  double backward = 0;      // device busy, recomputation included
  double optimizer = 0;     // device busy
  double copies = 0;        // bucket copies, casts, clipping: device busy, not the model's own work
  double exposed_communication = 0;  // device waits for a running transfer
  double host_bound = 0;             // device waits for the host to issue work
  double waiting = 0;   // device waits for another rank (stragglers, server queue, barrier)
  double bubble = 0;    // device waits for another stage of its pipeline
  AxisSeconds exposed;  // adds up to exposed_communication
};
// All parts of a step, to iterate over. The assertions below catch a member that is missing here.
inline constexpr std::array step_parts{
    &StepSplit::data_loading, &StepSplit::forward, &StepSplit::backward,
    &StepSplit::optimizer,    &StepSplit::copies,  &StepSplit::exposed_communication,
    &StepSplit::host_bound,   &StepSplit::waiting, &StepSplit::bubble};
static_assert(sizeof(AxisSeconds) == axis_parts.size() * sizeof(double), "an axis is missing");
static_assert(sizeof(StepSplit) == step_parts.size() * sizeof(double) + sizeof(AxisSeconds),
              "a part is missing");
// Adds `weight` times `split` to `sum`.
inline void add(StepSplit& sum, const StepSplit& split, double weight) {
  for (const auto part : step_parts) sum.*part += weight * (split.*part);
  for (const auto axis : axis_parts) sum.exposed.*axis += weight * (split.exposed.*axis);
}

// Relative error of the step by source, each one sigma of log(truth / prediction); the sources are
// independent (docs/numbers.md, intervals). Sources: work of devices and hosts, exposed network
// time, scaling to more GPUs, software of parameter servers, random draws.
struct StepError {
  double work = 0, network = 0, scaling = 0, servers = 0, draws = 0;
};

// The parts of a mean step on a class of identical ranks, seconds. The parts add up to the step.
struct RankTimes {
  int rank = 0;              // the lowest rank of the class
  int ranks = 1;             // ranks of the class
  double own = 0;            // work of the device, its host and its input
  double communicating = 0;  // exposed communication
  double waiting = 0;        // for other ranks or the server
  // Steps that one worker of the class makes in the time of a mean step; 1 if all workers keep
  // step.
  double steps = 1;
};

// Peak memory of one device, and of its node where state is offloaded; bytes.
struct MemoryUse {
  double allocated = 0;  // peak of live blocks, rounded (PyTorch's max_memory_allocated)
  double reserved = 0;   // peak of segments (max_memory_reserved)
  double device = 0;     // reserved + context + communication buffers (nvidia-smi)
  std::string moment;    // "backward of layer4.2.conv3", "optimizer step"
  int retries = 0;       // times the allocator freed cached segments to satisfy a request
  std::map<std::string, double>
      at_peak;          // bytes by kind at the allocated peak: parameters, activations, ...
  double capacity = 0;  // of the device that training may use; 0 = not known
  // Bytes on the fullest node's host, for all its ranks; 0 = no offload.
  double host = 0;
  double host_rounding = 0;  // the part of `host` by which pinned memory exceeds its tensors
  double host_capacity = 0;  // of the node's host; 0 = not known, or nothing is offloaded
  double nvme = 0, nvme_capacity = 0;  // likewise for the node's NVMe drives
};

// Whether the peak fits into the device's memory. An unknown capacity (0) fits anything; the same
// rule holds for hosts and drives.
inline bool fits_device(const MemoryUse& memory) {
  return memory.capacity <= 0 || memory.device <= memory.capacity;
}
inline bool fits_host(const MemoryUse& memory) {
  return memory.host_capacity <= 0 || memory.host <= memory.host_capacity;
}
inline bool fits_nvme(const MemoryUse& memory) {
  return memory.nvme_capacity <= 0 || memory.nvme <= memory.nvme_capacity;
}
// Memory and drives of the node besides its devices.
inline bool fits_node(const MemoryUse& memory) {
  return fits_host(memory) && fits_nvme(memory);
}
inline bool fits(const MemoryUse& memory) {
  return fits_device(memory) && fits_node(memory);
}

// Device bytes that training leaves free. Below 0 = so much is missing; 0 = not known.
inline double free_bytes(const MemoryUse& memory) {
  return memory.capacity > 0 ? memory.capacity - memory.device : 0;
}

// Ranks along each axis of a job's mesh.
struct MeshRecord {
  int data = 1, context = 1, tensor = 1, pipeline = 1, expert = 1;
};

// Figures of one stage of a pipeline.
struct StageRecord {
  int stage = 0;
  // First and last layer of each part of the model on the stage, such as "wte .. h.5".
  std::vector<std::string> layers;
  StepSplit split;  // of its mean rank; adds up to the step
  MemoryUse memory;
};

// Traffic on one class of links, all of which are alike.
struct LinkTraffic {
  std::string link_class;  // "NVLink", "PCIe", "NIC", "host memory"
  double bytes = 0;        // per step, on the busiest link of the class, one way
  double total_bytes = 0;  // per step, all links
  double busy = 0;         // fraction of the step that the busiest link is transferring
};

// Staleness of asynchronous updates: the updates that a server applied between a worker's pull and
// its push.
struct Staleness {
  double mean = 0;
  double p50 = 0, p99 = 0, max = 0;
  std::map<std::int64_t, std::int64_t> histogram;  // staleness -> number of updates
};

// How the steps of asynchronous workers divide among them.
struct WorkerSteps {
  std::map<std::int64_t, std::int64_t> histogram;  // steps begun -> number of workers
  double least = 0, most = 0;  // share of one worker in all steps; 1 / workers is even
};

// A mean over simulations with different random draws (`simulation: {seeds: N}`, docs/numbers.md).
struct SeedMean {
  double mean = 0;
  Interval interval;  // 90 % interval of the mean, by Student's t
};
// The means of a point that was simulated with several seeds.
struct OverSeeds {
  int seeds = 0;
  SeedMean step;                      // seconds, of the seeds' mean steps
  std::optional<SeedMean> staleness;  // updates, of the seeds' mean staleness
};

// Accuracy of training to the end of the run, by several seeds (docs/accuracy.md).
struct Accuracy {
  // The accuracy at one evaluation, over the seeds.
  struct Moment {
    double seconds = 0, epochs = 0;
    double mean = 0;
    Interval interval;
  };
  int seeds = 0;
  double learning_rate = 0;  // at the beginning, scaling applied
  double momentum = 0;
  int diverged = 0;        // seeds whose final loss is not finite
  double last = 0;         // share of the test set, mean of the seeds
  Interval last_interval;  // of the mean
  std::vector<Moment> curve;
  std::optional<double> target;
  // Number of seeds that reached the target, and number of seeds that reached it before their first
  // evaluation: the time of such a seed is only a bound.
  int reached = 0;
  int reached_before = 0;
  double seconds_to_target = 0;  // mean over the seeds that reached it
  double dollars_to_target = 0;  // 0 = no price
  // Intervals of the two means; only where every seed reached it between two evaluations.
  std::optional<Interval> seconds_interval, dollars_interval;
};

// The whole run with failures (docs/faults.md): means of `runs` runs.
struct RunWithFailures {
  int runs = 0;
  int unfinished = 0;  // given up after a hundred times the time without failures
  // Mean numbers per run: failures of anything in use, and failures that stopped the job.
  double failures = 0, interruptions = 0;
  double seconds_between_interruptions = 0;  // 0 = none
  double finish_seconds = 0;
  Interval finish_interval;  // of a run
  double finish_error = 0;   // half of the 95 % interval of the mean, over the mean
  double goodput = 0;        // time of the steps alone over time to finish; 0 = some did not
  double availability = 0;   // share of the time that it trains or writes checkpoints
  // The parts of the time to finish, seconds: steps that last, steps that were trained again,
  // standing still for checkpoints, detection and restart, waiting for nodes.
  double training = 0, lost = 0, checkpoints = 0, down = 0, waiting = 0;
  double evictions = 0;        // of slow nodes
  double memory_restarts = 0;  // that read the state from hosts' memory
  double mean_nodes = 0;
  double mean_gpus_away = 0;  // on nodes that have left or have not joined yet
  // One checkpoint: bytes of the whole state, seconds to write it.
  double checkpoint_bytes = 0, checkpoint_seconds = 0;
  double checkpoint_stall_seconds = 0;   // training stands still for one
  double checkpoint_period_seconds = 0;  // 0 = none are written
  // Copies in hosts' memory: seconds between two copies, and seconds until one is complete; 0 = no
  // copies.
  double memory_period_seconds = 0, memory_copy_seconds = 0;
  double dollars = 0;  // spare nodes included; 0 = no price
};

// The cost of ranks that are slower than others (docs/stragglers.md).
struct StragglerCost {
  double step_without = 0;       // the mean step of the same point without `stragglers`
  double step_more = 0;          // additional seconds of a step
  double total_more = 0;         // additional seconds of the whole run; 0 = no dataset
  double dollars_more = 0;       // 0 = no price
  std::vector<RankTimes> ranks;  // ascending by `rank`
};

// The missing memory of a job that does not fit.
struct OutOfMemory {
  double shortfall = 0;                    // bytes over the device's capacity
  double host_shortfall = 0;               // bytes over the host's capacity
  double nvme_shortfall = 0;               // bytes over the NVMe drives' capacity
  std::vector<std::string> suggestions{};  // settings that would fit, checked by prediction
};

// Shares of the device-busy and communication seconds by the origin of their costs; they add up to
// 1.
struct ProvenanceShare {
  double measured = 0, interpolated = 0, modelled = 0;
};

// All figures of one point: a strategy on a GPU count.
struct Prediction {
  std::string strategy;  // "ddp", or the label the scenario gives
  int gpus = 1;
  int nodes = 1;
  std::int64_t global_batch = 0;
  std::int64_t micro_batch = 0;
  int accumulation = 1;
  std::string precision;
  // One optimizer step: the mean over steps, or over updates for asynchronous workers
  // (docs/numbers.md). A run costs the mean, and all parts and rates refer to it. The median
  // differs from it if steps are random.
  double step_seconds = 0;
  double median_step_seconds = 0;
  Interval step_interval;
  StepError step_error;
  // The first step, which differs from the later ones: in DDP, for example, its buckets do.
  double first_step_seconds = 0;
  double steps = 0;  // optimizer steps in the whole run
  double total_seconds = 0;
  double samples_per_second = 0;
  double tokens_per_second = 0;   // 0 for models without tokens
  double scaling_efficiency = 1;  // samples/s per GPU over that of the smallest GPU count
  StepSplit split;
  std::optional<MeshRecord> mesh;   // where there is more than data parallelism
  std::vector<StageRecord> stages;  // of a pipeline
  double gpu_utilisation = 0;       // device busy / step (nvidia-smi's utilisation)
  double mfu = 0;                   // model FLOPs / (step * GPUs * peak of the precision)
  double flops_per_second = 0;      // of one GPU: model FLOPs / (step * GPUs)
  MemoryUse memory;
  // Present if the job does not fit; all times are then the times with a larger memory.
  std::optional<OutOfMemory> out_of_memory;
  std::vector<LinkTraffic> traffic;
  std::optional<Staleness> staleness;
  std::optional<WorkerSteps> worker_steps;
  std::optional<OverSeeds> over_seeds;           // where several are simulated
  std::optional<Accuracy> accuracy;              // where the scenario asks for it
  std::optional<StragglerCost> stragglers;       // where the scenario has some
  std::optional<RunWithFailures> with_failures;  // where the scenario has `faults`
  double dollars = 0;            // of the whole run; 0 = no price, no dataset, or it does not fit
  std::optional<Energy> energy;  // of the whole run, where the scenario asks for it
  ProvenanceShare provenance;
  std::string engine;         // that carried out the programs: simgrid, loop
  bool extrapolated = false;  // steady state reached and extrapolated
  int simulated_steps = 0;
  int simulated_micro_batches = 0;  // of one micro-batch
  std::string bottleneck;           // one sentence
  std::vector<std::string> notes;
};

// Checks a prediction; one that contradicts itself is a fault of the program and is never shown.
// Returns a sentence that names the violated condition, "" if all hold: figures are finite; no part
// of the step is negative or longer than the step; the parts add up to the step (to 1e-6); the step
// is inside its interval; shares are between 0 and 1; allocated <= reserved <= device memory.
std::string broken_invariant(const Prediction& prediction);

// A point whose simulation failed; other points remain valid.
struct Failure {
  std::string strategy;
  int gpus = 1;
  std::string reason;
};

// The part that all results of one run have in common.
struct RecordHead {
  std::string scenario;  // its name
  std::string file;
  std::string model, platform, precision;
  // The model: trainable parameters; tokens of a sample, or channels, height and width of one.
  std::optional<std::int64_t> parameters, sequence;
  std::optional<std::vector<std::int64_t>> image;
  std::optional<std::string> recipe;  // its name and its settings
  std::uint64_t seed = 0;
  std::vector<std::string> warnings;
};

// The answer to a scenario.
struct ResultRecord : RecordHead {
  std::vector<Prediction> predictions;
  std::vector<Failure> failures;
  std::vector<std::string> findings;  // sentences about all points together
};

}  // namespace lockstep
