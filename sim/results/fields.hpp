// The only declaration of each field of a result: its name in output, its CSV column, its meaning.
// Visitors derive everything else from it: JSON and CSV, the JSON Schema and its table in the docs,
// the messages of child processes, and the check that every number is finite. core/fields.hpp does
// the same for files that people write. Values here are plain numbers in SI units, and their names
// contain the unit.
//
//   v.field("samples", r.samples, "Samples of one step.", {.column = "samples"});
//   v.column("model", r.model);  // only in CSV
#pragma once

#include <concepts>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>

#include "core/fields.hpp"
#include "results/alternatives.hpp"
#include "results/real_run.hpp"
#include "results/step_parts.hpp"

namespace lockstep {

// Version of the JSON layout. Raise it if a field is removed or changes its meaning.
inline constexpr int result_schema_version = 1;

// Properties of a field.
struct Figure {
  const char* name = "";  // in JSON
  const char* doc = "";
  const char* column = "";    // in CSV; "" = no column
  double min = 0;             // smallest allowed number
  bool none_at_zero = false;  // 0 means absent: JSON leaves the field out
  bool may_be_nan = false;    // NaN is allowed and written as null in JSON
};

// Base class of the visitors of results. A visitor defines visit(figure, value), where `figure` has
// the properties of the field. It may override column(name, value), which only CSV needs.
template <class Visitor>
struct FigureVisitor : FieldVisitor<Visitor, Figure> {
  template <class T>
  void column(const char*, const T&) {}
};

// Accepts both a U to fill and a const U to read.
template <class T, class U>
concept Either = std::same_as<std::remove_const_t<T>, U>;

// Minimum of numbers that may be negative, such as differences.
inline constexpr double no_minimum = -std::numeric_limits<double>::infinity();

// The parts of a step, with the names of step_parts.hpp. Rounding may leave a part slightly below
// 0, so broken_invariant() checks the parts, not the minimum.
template <class Visitor, Either<StepSplit> Split>
void describe(Visitor& v, Split& s) {
  for (const StepPart& part : named_parts) {
    const std::string column = std::string(part.name) + "_s";
    v.field(part.name, s.*part.seconds, part.doc, {.column = column.c_str(), .min = no_minimum});
  }
}

// Exposed communication by axis, in seconds. Rounding may leave a value slightly below 0.
template <class Visitor, Either<AxisSeconds> Seconds>
void describe(Visitor& v, Seconds& s) {
  const Figure any{.min = no_minimum};
  v.field("tensor", s.tensor, "Exchanges of GPUs that share every layer.", any);
  v.field("context", s.context, "Keys and values of GPUs that share every sequence.", any);
  v.field("expert", s.expert, "Tokens on their way to experts and back.", any);
  v.field("pipeline", s.pipeline, "Activations and their gradients between stages.", any);
  v.field("data", s.data, "Gradients, parameters, and copies to and from hosts and drives.", any);
}

// Relative errors, one sigma each. Only in JSON, because CSV has the interval.
template <class Visitor, Either<StepError> Error>
void describe(Visitor& v, Error& e) {
  v.field("work", e.work, "Error of the times of devices and hosts.");
  v.field("network", e.network, "Error of the exposed communication.");
  v.field("scaling", e.scaling, "Error that grows with each doubling of the number of GPUs.");
  v.field("servers", e.servers, "Error of the software of parameter servers.");
  v.field("draws", e.draws, "Error of the mean over random draws.");
}

// Times of a class of ranks, that is, of ranks with equal times.
template <class Visitor, Either<RankTimes> Times>
void describe(Visitor& v, Times& t) {
  v.field("rank", t.rank, "First rank of a group of ranks with equal times.");
  v.field("ranks", t.ranks, "Ranks of the group.", {.min = 1});
  v.field("steps", t.steps,
          "Steps of this rank in the time of a mean step; 1 where all ranks keep step.");
  v.field("own_seconds", t.own, "Time for the device's work, its host and its input.",
          {.min = no_minimum});
  v.field("communicating_seconds", t.communicating, "Device idle while a transfer runs.",
          {.min = no_minimum});
  v.field("waiting_seconds", t.waiting, "Device idle while other ranks or servers are late.",
          {.min = no_minimum});
}

// Differences from the simulation without stragglers. A difference may be negative, so it has no
// minimum.
template <class Visitor, Either<StragglerCost> Cost>
void describe(Visitor& v, Cost& c) {
  v.field("step_without_seconds", c.step_without, "The mean step without `stragglers`.",
          {.column = "step_without_stragglers_s"});
  v.field("step_more_seconds", c.step_more, "Additional time of the mean step with `stragglers`.",
          {.min = no_minimum});
  v.field("total_more_seconds", c.total_more, "Additional time of the whole run; 0 = no dataset.",
          {.column = "stragglers_s", .min = no_minimum});
  v.field("dollars_more", c.dollars_more, "Price of the additional time; 0 = no price.",
          {.column = "stragglers_dollars", .min = no_minimum});
  v.field("ranks", c.ranks, "Parts of a mean step on each rank; equal ranks are one entry.");
}

// Memory at its peak. Fields of hosts and drives appear only if something is offloaded.
template <class Visitor, Either<MemoryUse> Memory>
void describe(Visitor& v, Memory& m) {
  v.field("allocated_bytes", m.allocated, "Peak of live tensors (max_memory_allocated).",
          {.column = "allocated_bytes"});
  v.field("reserved_bytes", m.reserved, "Peak of the allocator's segments (max_memory_reserved).",
          {.column = "reserved_bytes"});
  v.field("device_bytes", m.device, "Reserved, context and communication buffers (nvidia-smi).",
          {.column = "device_bytes"});
  v.field("usable_bytes", m.capacity, "Device memory that training can use.");
  v.field("retries", m.retries,
          "Times the allocator returned cached segments to the driver to satisfy a request.");
  v.field("peak_at", m.moment, "Moment of the allocated peak.");
  v.field("at_peak_bytes", m.at_peak, "Allocated bytes at the moment of the peak, by kind.");
  v.field("host_bytes", m.host, "Bytes that the ranks of one node offload to its host.",
          {.column = "host_bytes", .none_at_zero = true});
  v.field("host_rounding_bytes", m.host_rounding,
          "Part of host_bytes by which pinned blocks exceed their tensors.",
          {.none_at_zero = true});
  v.field("host_usable_bytes", m.host_capacity, "Host memory of a node, if the job offloads to it.",
          {.none_at_zero = true});
  v.field("nvme_bytes", m.nvme, "Bytes that the ranks of one node offload to its NVMe drives.",
          {.none_at_zero = true});
  v.field("nvme_usable_bytes", m.nvme_capacity, "Capacity of the NVMe drives of a node.",
          {.none_at_zero = true});
}

// Ranks along each axis. The product of all but `expert` is the number of GPUs, because experts
// share the GPUs of the other axes.
template <class Visitor, Either<MeshRecord> M>
void describe(Visitor& v, M& m) {
  v.field("data", m.data, "Replicas of the model.", {.min = 1});
  v.field("context", m.context, "GPUs that share every sequence.", {.min = 1});
  v.field("tensor", m.tensor, "GPUs that share every layer.", {.min = 1});
  v.field("pipeline", m.pipeline, "Stages.", {.min = 1});
  v.field("expert", m.expert, "GPUs that share the experts of a layer.", {.min = 1});
}

// A stage has the same parts of a step and the same memory fields as the whole job.
template <class Visitor, Either<StageRecord> S>
void describe(Visitor& v, S& s) {
  v.field("stage", s.stage, "Index in the pipeline, from 0.");
  v.field("layers", s.layers, "First and last layer of each part of the model on the stage.");
  v.field("split_seconds", s.split, "Parts of the stage's step; their sum is the step.");
  v.field("exposed_seconds", s.split.exposed,
          "Exposed communication of the stage by axis of the mesh.");
  v.field("memory", s.memory, "Peak memory of one GPU of the stage.");
}

// Traffic of one class of links. Only in JSON, because a row of CSV cannot hold a list.
template <class Visitor, Either<LinkTraffic> Traffic>
void describe(Visitor& v, Traffic& t) {
  v.field("links", t.link_class, "Class of the links: NVLink, PCIe, NIC, host memory, ...");
  v.field("busiest_link_bytes", t.bytes,
          "Bytes per step, in one direction, on the busiest link of the class.");
  v.field("total_bytes", t.total_bytes, "Bytes per step on all links of the class.");
  v.field("busy_fraction", t.busy, "Share of the step in which the busiest link transfers.");
}

template <class Visitor, Either<Staleness> S>
void describe(Visitor& v, S& s) {
  v.field("mean", s.mean, "Updates applied between a worker's pull and its push.",
          {.column = "staleness_mean"});
  v.field("p50", s.p50, "Median.");
  v.field("p99", s.p99, "99th percentile.");
  v.field("max", s.max, "Maximum.");
  v.field("histogram", s.histogram, "Number of updates by staleness.");
}

template <class Visitor, Either<WorkerSteps> Steps>
void describe(Visitor& v, Steps& w) {
  v.field("least_share", w.least, "Smallest share of one worker in all steps.",
          {.column = "worker_share_least"});
  v.field("most_share", w.most, "Largest share of one worker in all steps.",
          {.column = "worker_share_most"});
  v.field("histogram", w.histogram, "Number of workers by the number of steps that they began.");
}

template <class Visitor, Either<SeedMean> F>
void describe(Visitor& v, F& f) {
  v.field("mean", f.mean, "Mean of the means of the seeds.");
  v.field("interval", f.interval, "90 % interval of that mean.", {.min = no_minimum});
}

template <class Visitor, Either<OverSeeds> O>
void describe(Visitor& v, O& o) {
  v.field("seeds", o.seeds, "Number of simulations.");
  v.field("step_seconds", o.step, "The mean step.");
  v.field("staleness", o.staleness, "The mean staleness, where there is one.");
}

template <class Visitor, Either<Accuracy::Moment> Moment>
void describe(Visitor& v, Moment& m) {
  v.field("seconds", m.seconds, "Simulated time since the start of the run.");
  v.field("epochs", m.epochs, "Passes over the data by all workers together.");
  v.field("mean", m.mean, "Accuracy on the test set, mean of the seeds.");
  v.field("interval", m.interval, "90 % interval of that mean.", {.min = no_minimum});
}

// Accuracy of trained points. Fields of a target appear only if the scenario has one, and times and
// prices only if a seed reached it.
template <class Visitor, Either<Accuracy> A>
void describe(Visitor& v, A& a) {
  v.field("seeds", a.seeds, "Number of trainings.");
  v.field("learning_rate", a.learning_rate,
          "Initial learning rate with its scaling; the best one if tuned.");
  v.field("momentum", a.momentum, "Momentum; the best one if tuned.");
  v.field("diverged", a.diverged, "Trainings that ended with an infinite or undefined loss.");
  v.field("mean", a.last, "Accuracy on the test set at the end, mean of the seeds.");
  v.field("interval", a.last_interval, "90 % interval of that mean.", {.min = no_minimum});
  v.field("curve", a.curve, "Accuracy at each evaluation of the run.");
  v.field("target", a.target, "Target accuracy of the scenario.");
  const auto where = [](bool known, const auto& value) {
    return known ? std::optional(value) : std::nullopt;
  };
  const bool some = a.target && a.reached > 0;
  v.field("reached", where(a.target.has_value(), a.reached), "Seeds that reached the target.");
  v.field(
      "reached_before_first_evaluation", where(some, a.reached_before),
      "Seeds that reached the target by the first evaluation, so that its time is an upper bound.");
  v.field("seconds_to_target", where(some, a.seconds_to_target),
          "Mean time to the target of the seeds that reached it.");
  v.field(
      "seconds_to_target_interval", a.seconds_interval,
      "90 % interval of that mean, if every seed reached the target after its first evaluation.");
  v.field("dollars_to_target", where(some, a.dollars_to_target),
          "Mean cost to the target of the seeds that reached it; 0 = no price.");
  v.field(
      "dollars_to_target_interval", a.dollars_interval,
      "90 % interval of that mean, if every seed reached the target after its first evaluation.");
}

// The run with failures. The five parts of its time (training, lost, checkpoints, down, waiting)
// add up to finish_seconds.
template <class Visitor, Either<RunWithFailures> Run>
void describe(Visitor& v, Run& r) {
  v.field("runs", r.runs,
          "Simulated runs, each with other random failures; all figures are means over the runs.");
  v.field("unfinished", r.unfinished,
          "Runs that were abandoned after 100 times the time without failures.");
  v.field("failures", r.failures, "Failures of components in use.", {.column = "failures"});
  v.field("interruptions", r.interruptions,
          "Failures that stopped the job or its restart, also briefly.",
          {.column = "interruptions"});
  v.field("seconds_between_interruptions", r.seconds_between_interruptions,
          "Time to finish divided by the number of interruptions.", {.none_at_zero = true});
  v.field("finish_seconds", r.finish_seconds,
          "Time of the whole run with failures and checkpoints.", {.column = "finish_s"});
  v.field("finish_interval_seconds", r.finish_interval, "5th to 95th percentile of the runs.");
  v.field("finish_error", r.finish_error, "Half of the 95 % interval of the mean, over the mean.");
  v.column("finish_low_s", r.finish_interval.low);
  v.column("finish_high_s", r.finish_interval.high);
  v.field("goodput", r.goodput, "Time of the steps alone, on all nodes, over the time to finish.",
          {.column = "goodput", .none_at_zero = true});
  v.field("availability", r.availability,
          "Share of the time in which the job trains or writes checkpoints.",
          {.column = "availability"});
  v.field("training_seconds", r.training, "Time for steps whose result is kept.",
          {.column = "training_s"});
  v.field("lost_seconds", r.lost, "Time for steps that failures undid.", {.column = "lost_s"});
  v.field("checkpoints_seconds", r.checkpoints, "Time in which training waits for checkpoints.",
          {.column = "checkpoints_s"});
  v.field("down_seconds", r.down, "Time for detection, restart and reading a checkpoint.",
          {.column = "down_s"});
  v.field("waiting_seconds", r.waiting, "Time in which the job waits for nodes.",
          {.column = "waiting_for_nodes_s"});
  v.field("evictions", r.evictions, "Slow nodes that were replaced.");
  v.field("memory_restarts", r.memory_restarts,
          "Restarts that read the state from the memory of hosts.");
  v.field("mean_nodes", r.mean_nodes, "Mean number of nodes that take part.");
  v.field("mean_gpus_away", r.mean_gpus_away,
          "GPUs of nodes that have left or not yet joined; their time costs nothing.");
  v.field("checkpoint_bytes", r.checkpoint_bytes, "Size of one checkpoint.");
  v.field("checkpoint_seconds", r.checkpoint_seconds, "Time to write one checkpoint.");
  v.field("checkpoint_stall_seconds", r.checkpoint_stall_seconds,
          "Time that training waits for one checkpoint.");
  v.field("memory_copy_seconds", r.memory_copy_seconds,
          "Time until a copy in the memory of hosts is complete.", {.none_at_zero = true});
  v.field("memory_period_seconds", r.memory_period_seconds,
          "Training time between two; whole steps.", {.none_at_zero = true});
  v.field("checkpoint_period_seconds", r.checkpoint_period_seconds,
          "Training time between two; whole steps.",
          {.column = "checkpoint_period_s", .none_at_zero = true});
  v.field("dollars", r.dollars, "Price of the whole run, spare nodes included.",
          {.column = "finish_dollars", .none_at_zero = true});
}

template <class Visitor, Either<OutOfMemory> Misfit>
void describe(Visitor& v, Misfit& o) {
  v.field("shortfall_bytes", o.shortfall, "Bytes that the device lacks.");
  v.field("host_shortfall_bytes", o.host_shortfall, "Bytes that the node's host lacks.");
  v.field("nvme_shortfall_bytes", o.nvme_shortfall, "Bytes that the node's NVMe drives lack.",
          {.none_at_zero = true});
  v.field("would_fit", o.suggestions,
          "Changes that make the job fit, each checked by a prediction.");
}

template <class Visitor, Either<ProvenanceShare> Share>
void describe(Visitor& v, Share& p) {
  v.field("measured", p.measured, "Share of device-busy and communication seconds.");
  v.field("interpolated", p.interpolated, "Share that lies between measured sizes.");
  v.field("modelled", p.modelled, "Share from the models of the device and the network.");
}

template <class Visitor, Either<Energy> E>
void describe(Visitor& v, E& e) {
  v.field("kilowatt_hours", e.kilowatt_hours,
          "At full board power: while busy (low), all the time (high).");
  v.field("carbon_kilograms", e.carbon_kilograms, "CO2, where the scenario has carbon_intensity.");
}

// The mesh: one field in JSON, always five columns in CSV. Without a mesh the columns show data
// parallelism on all GPUs.
template <class Visitor, Either<Prediction> P>
void describe_mesh(Visitor& v, P& p) {
  v.field("mesh", p.mesh, "Sizes of the axes, if there is more than data parallelism.");
  v.field("exposed_seconds", p.mesh ? std::optional(p.split.exposed) : std::nullopt,
          "Exposed communication by axis of the mesh; adds up to that of the step.");
  const MeshRecord mesh = p.mesh.value_or(MeshRecord{.data = p.gpus});
  v.column("dp", mesh.data);
  v.column("cp", mesh.context);
  v.column("tp", mesh.tensor);
  v.column("pp", mesh.pipeline);
  v.column("ep", mesh.expert);
}

// All fields of a prediction, in the order of output. Numbers that follow from others (rates per
// GPU, free bytes) are computed here. An interval is one field in JSON and two columns in CSV.
template <class Visitor, Either<Prediction> P>
void describe(Visitor& v, P& p) {
  v.field("strategy", p.strategy, "Name or label in the scenario.", {.column = "strategy"});
  v.field("gpus", p.gpus, "All GPUs of the run.", {.column = "gpus", .min = 1});
  v.field("nodes", p.nodes, "Nodes that hold these GPUs.", {.column = "nodes", .min = 1});
  v.field("global_batch", p.global_batch, "Samples of one optimizer step.",
          {.column = "global_batch"});
  v.field("micro_batch", p.micro_batch, "Samples of one forward and backward on one GPU.",
          {.column = "micro_batch"});
  v.field("gradient_accumulation", p.accumulation, "Micro-batches of one optimizer step.",
          {.column = "gradient_accumulation", .min = 1});
  v.field("precision", p.precision, "Numeric mode of compute.");
  v.field("step_seconds", p.step_seconds, "One optimizer step, mean.", {.column = "step_s"});
  v.field("median_step_seconds", p.median_step_seconds, "Median.", {.column = "median_step_s"});
  v.field("step_interval_seconds", p.step_interval, "90 % interval of the step.");
  v.field("step_error", p.step_error, "Standard deviation of log(truth / prediction), by cause.");
  v.column("step_low_s", p.step_interval.low);
  v.column("step_high_s", p.step_interval.high);
  v.field("first_step_seconds", p.first_step_seconds, "The first step, which differs.");
  v.field("steps", p.steps, "Optimizer steps of the whole run; 0 = no dataset.");
  v.field("total_seconds", p.total_seconds, "The whole run; 0 = no dataset.",
          {.column = "total_s"});
  v.field("samples_per_second", p.samples_per_second, "Samples per second of all GPUs.",
          {.column = "samples_per_s"});
  v.field("tokens_per_second", p.tokens_per_second,
          "Tokens per second of all GPUs, for models with tokens.", {.none_at_zero = true});
  v.column("tokens_per_s", p.tokens_per_second);
  const double samples_per_gpu = p.samples_per_second / p.gpus;
  const double tokens_per_gpu = p.tokens_per_second / p.gpus;
  v.field("samples_per_second_per_gpu", samples_per_gpu, "Samples per second of one GPU.",
          {.column = "samples_per_s_per_gpu"});
  v.field("tokens_per_second_per_gpu", tokens_per_gpu,
          "Tokens per second of one GPU, for models with tokens.", {.none_at_zero = true});
  v.column("tokens_per_s_per_gpu", tokens_per_gpu);
  v.field("scaling_efficiency", p.scaling_efficiency,
          "Samples per second and GPU, relative to the smallest number of GPUs.",
          {.column = "scaling_efficiency"});
  v.field("split_seconds", p.split, "Parts of the step; their sum is the step.");
  describe_mesh(v, p);
  v.field("stages", p.stages, "Stages of a pipeline.");
  v.field("gpu_utilisation", p.gpu_utilisation, "Share of the step in which the device is busy.",
          {.column = "gpu_utilisation"});
  v.field("mfu", p.mfu, "Model FLOPs over the peak of the precision.", {.column = "mfu"});
  v.field("flops_per_second_per_gpu", p.flops_per_second,
          "Model FLOPs a second, as MFU counts them.", {.column = "flops_per_s_per_gpu"});
  v.field("memory", p.memory, "Peak memory of one GPU.");
  const double free = free_bytes(p.memory);
  v.field("free_bytes", free, "Usable memory that remains free; negative = memory that is missing.",
          {.column = "free_bytes", .min = no_minimum});
  const bool fits = !p.out_of_memory;
  v.field("fits", fits, "Whether the job fits in memory; times hold as if it did.",
          {.column = "fits"});
  v.column("memory_retries", p.memory.retries);
  v.field("out_of_memory", p.out_of_memory, "Present if the job does not fit.");
  v.field("traffic", p.traffic, "Traffic of each class of links.");
  v.field("staleness", p.staleness, "Staleness of asynchronous strategies.");
  v.field("over_seeds", p.over_seeds,
          "Results over other random draws, if several seeds are simulated.");
  v.field("accuracy", p.accuracy, "Present if the scenario has `convergence`.");
  v.field("worker_steps", p.worker_steps, "Present if workers need not keep step.");
  v.field("dollars", p.dollars, "Price of the whole run.",
          {.column = "dollars", .none_at_zero = true});
  v.field("energy", p.energy,
          "Energy of the GPUs over the whole run, if the scenario has `energy`.");
  v.field("stragglers", p.stragglers, "Cost of stragglers, if the scenario has `stragglers`.");
  v.field("with_failures", p.with_failures,
          "The whole run with failures, if the scenario has `faults`.");
  v.field("provenance", p.provenance, "Shares of measured, interpolated and modelled costs.");
  v.field("simulated_steps", p.simulated_steps, "Steps that were simulated one by one.");
  v.field("simulated_micro_batches", p.simulated_micro_batches,
          "Micro-batches of a step that were simulated one by one; the others take as long.");
  v.field("engine", p.engine, "Executor of the simulation: simgrid or loop.");
  v.field("extrapolated", p.extrapolated,
          "The steady state was reached; later steps are extrapolated.");
  v.field("bottleneck", p.bottleneck, "Bottleneck of the step, one sentence.");
  v.field("notes", p.notes, "Remarks about this point.");
}

template <class Visitor, Either<Failure> F>
void describe(Visitor& v, F& f) {
  v.field("strategy", f.strategy, "Name or label in the scenario.");
  v.field("gpus", f.gpus, "All GPUs of the run.", {.min = 1});
  v.field("reason", f.reason, "Why there is no prediction.");
}

// Phases of a real step, in seconds, by the events at which they end on a rank.
template <class Visitor, Either<PhaseSeconds> Phases>
void describe(Visitor& v, Phases& p) {
  v.field("forward", p.forward, "Time until the loss is computed.");
  v.field("backward", p.backward, "Time from then until the gradients are computed.");
  v.field("optimizer", p.optimizer, "Time from then until the parameters are updated.");
}

template <class Visitor, Either<PeakMemory> Memory>
void describe(Visitor& v, Memory& m) {
  v.field("allocated_bytes", m.allocated, "Peak of live tensors.", {.column = "allocated_bytes"});
  v.field("reserved_bytes", m.reserved, "Peak of the allocator's segments, on GPUs.",
          {.column = "reserved_bytes", .none_at_zero = true});
}

template <class Visitor, Either<MeasuredStaleness> S>
void describe(Visitor& v, S& s) {
  using Base = std::conditional_t<std::is_const_v<S>, const Staleness, Staleness>;
  describe(v, static_cast<Base&>(s));
  v.field("each_update", s.each_update,
          "Staleness of every update that the server applied, in order.");
}

// A real run uses the column of a prediction for every value that both have.
template <class Visitor, Either<RealRun> Run>
void describe(Visitor& v, Run& r) {
  v.field("strategy", r.strategy, "As --strategy names it.", {.column = "strategy"});
  v.field("ranks", r.ranks, "Processes that train.", {.column = "gpus", .min = 1});
  v.field("global_batch", r.global_batch, "Samples of one optimizer step.",
          {.column = "global_batch"});
  v.field("micro_batch", r.micro_batch, "Samples of one forward and backward of a rank.",
          {.column = "micro_batch"});
  const int accumulation = 1;
  v.column("gradient_accumulation", accumulation);
  v.field("precision", r.precision, "Numeric mode of compute.");
  v.field("step_seconds", r.step_seconds, "Median of the steps; asynchronous: mean.",
          {.column = "step_s"});
  v.field("step_interval_seconds", r.step_interval, "5th to 95th percentile of the steps.");
  v.column("step_low_s", r.step_interval.low);
  v.column("step_high_s", r.step_interval.high);
  v.field("samples_per_second", r.samples_per_second, "Samples per second of all ranks.",
          {.column = "samples_per_s"});
  v.field("each_step_seconds", r.each_step_seconds, "Every measured step, in order.");
  v.field("phase_seconds", r.phases,
          "A rank's step by its clock, communication and waiting included.");
  v.field("rank_compute_seconds", r.rank_compute_seconds,
          "Workers of a server on CPUs, by rank: CPU time of a step's forward and backward.");
  v.field("memory", r.memory, "Peaks of the rank that needs most.");
  v.field("each_loss", r.losses, "Loss of every step, mean of the ranks.",
          {.min = no_minimum, .may_be_nan = true});
  v.field("test_accuracy", r.test_accuracy, "Accuracy of the trained model on the test set.");
  v.field("staleness", r.staleness, "Staleness under parameter servers.");
  v.field("notes", r.notes, "Remarks about this run.");
}

// The head, which begins with the versions of the layout and of the program.
template <class Visitor, Either<RecordHead> Head>
void describe(Visitor& v, Head& h) {
  const int schema_version = result_schema_version;
  const std::string program = "lockstep", program_version = LOCKSTEP_VERSION;
  v.field("schema_version", schema_version,
          "Raised when a field changes its meaning or goes away.");
  v.field("program", program, "lockstep");
  v.field("program_version", program_version, "Version of the program that wrote the file.");
  v.field("scenario", h.scenario, "Name of the scenario.");
  v.field("model", h.model, "Name of the model.");
  v.field("parameters", h.parameters, "Trainable parameters of the model.");
  v.field("sequence", h.sequence, "Tokens of a sample; models with tokens only.");
  v.field("image", h.image, "Channels, height and width of a sample; models of images only.");
  v.field("platform", h.platform, "Title of the platform.");
  v.field("precision", h.precision, "Numeric mode that the scenario asks for.");
  v.field("recipe", h.recipe, "Name of the scenario's recipe, and the fields that the recipe set.");
  v.field("seed", h.seed, "Seed of all random draws.");
  v.field("warnings", h.warnings, "Remarks about all points.");
}

template <class Visitor, Either<ResultRecord> Record>
void describe(Visitor& v, Record& r) {
  describe(v, static_cast<const RecordHead&>(r));
  v.field("predictions", r.predictions, "One per strategy and GPU count.");
  v.field("failures", r.failures, "Points whose simulation did not come to an end.");
}

template <class Visitor, Either<Chosen> Choice>
void describe(Visitor& v, Choice& c) {
  v.field("field", c.field, "Dotted name of the field; scenario = name of the file.");
  v.field("value", c.value, "Value as the file has it.");
}

template <class Visitor, Either<AlternativeResult> Result>
void describe(Visitor& v, Result& r) {
  v.field("chosen", r.chosen, "Values that this alternative has for the fields with lists.");
  v.field("result", r.record, "Result as of a scenario without lists.");
}

template <class Visitor, Either<AlternativeRow> Row>
void describe(Visitor& v, Row& r) {
  v.field("alternative", r.alternative, "Index in alternatives.");
  v.field("prediction", r.prediction, "Index in the predictions of that alternative.");
}

// The answer to a question with alternatives: all their records, and the order of the common table.
template <class Visitor, Either<AlternativesRecord> Record>
void describe(Visitor& v, Record& r) {
  v.field("alternatives", r.alternatives, "One per combination of the listed values.");
  v.field("order", r.order, "All predictions in the requested order.");
}

template <class Visitor, Either<RealRecord> Record>
void describe(Visitor& v, Record& r) {
  describe(v, static_cast<const RecordHead&>(r));
  v.field("runs", r.runs, "Real training; every figure was measured.");
}

}  // namespace lockstep
