// The result of a run: one Prediction per strategy and GPU count. Simulations fill it; renderings,
// reports and questions read it. Plain data in seconds, bytes and dollars, independent of the
// engine. docs/numbers.md defines every number with its formula. fields.hpp declares the names of
// the fields in output; real_run.hpp has the results of real training.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// A 90 % interval, in the unit of its value.
struct Interval {
  double low = 0, high = 0;
};

// Energy and emissions of all GPUs of a run. The lower bound counts full board power while a GPU is
// busy and nothing while it waits; the upper bound counts full board power all the time. Hosts,
// switches and storage are not included.
struct Energy {
  Interval kilowatt_hours;
  std::optional<Interval> carbon_kilograms;  // if the scenario gives the grid's carbon intensity
};

// Seconds of exposed communication, by the axis of the mesh whose message the device waits for. If
// another collective delays that message, the delay counts for the same axis. `data` is gradients
// and parameters, and transfers to hosts and drives.
struct AxisSeconds {
  double tensor = 0, context = 0, expert = 0, pipeline = 0, data = 0;
};
// All members of AxisSeconds, for loops.
inline constexpr std::array axis_parts{&AxisSeconds::tensor, &AxisSeconds::context,
                                       &AxisSeconds::expert, &AxisSeconds::pipeline,
                                       &AxisSeconds::data};

// The parts of one optimizer step on the average rank. Their sum is the step time, up to rounding.
struct StepSplit {
  double data_loading = 0;           // the device waits for input
  double forward = 0;                // device busy
  double backward = 0;               // device busy, recomputation included
  double optimizer = 0;              // device busy
  double copies = 0;                 // bucket copies, casts, clipping: work that training adds
  double exposed_communication = 0;  // device waits for a running transfer
  double host_bound = 0;             // device waits for the host to issue work
  double waiting = 0;   // device waits for another rank (stragglers, server queue, barrier)
  double bubble = 0;    // device waits for another stage of its pipeline
  AxisSeconds exposed;  // adds up to exposed_communication
};
// All parts of a step, for loops. The assertions below fail if a member is missing here.
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

// Relative error of the step by source, each as one sigma of log(truth / prediction). The sources
// are independent (docs/numbers.md, intervals): work of devices and hosts, exposed network time,
// scaling to more GPUs, software of parameter servers, random draws.
struct StepError {
  double work = 0, network = 0, scaling = 0, servers = 0, draws = 0;
};

// The parts of a mean step, in seconds, on a class of ranks that are alike. They add up to the
// step.
struct RankTimes {
  int rank = 0;              // the lowest rank of the class
  int ranks = 1;             // number of ranks in the class
  double own = 0;            // work of the device, its host and its input
  double communicating = 0;  // exposed communication
  double waiting = 0;        // waiting for other ranks or the server
  // Steps that one worker of the class makes in the time of a mean step; 1 if all workers keep the
  // same pace.
  double steps = 1;
};

// Peak memory of one device, and of its node if state is offloaded or checkpoints use host memory,
// in bytes.
struct MemoryUse {
  double allocated = 0;  // peak of live blocks, rounded (PyTorch's max_memory_allocated)
  double reserved = 0;   // peak of segments (max_memory_reserved)
  double device = 0;     // reserved, context and communication buffers (nvidia-smi)
  std::string moment;    // "backward of layer4.2.conv3", "optimizer step"
  int retries = 0;       // times the allocator freed cached segments to satisfy a request
  std::map<std::string, double>
      at_peak;          // bytes by kind at the allocated peak: parameters, activations, ...
  double capacity = 0;  // device memory that training may use; 0 = not known
  // Bytes on the fullest node's host, for all its ranks; 0 = no offload and no checkpoints there.
  double host = 0;
  double host_rounding = 0;            // part of `host` by which pinned memory exceeds its tensors
  double host_capacity = 0;            // of the node's host; 0 = not known, or nothing is offloaded
  double nvme = 0, nvme_capacity = 0;  // the same for the node's NVMe drives
};

// Whether the peak fits into the device's memory. If the capacity is not known (0), everything
// fits; the same rule holds for hosts and drives.
inline bool fits_device(const MemoryUse& memory) {
  return memory.capacity <= 0 || memory.device <= memory.capacity;
}
inline bool fits_host(const MemoryUse& memory) {
  return memory.host_capacity <= 0 || memory.host <= memory.host_capacity;
}
inline bool fits_nvme(const MemoryUse& memory) {
  return memory.nvme_capacity <= 0 || memory.nvme <= memory.nvme_capacity;
}
// Whether the job fits into memory and drives of the node besides its devices.
inline bool fits_node(const MemoryUse& memory) {
  return fits_host(memory) && fits_nvme(memory);
}
inline bool fits(const MemoryUse& memory) {
  return fits_device(memory) && fits_node(memory);
}

