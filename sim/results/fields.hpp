// The ONE declaration of each field of a result: its name in output, its CSV column, its meaning.
// Visitors derive everything else from it: JSON and CSV, the JSON Schema and its table in the docs,
// the messages of child processes, the check that every figure is a number. core/fields.hpp does
// the same for files that people write; figures here are plain numbers in SI units, and their names
// carry the unit.
//
//   v.field("samples", r.samples, "Samples of one step.", {.column = "samples"});
//   v.column("model", r.model);  // of CSV alone
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

// Version of the JSON layout; must be raised when a field changes its meaning or is removed.
inline constexpr int result_schema_version = 1;

// Properties of a field.
struct Figure {
  const char* name = "";  // in JSON
  const char* doc = "";
  const char* column = "";    // in CSV; "" = no column
  double min = 0;             // of numbers, inclusive
  bool none_at_zero = false;  // 0 means absent: the field is left out
  bool may_be_nan = false;    // NaN is allowed, and null in JSON
};

// Base class of the visitors of results. A visitor defines visit(figure, value); it may override
// column(name, value), which only CSV needs.
template <class Visitor>
struct FigureVisitor : FieldVisitor<Visitor, Figure> {
  template <class T>
  void column(const char*, const T&) {}
};

// A value to read or to fill.
template <class T, class U>
concept Either = std::same_as<std::remove_const_t<T>, U>;

// For differences and intervals, which may be negative.
inline constexpr double no_minimum = -std::numeric_limits<double>::infinity();

// The parts of a step, under the names of step_parts.hpp. Rounding may leave a part slightly below
// 0; broken_invariant() checks it.
template <class Visitor, Either<StepSplit> Split>
void describe(Visitor& v, Split& s) {
  for (const StepPart& part : named_parts) {
    const std::string column = std::string(part.name) + "_s";
    v.field(part.name, s.*part.seconds, part.doc, {.column = column.c_str(), .min = no_minimum});
  }
}

// Exposed communication by axis, seconds. Rounding may leave a value slightly below 0.
template <class Visitor, Either<AxisSeconds> Seconds>
void describe(Visitor& v, Seconds& s) {
  const Figure any{.min = no_minimum};
  v.field("tensor", s.tensor, "Exchanges of GPUs that share every layer.", any);
  v.field("context", s.context, "Keys and values of GPUs that share every sequence.", any);
  v.field("expert", s.expert, "Tokens on their way to experts and back.", any);
  v.field("pipeline", s.pipeline, "Activations and their gradients between stages.", any);
  v.field("data", s.data, "Gradients and parameters, and what goes to hosts and drives.", any);
}

// Relative errors, one sigma each. JSON only: CSV has the interval.
template <class Visitor, Either<StepError> Error>
void describe(Visitor& v, Error& e) {
  v.field("work", e.work, "Of what devices and hosts take.");
  v.field("network", e.network, "Of the communication that the step waits for.");
  v.field("scaling", e.scaling, "Of what is lost with every doubling of the GPUs.");
  v.field("servers", e.servers, "Of what the software of parameter servers costs.");
  v.field("draws", e.draws, "Of the random draws.");
}

// Times of a class of ranks.
template <class Visitor, Either<RankTimes> Times>
void describe(Visitor& v, Times& t) {
  v.field("rank", t.rank, "The first of them.");
  v.field("ranks", t.ranks, "How many they are.", {.min = 1});
  v.field("steps", t.steps, "Of its own in the time of a mean step; 1 where all keep step.");
  v.field("own_seconds", t.own, "The device's work, its host and its input.", {.min = no_minimum});
  v.field("communicating_seconds", t.communicating, "Standing still for a running transfer.",
          {.min = no_minimum});
  v.field("waiting_seconds", t.waiting, "Standing still for other ranks or servers.",
          {.min = no_minimum});
}

// Differences to the simulation without stragglers. A difference may be negative, so it has no
// minimum.
template <class Visitor, Either<StragglerCost> Cost>
void describe(Visitor& v, Cost& c) {
  v.field("step_without_seconds", c.step_without, "The mean step without `stragglers`.",
          {.column = "step_without_stragglers_s"});
  v.field("step_more_seconds", c.step_more, "What the mean step takes longer with them.",
          {.min = no_minimum});
  v.field("total_more_seconds", c.total_more, "The same for the whole run; 0 = no dataset.",
          {.column = "stragglers_s", .min = no_minimum});
  v.field("dollars_more", c.dollars_more, "Price of that; 0 = no price.",
          {.column = "stragglers_dollars", .min = no_minimum});
  v.field("ranks", c.ranks, "Where a mean step goes on each; those that are alike are one.");
}