// Device bytes that training leaves free. Negative: so many bytes are missing. 0 also if the
// capacity is not known.
inline double free_bytes(const MemoryUse& memory) {
  return memory.capacity > 0 ? memory.capacity - memory.device : 0;
}

// Number of ranks along each axis of a job's mesh.
struct MeshRecord {
  int data = 1, context = 1, tensor = 1, pipeline = 1, expert = 1;
};

// Results for one stage of a pipeline.
struct StageRecord {
  int stage = 0;
  // First and last layer of each part of the model on the stage, such as "wte .. h.5".
  std::vector<std::string> layers;
  StepSplit split;  // of the stage's mean rank; adds up to the step
  MemoryUse memory;
};

// Traffic on one class of links, which are all alike.
struct LinkTraffic {
  std::string link_class;  // for example "NVLink", "PCIe", "NIC"
  double bytes = 0;        // per step and direction, on the busiest link of the class
  double total_bytes = 0;  // per step, on all links of the class
  double busy = 0;         // share of the step in which the busiest link transfers
};

// Staleness of asynchronous updates: the number of updates that a server applied between a worker's
// pull and its push.
struct Staleness {
  double mean = 0;
  double p50 = 0, p99 = 0, max = 0;
  std::map<std::int64_t, std::int64_t> histogram;  // staleness -> number of updates
};

// How the steps divide among asynchronous workers.
struct WorkerSteps {
  std::map<std::int64_t, std::int64_t> histogram;  // steps begun -> number of workers
  double least = 0, most = 0;  // smallest and largest share of one worker; 1 / workers if even
};

// A mean over simulations with different random draws (`simulation: {seeds: N}`, docs/numbers.md).
struct SeedMean {
  double mean = 0;
  Interval interval;  // 90 % interval of the mean, by Student's t
};
// Means for a point that was simulated with several seeds.
struct OverSeeds {
  int seeds = 0;
  SeedMean step;                      // mean step of each seed, in seconds
  std::optional<SeedMean> staleness;  // mean staleness of each seed, in updates
};

// Accuracy at the end of the run and before, over several seeds (docs/accuracy.md).
struct Accuracy {
  // The accuracy at one evaluation, over the seeds.
  struct Moment {
    double seconds = 0, epochs = 0;
    double mean = 0;
    Interval interval;
  };
  int seeds = 0;
  double learning_rate = 0;  // at the beginning, after scaling
  double momentum = 0;
  int diverged = 0;        // seeds whose final loss is not finite
  double last = 0;         // share of the test set, mean of the seeds
  Interval last_interval;  // of the mean
  std::vector<Moment> curve;
  std::optional<double> target;
  // Number of seeds that reached the target, and of these the number that reached it by their first
  // evaluation, so that their time is only an upper bound.
  int reached = 0;
  int reached_before = 0;
  double seconds_to_target = 0;  // mean over the seeds that reached the target
  double dollars_to_target = 0;  // 0 = no price
  // Intervals of the two means; only if every seed reached the target between two evaluations.
  std::optional<Interval> seconds_interval, dollars_interval;
};

// The whole run with failures (docs/faults.md): means over `runs` simulated runs.
struct RunWithFailures {
  int runs = 0;
  int unfinished = 0;  // runs that were abandoned after a hundred times the time without failures
  // Mean numbers per run: failures of anything in use, and failures that stopped the job.
  double failures = 0, interruptions = 0;
  double seconds_between_interruptions = 0;  // 0 = none
  double finish_seconds = 0;
  Interval finish_interval;  // 5th to 95th percentile of the runs
  double finish_error = 0;   // half of the 95 % interval of the mean, over the mean
  double goodput = 0;        // time of the steps / time to finish; 0 = some runs did not finish
  double availability = 0;   // share of the time in which the job trains or writes checkpoints
  // The parts of the time to finish, in seconds: steps whose result stays, steps that failures
  // undid, stops for checkpoints, detection and restart, waiting for nodes.
  double training = 0, lost = 0, checkpoints = 0, down = 0, waiting = 0;
  double evictions = 0;        // slow nodes that were replaced
  double memory_restarts = 0;  // restarts that read the state from the memory of hosts
  double mean_nodes = 0;
  double mean_gpus_away = 0;  // GPUs of nodes that have left or have not joined yet
  // One checkpoint: bytes of the whole state, seconds to write it.
  double checkpoint_bytes = 0, checkpoint_seconds = 0;
  double checkpoint_stall_seconds = 0;   // time for which training stops for one checkpoint
  double checkpoint_period_seconds = 0;  // 0 = none are written
  // Copies in the memory of hosts: seconds between two copies, and seconds until a copy is
  // complete; 0 if there are no copies.
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

// The memory that a job lacks.
struct OutOfMemory {
  double shortfall = 0;                    // bytes over the device's capacity
  double host_shortfall = 0;               // bytes over the host's capacity
  double nvme_shortfall = 0;               // bytes over the NVMe drives' capacity
  std::vector<std::string> suggestions{};  // settings that would fit, each checked by a prediction
};

// Shares of the device-busy and communication seconds by the origin of their costs; they add up to
// 1.
struct ProvenanceShare {
  double measured = 0, interpolated = 0, modelled = 0;
};

// All results for one point, that is, one strategy on one GPU count.
struct Prediction {
  std::string strategy;  // "ddp", or the label the scenario gives
  int gpus = 1;
  int nodes = 1;
  std::int64_t global_batch = 0;
  std::int64_t micro_batch = 0;
  int accumulation = 1;
  std::string precision;
  // One optimizer step: the mean over steps, or over updates with asynchronous workers
  // (docs/numbers.md). All parts and rates refer to the mean, because a run takes the sum of its
  // steps. The median differs from the mean if steps are random.
  double step_seconds = 0;
  double median_step_seconds = 0;
  Interval step_interval;
  StepError step_error;
  // The first step differs from later ones: in DDP, for example, it has other buckets.
  double first_step_seconds = 0;
  double steps = 0;          // optimizer steps in the whole run; 0 = no dataset
  double total_seconds = 0;  // 0 = no dataset
  double samples_per_second = 0;
  double tokens_per_second = 0;   // 0 for models without tokens
  double scaling_efficiency = 1;  // samples/s per GPU over that of the smallest GPU count
  StepSplit split;
  std::optional<MeshRecord> mesh;   // absent with data parallelism only
  std::vector<StageRecord> stages;  // only of a pipeline
  double gpu_utilisation = 0;       // device busy / step (nvidia-smi's utilisation)
  double mfu = 0;                   // model FLOPs / (step * GPUs * peak of the precision)
  double flops_per_second = 0;      // of one GPU: model FLOPs / (step * GPUs)
  MemoryUse memory;
  // Present if the job does not fit; all times then hold for a device with enough memory.
  std::optional<OutOfMemory> out_of_memory;
  std::vector<LinkTraffic> traffic;
  std::optional<Staleness> staleness;
  std::optional<WorkerSteps> worker_steps;
  std::optional<OverSeeds> over_seeds;           // if the point was simulated with several seeds
  std::optional<Accuracy> accuracy;              // if the scenario has `convergence`
  std::optional<StragglerCost> stragglers;       // if the scenario has `stragglers`
  std::optional<RunWithFailures> with_failures;  // if the scenario has `faults`
  double dollars = 0;  // of the whole run; 0 = no price, no dataset, or the job does not fit
  std::optional<Energy> energy;  // of the whole run, if the scenario has `energy`
  ProvenanceShare provenance;
  std::string engine;         // executor of the simulation: simgrid or loop
  bool extrapolated = false;  // the steady state was reached, and later steps were extrapolated
  int simulated_steps = 0;
  int simulated_micro_batches = 0;  // in one step
  std::string bottleneck;           // one sentence
  std::vector<std::string> notes;
};

// Checks a prediction; one that contradicts itself is a defect of the program and is never shown.
// Returns a sentence that names the first violated condition; "" if there is none. Numbers are
// finite and not below their minimum (fields.hpp). The step is positive and inside its interval. No
// part of the step is negative or longer than the step. The parts add up to the step, up to a
// millionth. If the job has a mesh, its axes add up to exposed communication. Busy shares are at
// most 1. Allocated <= reserved <= device memory.
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
  // Trainable parameters of the model; tokens of a sample, or (`image`) its channels, height,
  // width.
  std::optional<std::int64_t> parameters, sequence;
  std::optional<std::vector<std::int64_t>> image;
  std::optional<std::string> recipe;  // its name and the fields that it set
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