// Fields of hosts and drives appear only if something is offloaded.
template <class Visitor, Either<MemoryUse> Memory>
void describe(Visitor& v, Memory& m) {
  v.field("allocated_bytes", m.allocated, "Peak of live tensors (max_memory_allocated).",
          {.column = "allocated_bytes"});
  v.field("reserved_bytes", m.reserved, "Peak of the allocator's segments (max_memory_reserved).",
          {.column = "reserved_bytes"});
  v.field("device_bytes", m.device, "Reserved, context and communication buffers (nvidia-smi).",
          {.column = "device_bytes"});
  v.field("usable_bytes", m.capacity, "What the device offers to training.");
  v.field("retries", m.retries, "Times the allocator gave cached segments back to go on.");
  v.field("peak_at", m.moment, "Moment of the allocated peak.");
  v.field("at_peak_bytes", m.at_peak, "Allocated at that moment, by kind.");
  v.field("host_bytes", m.host, "What one node's ranks offload to its host.",
          {.column = "host_bytes", .none_at_zero = true});
  v.field("host_rounding_bytes", m.host_rounding,
          "The part of it by which pinned memory exceeds its tensors.", {.none_at_zero = true});
  v.field("host_usable_bytes", m.host_capacity,
          "Memory of that host, where something is offloaded.", {.none_at_zero = true});
  v.field("nvme_bytes", m.nvme, "Offloaded to one node's NVMe drives by its ranks.",
          {.none_at_zero = true});
  v.field("nvme_usable_bytes", m.nvme_capacity, "Capacity of those drives.",
          {.none_at_zero = true});
}

// Ranks along each axis; their product without `expert` is the number of GPUs, since experts share
// the GPUs of the other axes.
template <class Visitor, Either<MeshRecord> M>
void describe(Visitor& v, M& m) {
  v.field("data", m.data, "Replicas of the model.", {.min = 1});
  v.field("context", m.context, "GPUs that share every sequence.", {.min = 1});
  v.field("tensor", m.tensor, "GPUs that share every layer.", {.min = 1});
  v.field("pipeline", m.pipeline, "Stages.", {.min = 1});
  v.field("expert", m.expert, "GPUs that share the experts of a layer.", {.min = 1});
}

// A stage has the same parts of a step and the same memory figures as the whole job.
template <class Visitor, Either<StageRecord> S>
void describe(Visitor& v, S& s) {
  v.field("stage", s.stage, "Its place in the pipeline, from 0 on.");
  v.field("layers", s.layers, "First and last layer of each part of the model on it.");
  v.field("split_seconds", s.split, "Where its step goes; the parts add up to it.");
  v.field("exposed_seconds", s.split.exposed, "Its exposed communication by axis of the mesh.");
  v.field("memory", s.memory, "Peak memory of one of its GPUs.");
}

// JSON only: a row of CSV has no place for a list.
template <class Visitor, Either<LinkTraffic> Traffic>
void describe(Visitor& v, Traffic& t) {
  v.field("links", t.link_class, "Class of the links: NVLink, PCIe, NIC, host memory, ...");
  v.field("busiest_link_bytes", t.bytes, "Per step, one way, on the busiest link of the class.");
  v.field("total_bytes", t.total_bytes, "Per step, all links of the class.");
  v.field("busy_fraction", t.busy, "Share of the step that the busiest link is transferring.");
}

template <class Visitor, Either<Staleness> S>
void describe(Visitor& v, S& s) {
  v.field("mean", s.mean, "Updates applied between a worker's pull and its push.",
          {.column = "staleness_mean"});
  v.field("p50", s.p50, "Median.");
  v.field("p99", s.p99, "99th percentile.");
  v.field("max", s.max, "Largest.");
  v.field("histogram", s.histogram, "Staleness: number of updates.");
}

template <class Visitor, Either<WorkerSteps> Steps>
void describe(Visitor& v, Steps& w) {
  v.field("least_share", w.least, "Smallest share of one worker in all steps.",
          {.column = "worker_share_least"});
  v.field("most_share", w.most, "Largest share of one worker in all steps.",
          {.column = "worker_share_most"});
  v.field("histogram", w.histogram, "Steps begun: number of workers.");
}

template <class Visitor, Either<SeedMean> F>
void describe(Visitor& v, F& f) {
  v.field("mean", f.mean, "Of the seeds' means.");
  v.field("interval", f.interval, "90 % interval of it.", {.min = no_minimum});
}

template <class Visitor, Either<OverSeeds> O>
void describe(Visitor& v, O& o) {
  v.field("seeds", o.seeds, "Simulations.");
  v.field("step_seconds", o.step, "The mean step.");
  v.field("staleness", o.staleness, "The mean staleness, where there is one.");
}

template <class Visitor, Either<Accuracy::Moment> Moment>
void describe(Visitor& v, Moment& m) {
  v.field("seconds", m.seconds, "Of simulated time.");
  v.field("epochs", m.epochs, "Of all workers together.");
  v.field("mean", m.mean, "Share of the test set, mean of the seeds.");
  v.field("interval", m.interval, "90 % interval of that mean.", {.min = no_minimum});
}

// Figures of a target appear only if the scenario has one and a seed reached it.
template <class Visitor, Either<Accuracy> A>
void describe(Visitor& v, A& a) {
  v.field("seeds", a.seeds, "Trainings.");
  v.field("learning_rate", a.learning_rate,
          "At the beginning, scaling applied; the best one where tuned.");
  v.field("momentum", a.momentum, "The best one where tuned.");
  v.field("diverged", a.diverged, "Of them, how many ended with a loss that is no number.");
  v.field("mean", a.last, "Share of the test set in the end, mean of the seeds.");
  v.field("interval", a.last_interval, "90 % interval of that mean.", {.min = no_minimum});
  v.field("curve", a.curve, "What the parameters were worth on the way.");
  v.field("target", a.target, "As the scenario asks for it.");
  const auto where = [](bool known, const auto& value) {
    return known ? std::optional(value) : std::nullopt;
  };
  const bool some = a.target && a.reached > 0;
  v.field("reached", where(a.target.has_value(), a.reached), "Seeds that reached the target.");
  v.field("reached_before_first_evaluation", where(some, a.reached_before),
          "Of those; the time of that evaluation is a bound.");
  v.field("seconds_to_target", where(some, a.seconds_to_target), "Mean of those.");
  v.field("seconds_to_target_interval", a.seconds_interval,
          "90 % interval of that mean; where every seed reached the target after an evaluation.");
  v.field("dollars_to_target", where(some, a.dollars_to_target), "Mean of those; 0 = no price.");
  v.field("dollars_to_target_interval", a.dollars_interval,
          "90 % interval of that mean; where every seed reached the target after an evaluation.");
}

// The run with failures. The five parts of its time (training, lost, checkpoints, down, waiting)
// add up to finish_seconds.
template <class Visitor, Either<RunWithFailures> Run>
void describe(Visitor& v, Run& r) {
  v.field("runs", r.runs, "With other random failures each; all figures are their mean.");
  v.field("unfinished", r.unfinished,
          "Of them, given up after 100 times the time without failures.");
  v.field("failures", r.failures, "Of anything in use.", {.column = "failures"});
  v.field("interruptions", r.interruptions,
          "Failures that stopped the job, for a while too, or its restart.",
          {.column = "interruptions"});
  v.field("seconds_between_interruptions", r.seconds_between_interruptions,
          "Time to finish over their number.", {.none_at_zero = true});
  v.field("finish_seconds", r.finish_seconds, "The whole run, failures and checkpoints included.",
          {.column = "finish_s"});
  v.field("finish_interval_seconds", r.finish_interval, "5th to 95th percentile of the runs.");
  v.field("finish_error", r.finish_error, "Half of the 95 % interval of the mean, over the mean.");
  v.column("finish_low_s", r.finish_interval.low);
  v.column("finish_high_s", r.finish_interval.high);
  v.field("goodput", r.goodput, "Time of the steps alone, on all nodes, over the time to finish.",
          {.column = "goodput", .none_at_zero = true});
  v.field("availability", r.availability, "Share of the time that it trains or writes checkpoints.",
          {.column = "availability"});
  v.field("training_seconds", r.training, "On steps that last.", {.column = "training_s"});
  v.field("lost_seconds", r.lost, "On steps that were trained again.", {.column = "lost_s"});
  v.field("checkpoints_seconds", r.checkpoints, "Standing still for checkpoints.",
          {.column = "checkpoints_s"});
  v.field("down_seconds", r.down, "Detection, restart and reading.", {.column = "down_s"});
  v.field("waiting_seconds", r.waiting, "For nodes.", {.column = "waiting_for_nodes_s"});
  v.field("evictions", r.evictions, "Of slow nodes.");
  v.field("memory_restarts", r.memory_restarts,
          "Restarts that read the state from the memory of hosts.");
  v.field("mean_nodes", r.mean_nodes, "That take part.");
  v.field("mean_gpus_away", r.mean_gpus_away,
          "Whose nodes have left or not joined yet; they are not paid for.");
  v.field("checkpoint_bytes", r.checkpoint_bytes, "Of one checkpoint.");
  v.field("checkpoint_seconds", r.checkpoint_seconds, "To write one.");
  v.field("checkpoint_stall_seconds", r.checkpoint_stall_seconds, "Training stands still for one.");
  v.field("memory_copy_seconds", r.memory_copy_seconds,
          "Until a copy in the memory of hosts is complete.", {.none_at_zero = true});
  v.field("memory_period_seconds", r.memory_period_seconds, "Training between two; whole steps.",
          {.none_at_zero = true});
  v.field("checkpoint_period_seconds", r.checkpoint_period_seconds,
          "Training between two; whole steps.",
          {.column = "checkpoint_period_s", .none_at_zero = true});
  v.field("dollars", r.dollars, "Price of the whole run, spare nodes included.",
          {.column = "finish_dollars", .none_at_zero = true});
}

template <class Visitor, Either<OutOfMemory> Misfit>
void describe(Visitor& v, Misfit& o) {
  v.field("shortfall_bytes", o.shortfall, "What the device lacks.");
  v.field("host_shortfall_bytes", o.host_shortfall, "What the node's host lacks.");
  v.field("nvme_shortfall_bytes", o.nvme_shortfall, "Bytes that the node's NVMe drives lack.",
          {.none_at_zero = true});
  v.field("would_fit", o.suggestions, "Changes that would fit, each checked by a prediction.");
}

template <class Visitor, Either<ProvenanceShare> Share>
void describe(Visitor& v, Share& p) {
  v.field("measured", p.measured, "Share of device-busy and communication seconds.");
  v.field("interpolated", p.interpolated, "Between measured sizes.");
  v.field("modelled", p.modelled, "From the device's and the network's model.");
}

template <class Visitor, Either<Energy> E>
void describe(Visitor& v, E& e) {
  v.field("kilowatt_hours", e.kilowatt_hours,
          "At full board power: while busy (low), all the time (high).");
  v.field("carbon_kilograms", e.carbon_kilograms, "CO2, where the scenario has carbon_intensity.");
}

// The mesh in JSON, and in CSV always five columns: data parallelism alone counts as a mesh.
template <class Visitor, Either<Prediction> P>
void describe_mesh(Visitor& v, P& p) {
  v.field("mesh", p.mesh, "Where there is more than data parallelism.");
  v.field("exposed_seconds", p.mesh ? std::optional(p.split.exposed) : std::nullopt,
          "Exposed communication by axis of the mesh; adds up to that of the step.");
  const MeshRecord mesh = p.mesh.value_or(MeshRecord{.data = p.gpus});
  v.column("dp", mesh.data);
  v.column("cp", mesh.context);
  v.column("tp", mesh.tensor);
  v.column("pp", mesh.pipeline);
  v.column("ep", mesh.expert);
}

// All fields of a prediction, in the order of output. Figures that follow from others (rates per
// GPU, free bytes) are computed here. Intervals are one field in JSON and two columns in CSV.
template <class Visitor, Either<Prediction> P>
void describe(Visitor& v, P& p) {
  v.field("strategy", p.strategy, "Name or label in the scenario.", {.column = "strategy"});
  v.field("gpus", p.gpus, "All GPUs of the run.", {.column = "gpus", .min = 1});
  v.field("nodes", p.nodes, "Nodes they fill.", {.column = "nodes", .min = 1});
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
  v.field("step_error", p.step_error,
          "One sigma of log(truth / prediction), by where it comes from.");
  v.column("step_low_s", p.step_interval.low);
  v.column("step_high_s", p.step_interval.high);
  v.field("first_step_seconds", p.first_step_seconds, "The first step, which differs.");
  v.field("steps", p.steps, "Optimizer steps of the whole run; 0 = no dataset.");
  v.field("total_seconds", p.total_seconds, "The whole run; 0 = no dataset.",
          {.column = "total_s"});
  v.field("samples_per_second", p.samples_per_second, "Of all GPUs.", {.column = "samples_per_s"});
  v.field("tokens_per_second", p.tokens_per_second, "Of all GPUs; models with tokens only.",
          {.none_at_zero = true});
  v.column("tokens_per_s", p.tokens_per_second);
  const double samples_per_gpu = p.samples_per_second / p.gpus;
  const double tokens_per_gpu = p.tokens_per_second / p.gpus;
  v.field("samples_per_second_per_gpu", samples_per_gpu, "Of one of them.",
          {.column = "samples_per_s_per_gpu"});
  v.field("tokens_per_second_per_gpu", tokens_per_gpu, "Of one of them; models with tokens only.",
          {.none_at_zero = true});
  v.column("tokens_per_s_per_gpu", tokens_per_gpu);
  v.field("scaling_efficiency", p.scaling_efficiency,
          "Samples per second and GPU over those of the fewest GPUs.",
          {.column = "scaling_efficiency"});
  v.field("split_seconds", p.split, "Where the step goes; the parts add up to it.");
  describe_mesh(v, p);
  v.field("stages", p.stages, "Of a pipeline.");
  v.field("gpu_utilisation", p.gpu_utilisation, "Share of the step that the device is busy.",
          {.column = "gpu_utilisation"});
  v.field("mfu", p.mfu, "Model FLOPs over the peak of the precision.", {.column = "mfu"});
  v.field("flops_per_second_per_gpu", p.flops_per_second,
          "Model FLOPs a second, as MFU counts them.", {.column = "flops_per_s_per_gpu"});
  v.field("memory", p.memory, "Peak memory of one GPU.");
  const double free = free_bytes(p.memory);
  v.field("free_bytes", free, "Usable memory that is left; below 0 = so much is missing.",
          {.column = "free_bytes", .min = no_minimum});
  const bool fits = !p.out_of_memory;
  v.field("fits", fits, "Into memory; times are still what they would be.", {.column = "fits"});
  v.column("memory_retries", p.memory.retries);
  v.field("out_of_memory", p.out_of_memory, "Where it does not fit.");
  v.field("traffic", p.traffic, "Per class of links.");
  v.field("staleness", p.staleness, "Asynchronous strategies only.");
  v.field("over_seeds", p.over_seeds,
          "What other random draws give, where several seeds are simulated.");
  v.field("accuracy", p.accuracy, "Where the scenario has convergence.");
  v.field("worker_steps", p.worker_steps, "Where workers need not keep step.");
  v.field("dollars", p.dollars, "Price of the whole run.",
          {.column = "dollars", .none_at_zero = true});
  v.field("energy", p.energy, "Of the GPUs over the whole run, where the scenario has energy.");
  v.field("stragglers", p.stragglers, "What they cost, where the scenario has some.");
  v.field("with_failures", p.with_failures, "The whole run, where the scenario has faults.");
  v.field("provenance", p.provenance, "Where the costs come from.");
  v.field("simulated_steps", p.simulated_steps, "Steps that were carried out.");
  v.field("simulated_micro_batches", p.simulated_micro_batches,
          "Micro-batches of a step that were carried out; the others take as long as those.");
  v.field("engine", p.engine, "What carried them out: simgrid or loop.");
  v.field("extrapolated", p.extrapolated,
          "The steady state was reached, later steps follow from it.");
  v.field("bottleneck", p.bottleneck, "What limits it, one sentence.");
  v.field("notes", p.notes, "What to know about this point.");
}

template <class Visitor, Either<Failure> F>
void describe(Visitor& v, F& f) {
  v.field("strategy", f.strategy, "Name or label in the scenario.");
  v.field("gpus", f.gpus, "All GPUs of the run.", {.min = 1});
  v.field("reason", f.reason, "Why there is no prediction.");
}

// Phases of a real step, in seconds; each one ends with an event on the rank.
template <class Visitor, Either<PhaseSeconds> Phases>
void describe(Visitor& v, Phases& p) {
  v.field("forward", p.forward, "Until the loss is there.");
  v.field("backward", p.backward, "Until the gradients are there.");
  v.field("optimizer", p.optimizer, "Until the new parameters are there.");
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

// A real run has the columns of a prediction where both have the figure.
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
  v.field("samples_per_second", r.samples_per_second, "Of all ranks.", {.column = "samples_per_s"});
  v.field("each_step_seconds", r.each_step_seconds, "Every measured step, in order.");
  v.field("phase_seconds", r.phases,
          "A rank's step by its clock, communication and waiting included.");
  v.field("rank_compute_seconds", r.rank_compute_seconds,
          "Workers of a server on CPUs, by rank: CPU time of a step's forward and backward.");
  v.field("memory", r.memory, "Peaks of the rank that needs most.");
  v.field("each_loss", r.losses, "Of every step, mean of the ranks.",
          {.min = no_minimum, .may_be_nan = true});
  v.field("test_accuracy", r.test_accuracy,
          "Share of the test set that the trained model gets right.");
  v.field("staleness", r.staleness, "Parameter servers only.");
  v.field("notes", r.notes, "What to know about this run.");
}

// The head begins with the version of the layout and of the program.
template <class Visitor, Either<RecordHead> Head>
void describe(Visitor& v, Head& h) {
  const int schema_version = result_schema_version;
  const std::string program = "lockstep", program_version = LOCKSTEP_VERSION;
  v.field("schema_version", schema_version,
          "Raised when a field changes its meaning or goes away.");
  v.field("program", program, "lockstep");
  v.field("program_version", program_version, "Of the program that wrote this.");
  v.field("scenario", h.scenario, "Its name.");
  v.field("model", h.model, "Name of the model.");
  v.field("parameters", h.parameters, "Trainable parameters of the model.");
  v.field("sequence", h.sequence, "Tokens of a sample; models with tokens only.");
  v.field("image", h.image, "Channels, height and width of a sample; models of images only.");
  v.field("platform", h.platform, "Title of the platform.");
  v.field("precision", h.precision, "Numeric mode that the scenario asks for.");
  v.field("recipe", h.recipe, "Name of the scenario's recipe, and what it set.");
  v.field("seed", h.seed, "Of all random draws.");
  v.field("warnings", h.warnings, "What to know about all points.");
}

template <class Visitor, Either<ResultRecord> Record>
void describe(Visitor& v, Record& r) {
  describe(v, static_cast<const RecordHead&>(r));
  v.field("predictions", r.predictions, "One per strategy and GPU count.");
  v.field("failures", r.failures, "Points whose simulation did not come to an end.");
}

template <class Visitor, Either<Chosen> Choice>
void describe(Visitor& v, Choice& c) {
  v.field("field", c.field, "Dotted name; scenario = which file.");
  v.field("value", c.value, "As the file has it.");
}

template <class Visitor, Either<AlternativeResult> Result>
void describe(Visitor& v, Result& r) {
  v.field("chosen", r.chosen, "What makes this alternative.");
  v.field("result", r.record, "As of a scenario without lists.");
}

template <class Visitor, Either<AlternativeRow> Row>
void describe(Visitor& v, Row& r) {
  v.field("alternative", r.alternative, "Index in alternatives.");
  v.field("prediction", r.prediction, "Index in its predictions.");
}

// A question with alternatives: all their records, and the order of the common table.
template <class Visitor, Either<AlternativesRecord> Record>
void describe(Visitor& v, Record& r) {
  v.field("alternatives", r.alternatives, "One per combination of what the file lists.");
  v.field("order", r.order, "All predictions, sorted as asked.");
}

template <class Visitor, Either<RealRecord> Record>
void describe(Visitor& v, Record& r) {
  describe(v, static_cast<const RecordHead&>(r));
  v.field("runs", r.runs, "Real training; every figure was measured.");
}

}  // namespace lockstep
