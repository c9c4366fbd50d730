// ONE declaration per field of a result: its name outside, its column, its meaning. From these come
// the JSON and CSV renderings, the JSON Schema and its table in the docs, what children send to
// their parent, and the check that every figure is a number. Like core/fields.hpp, which is for
// files that people write; figures here are bare numbers in SI units, and their names say the unit.
//
// A visitor has field(Figure, value) and column(name, value), which is a column of CSV alone.
#pragma once

#include <concepts>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>

#include "results/alternatives.hpp"
#include "results/real_run.hpp"
#include "results/step_parts.hpp"

namespace lockstep {

// Version of the JSON layout; raised when a field changes its meaning or goes away.
inline constexpr int result_schema_version = 1;

struct Figure {
  const char* name;
  const char* doc;
  const char* column = "";    // of CSV; "" = none
  double min = 0;             // of numbers, inclusive
  bool none_at_zero = false;  // 0 says that there is none: the field is left out
  bool may_be_nan = false;    // null in JSON
};

// A value to read or to fill.
template <class T, class U>
concept Either = std::same_as<std::remove_const_t<T>, U>;

inline constexpr double no_minimum = -std::numeric_limits<double>::infinity();

template <class Visitor, Either<StepSplit> Split>
void describe(Visitor& v, Split& s) {
  for (const StepPart& part : named_parts) {
    const std::string column = std::string(part.name) + "_s";
    // Rounding may leave a part a little below nothing: results/invariants.hpp.
    v.field({part.name, part.doc, column.c_str(), no_minimum}, s.*part.seconds);
  }
}

template <class Visitor, Either<StepError> Error>
void describe(Visitor& v, Error& e) {
  v.field({"work", "Of what devices and hosts take."}, e.work);
  v.field({"network", "Of the communication that the step waits for."}, e.network);
  v.field({"scaling", "Of what is lost with every doubling of the GPUs."}, e.scaling);
  v.field({"servers", "Of what the software of parameter servers costs."}, e.servers);
  v.field({"draws", "Of the random draws."}, e.draws);
}

template <class Visitor, Either<RankTimes> Times>
void describe(Visitor& v, Times& t) {
  v.field({"rank", "The first of them."}, t.rank);
  v.field({"ranks", "How many they are.", "", 1}, t.ranks);
  v.field({"steps", "Of its own in the time of a mean step; 1 where all keep step."}, t.steps);
  v.field({"own_seconds", "The device's work, its host and its input.", "", no_minimum}, t.own);
  v.field({"communicating_seconds", "Standing still for a running transfer.", "", no_minimum},
          t.communicating);
  v.field({"waiting_seconds", "Standing still for other ranks or servers.", "", no_minimum},
          t.waiting);
}

template <class Visitor, Either<StragglerCost> Cost>
void describe(Visitor& v, Cost& c) {
  v.field(
      {"step_without_seconds", "The mean step without `stragglers`.", "step_without_stragglers_s"},
      c.step_without);
  v.field({"step_more_seconds", "What the mean step takes longer with them.", "", no_minimum},
          c.step_more);
  v.field({"total_more_seconds", "The same for the whole run; 0 = no dataset.", "stragglers_s",
           no_minimum},
          c.total_more);
  v.field({"dollars_more", "Price of that; 0 = no price.", "stragglers_dollars", no_minimum},
          c.dollars_more);
  v.field({"ranks", "Where a mean step goes on each; those that are alike are one."}, c.ranks);
}

template <class Visitor, Either<MemoryUse> Memory>
void describe(Visitor& v, Memory& m) {
  v.field({"allocated_bytes", "Peak of live tensors (max_memory_allocated).", "allocated_bytes"},
          m.allocated);
  v.field({"reserved_bytes", "Peak of the allocator's segments (max_memory_reserved).",
           "reserved_bytes"},
          m.reserved);
  v.field(
      {"device_bytes", "Reserved, context and communication buffers (nvidia-smi).", "device_bytes"},
      m.device);
  v.field({"usable_bytes", "What the device offers to training."}, m.capacity);
  v.field({"retries", "Times the allocator gave cached segments back to go on."}, m.retries);
  v.field({"peak_at", "Moment of the allocated peak."}, m.moment);
  v.field({"at_peak_bytes", "Allocated at that moment, by kind."}, m.at_peak);
  v.field({.name = "host_bytes",
           .doc = "What one node's ranks offload to its host.",
           .column = "host_bytes",
           .none_at_zero = true},
          m.host);
  v.field({.name = "host_rounding_bytes",
           .doc = "The part of it by which pinned memory exceeds its tensors.",
           .none_at_zero = true},
          m.host_rounding);
  v.field({.name = "host_usable_bytes",
           .doc = "Memory of that host, where something is offloaded.",
           .none_at_zero = true},
          m.host_capacity);
}

template <class Visitor, Either<LinkTraffic> Traffic>
void describe(Visitor& v, Traffic& t) {
  v.field({"links", "Class of the links: NVLink, PCIe, NIC, host memory, ..."}, t.link_class);
  v.field({"busiest_link_bytes", "Per step, one way, on the busiest link of the class."}, t.bytes);
  v.field({"total_bytes", "Per step, all links of the class."}, t.total_bytes);
  v.field({"busy_fraction", "Share of the step that the busiest link is transferring."}, t.busy);
}

template <class Visitor, Either<Staleness> S>
void describe(Visitor& v, S& s) {
  v.field({"mean", "Updates applied between a worker's pull and its push.", "staleness_mean"},
          s.mean);
  v.field({"p50", "Median."}, s.p50);
  v.field({"p99", "99th percentile."}, s.p99);
  v.field({"max", "Largest."}, s.max);
  v.field({"histogram", "Staleness: number of updates."}, s.histogram);
}

template <class Visitor, Either<WorkerSteps> Steps>
void describe(Visitor& v, Steps& w) {
  v.field({"least_share", "Smallest share of one worker in all steps.", "worker_share_least"},
          w.least);
  v.field({"most_share", "Largest share of one worker in all steps.", "worker_share_most"}, w.most);
  v.field({"histogram", "Steps begun: number of workers."}, w.histogram);
}

template <class Visitor, Either<SeedMean> F>
void describe(Visitor& v, F& f) {
  v.field({"mean", "Of the seeds' means."}, f.mean);
  v.field({"interval", "90 % interval of it.", "", no_minimum}, f.interval);
}

template <class Visitor, Either<OverSeeds> O>
void describe(Visitor& v, O& o) {
  v.field({"seeds", "Simulations."}, o.seeds);
  v.field({"step_seconds", "The mean step."}, o.step);
  v.field({"staleness", "The mean staleness, where there is one."}, o.staleness);
}

template <class Visitor, Either<Accuracy::Moment> Moment>
void describe(Visitor& v, Moment& m) {
  v.field({"seconds", "Of simulated time."}, m.seconds);
  v.field({"epochs", "Of all workers together."}, m.epochs);
  v.field({"mean", "Share of the test set, mean of the seeds."}, m.mean);
  v.field({"interval", "90 % interval of that mean.", "", no_minimum}, m.interval);
}

template <class Visitor, Either<Accuracy> A>
void describe(Visitor& v, A& a) {
  v.field({"seeds", "Trainings."}, a.seeds);
  v.field({"learning_rate", "At the beginning, scaling applied; the best one where tuned."},
          a.learning_rate);
  v.field({"momentum", "The best one where tuned."}, a.momentum);
  v.field({"diverged", "Of them, how many ended with a loss that is no number."}, a.diverged);
  v.field({"mean", "Share of the test set in the end, mean of the seeds."}, a.last);
  v.field({"interval", "90 % interval of that mean.", "", no_minimum}, a.last_interval);
  v.field({"curve", "What the parameters were worth on the way."}, a.curve);
  v.field({"target", "As the scenario asks for it."}, a.target);
  const auto where = [](bool known, const auto& value) {
    return known ? std::optional(value) : std::nullopt;
  };
  const bool some = a.target && a.reached > 0;
  v.field({"reached", "Seeds that reached the target."}, where(a.target.has_value(), a.reached));
  v.field({"reached_before_first_evaluation", "Of those; the time of that evaluation is a bound."},
          where(some, a.reached_before));
  v.field({"seconds_to_target", "Mean of those."}, where(some, a.seconds_to_target));
  v.field({"seconds_to_target_interval",
           "90 % interval of that mean; where every seed reached the target after an evaluation."},
          a.seconds_interval);
  v.field({"dollars_to_target", "Mean of those; 0 = no price."}, where(some, a.dollars_to_target));
  v.field({"dollars_to_target_interval",
           "90 % interval of that mean; where every seed reached the target after an evaluation."},
          a.dollars_interval);
}

template <class Visitor, Either<RunWithFailures> Run>
void describe(Visitor& v, Run& r) {
  v.field({"runs", "With other random failures each; all figures are their mean."}, r.runs);
  v.field({"unfinished", "Of them, given up after 100 times the time without failures."},
          r.unfinished);
  v.field({"failures", "Of anything in use.", "failures"}, r.failures);
  v.field({"interruptions", "Failures that stopped the job or its restart.", "interruptions"},
          r.interruptions);
  v.field({.name = "seconds_between_interruptions",
           .doc = "Time to finish over their number.",
           .none_at_zero = true},
          r.seconds_between_interruptions);
  v.field({"finish_seconds", "The whole run, failures and checkpoints included.", "finish_s"},
          r.finish_seconds);
  v.field({"finish_interval_seconds", "5th to 95th percentile of the runs."}, r.finish_interval);
  v.column("finish_low_s", r.finish_interval.low);
  v.column("finish_high_s", r.finish_interval.high);
  v.field({.name = "goodput",
           .doc = "Time of the steps alone, on all nodes, over the time to finish.",
           .column = "goodput",
           .none_at_zero = true},
          r.goodput);
  v.field(
      {"availability", "Share of the time that it trains or writes checkpoints.", "availability"},
      r.availability);
  v.field({"training_seconds", "On steps that last.", "training_s"}, r.training);
  v.field({"lost_seconds", "On steps that were trained again.", "lost_s"}, r.lost);
  v.field({"checkpoints_seconds", "Writing checkpoints.", "checkpoints_s"}, r.checkpoints);
  v.field({"down_seconds", "Detection, restart and reading.", "down_s"}, r.down);
  v.field({"waiting_seconds", "For nodes.", "waiting_for_nodes_s"}, r.waiting);
  v.field({"mean_nodes", "That take part."}, r.mean_nodes);
  v.field({"mean_gpus_away", "Whose nodes have left or not joined yet; they are not paid for."},
          r.mean_gpus_away);
  v.field({"checkpoint_bytes", "Of one checkpoint."}, r.checkpoint_bytes);
  v.field({"checkpoint_seconds", "To write one."}, r.checkpoint_seconds);
  v.field({.name = "checkpoint_period_seconds",
           .doc = "Training between two; whole steps.",
           .column = "checkpoint_period_s",
           .none_at_zero = true},
          r.checkpoint_period_seconds);
  v.field({.name = "dollars",
           .doc = "Price of the whole run, spare nodes included.",
           .column = "finish_dollars",
           .none_at_zero = true},
          r.dollars);
}

template <class Visitor, Either<OutOfMemory> Misfit>
void describe(Visitor& v, Misfit& o) {
  v.field({"shortfall_bytes", "What the device lacks."}, o.shortfall);
  v.field({"host_shortfall_bytes", "What the node's host lacks."}, o.host_shortfall);
  v.field({"would_fit", "Changes that would fit, each checked by a prediction."}, o.suggestions);
}

template <class Visitor, Either<ProvenanceShare> Share>
void describe(Visitor& v, Share& p) {
  v.field({"measured", "Share of device-busy and communication seconds."}, p.measured);
  v.field({"interpolated", "Between measured sizes."}, p.interpolated);
  v.field({"modelled", "From the device's and the network's model."}, p.modelled);
}

template <class Visitor, Either<Energy> E>
void describe(Visitor& v, E& e) {
  v.field({"kilowatt_hours", "At full board power: while busy (low), all the time (high)."},
          e.kilowatt_hours);
  v.field({"carbon_kilograms", "CO2, where the scenario has carbon_intensity."},
          e.carbon_kilograms);
}

template <class Visitor, Either<Prediction> P>
void describe(Visitor& v, P& p) {
  v.field({"strategy", "Name or label in the scenario.", "strategy"}, p.strategy);
  v.field({"gpus", "All GPUs of the run.", "gpus", 1}, p.gpus);
  v.field({"nodes", "Nodes they fill.", "nodes", 1}, p.nodes);
  v.field({"global_batch", "Samples of one optimizer step.", "global_batch"}, p.global_batch);
  v.field({"micro_batch", "Samples of one forward and backward on one GPU.", "micro_batch"},
          p.micro_batch);
  v.field(
      {"gradient_accumulation", "Micro-batches of one optimizer step.", "gradient_accumulation", 1},
      p.accumulation);
  v.field({"precision", "Numeric mode of compute."}, p.precision);
  v.field({"step_seconds", "One optimizer step, mean.", "step_s"}, p.step_seconds);
  v.field({"median_step_seconds", "Median of the steps.", "median_step_s"}, p.median_step_seconds);
  v.field({"step_interval_seconds", "90 % interval of the step."}, p.step_interval);
  v.field({"step_error", "One sigma of log(truth / prediction), by where it comes from."},
          p.step_error);
  v.column("step_low_s", p.step_interval.low);
  v.column("step_high_s", p.step_interval.high);
  v.field({"first_step_seconds", "The first step, which differs."}, p.first_step_seconds);
  v.field({"steps", "Optimizer steps of the whole run; 0 = no dataset."}, p.steps);
  v.field({"total_seconds", "The whole run; 0 = no dataset.", "total_s"}, p.total_seconds);
  v.field({"samples_per_second", "Of all GPUs.", "samples_per_s"}, p.samples_per_second);
  v.field({.name = "tokens_per_second",
           .doc = "Of all GPUs; models with tokens only.",
           .none_at_zero = true},
          p.tokens_per_second);
  v.column("tokens_per_s", p.tokens_per_second);
  const double samples_per_gpu = p.samples_per_second / p.gpus;
  const double tokens_per_gpu = p.tokens_per_second / p.gpus;
  v.field({"samples_per_second_per_gpu", "Of one of them.", "samples_per_s_per_gpu"},
          samples_per_gpu);
  v.field({.name = "tokens_per_second_per_gpu",
           .doc = "Of one of them; models with tokens only.",
           .none_at_zero = true},
          tokens_per_gpu);
  v.column("tokens_per_s_per_gpu", tokens_per_gpu);
  v.field({"scaling_efficiency", "Samples per second and GPU over those of the fewest GPUs.",
           "scaling_efficiency"},
          p.scaling_efficiency);
  v.field({"split_seconds", "Where the step goes; the parts add up to it."}, p.split);
  v.field({"gpu_utilisation", "Share of the step that the device is busy.", "gpu_utilisation"},
          p.gpu_utilisation);
  v.field({"mfu", "Model FLOPs over the peak of the precision.", "mfu"}, p.mfu);
  v.field({"flops_per_second_per_gpu", "Model FLOPs a second, as MFU counts them.",
           "flops_per_s_per_gpu"},
          p.flops_per_second);
  v.field({"memory", "Peak memory of one GPU."}, p.memory);
  const double free = free_bytes(p.memory);
  v.field({"free_bytes", "Usable memory that is left; below 0 = so much is missing.", "free_bytes",
           no_minimum},
          free);
  const bool fits = !p.out_of_memory;
  v.field({"fits", "Into memory; times are still what they would be.", "fits"}, fits);
  v.column("memory_retries", p.memory.retries);
  v.field({"out_of_memory", "Where it does not fit."}, p.out_of_memory);
  v.field({"traffic", "Per class of links."}, p.traffic);
  v.field({"staleness", "Asynchronous strategies only."}, p.staleness);
  v.field({"over_seeds", "What other random draws give, where several seeds are simulated."},
          p.over_seeds);
  v.field({"accuracy", "Where the scenario has convergence."}, p.accuracy);
  v.field({"worker_steps", "Where workers need not keep step."}, p.worker_steps);
  v.field({.name = "dollars",
           .doc = "Price of the whole run.",
           .column = "dollars",
           .none_at_zero = true},
          p.dollars);
  v.field({"energy", "Of the GPUs over the whole run, where the scenario has energy."}, p.energy);
  v.field({"stragglers", "What they cost, where the scenario has some."}, p.stragglers);
  v.field({"with_failures", "The whole run, where the scenario has faults."}, p.with_failures);
  v.field({"provenance", "Where the costs come from."}, p.provenance);
  v.field({"simulated_steps", "Steps that were carried out."}, p.simulated_steps);
  v.field({"simulated_micro_batches",
           "Micro-batches of a step that were carried out; the others take as long as those."},
          p.simulated_micro_batches);
  v.field({"engine", "What carried them out: simgrid or loop."}, p.engine);
  v.field({"extrapolated", "The steady state was reached, later steps follow from it."},
          p.extrapolated);
  v.field({"bottleneck", "What limits it, one sentence."}, p.bottleneck);
  v.field({"notes", "What to know about this point."}, p.notes);
}

template <class Visitor, Either<Failure> F>
void describe(Visitor& v, F& f) {
  v.field({"strategy", "Name or label in the scenario."}, f.strategy);
  v.field({"gpus", "All GPUs of the run.", "", 1}, f.gpus);
  v.field({"reason", "Why there is no prediction."}, f.reason);
}

template <class Visitor, Either<PhaseSeconds> Phases>
void describe(Visitor& v, Phases& p) {
  v.field({"forward", "Until the loss is there."}, p.forward);
  v.field({"backward", "Until the gradients are there."}, p.backward);
  v.field({"optimizer", "Until the new parameters are there."}, p.optimizer);
}

template <class Visitor, Either<PeakMemory> Memory>
void describe(Visitor& v, Memory& m) {
  v.field({"allocated_bytes", "Peak of live tensors.", "allocated_bytes"}, m.allocated);
  v.field({.name = "reserved_bytes",
           .doc = "Peak of the allocator's segments, on GPUs.",
           .column = "reserved_bytes",
           .none_at_zero = true},
          m.reserved);
}

template <class Visitor, Either<MeasuredStaleness> S>
void describe(Visitor& v, S& s) {
  using Base = std::conditional_t<std::is_const_v<S>, const Staleness, Staleness>;
  describe(v, static_cast<Base&>(s));
  v.field({"each_update", "Staleness of every update that the server applied, in order."},
          s.each_update);
}

template <class Visitor, Either<RealRun> Run>
void describe(Visitor& v, Run& r) {
  v.field({"strategy", "As --strategy names it.", "strategy"}, r.strategy);
  v.field({"ranks", "Processes that train.", "gpus", 1}, r.ranks);
  v.field({"global_batch", "Samples of one optimizer step.", "global_batch"}, r.global_batch);
  v.field({"micro_batch", "Samples of one forward and backward of a rank.", "micro_batch"},
          r.micro_batch);
  const int accumulation = 1;
  v.column("gradient_accumulation", accumulation);
  v.field({"precision", "Numeric mode of compute."}, r.precision);
  v.field({"step_seconds", "Median of the steps; asynchronous: mean.", "step_s"}, r.step_seconds);
  v.field({"step_interval_seconds", "5th to 95th percentile of the steps."}, r.step_interval);
  v.column("step_low_s", r.step_interval.low);
  v.column("step_high_s", r.step_interval.high);
  v.field({"samples_per_second", "Of all ranks.", "samples_per_s"}, r.samples_per_second);
  v.field({"each_step_seconds", "Every measured step, in order."}, r.each_step_seconds);
  v.field({"phase_seconds", "A rank's step by its clock, communication and waiting included."},
          r.phases);
  v.field({"rank_compute_seconds",
           "Workers of a server on CPUs, by rank: CPU time of a step's forward and backward."},
          r.rank_compute_seconds);
  v.field({"memory", "Peaks of the rank that needs most."}, r.memory);
  v.field({.name = "each_loss",
           .doc = "Of every step, mean of the ranks.",
           .min = no_minimum,
           .may_be_nan = true},
          r.losses);
  v.field({"test_accuracy", "Share of the test set that the trained model gets right."},
          r.test_accuracy);
  v.field({"staleness", "Parameter servers only."}, r.staleness);
  v.field({"notes", "What to know about this run."}, r.notes);
}

template <class Visitor, Either<RecordHead> Head>
void describe(Visitor& v, Head& h) {
  const int schema_version = result_schema_version;
  const std::string program = "lockstep", program_version = LOCKSTEP_VERSION;
  v.field({"schema_version", "Raised when a field changes its meaning or goes away."},
          schema_version);
  v.field({"program", "lockstep"}, program);
  v.field({"program_version", "Of the program that wrote this."}, program_version);
  v.field({"scenario", "Its name."}, h.scenario);
  v.field({"model", "Name of the model."}, h.model);
  v.field({"parameters", "Trainable parameters of the model."}, h.parameters);
  v.field({"sequence", "Tokens of a sample; models with tokens only."}, h.sequence);
  v.field({"image", "Channels, height and width of a sample; models of images only."}, h.image);
  v.field({"platform", "Title of the platform."}, h.platform);
  v.field({"precision", "Numeric mode that the scenario asks for."}, h.precision);
  v.field({"recipe", "Name of the scenario's recipe, and what it set."}, h.recipe);
  v.field({"seed", "Of all random draws."}, h.seed);
  v.field({"warnings", "What to know about all points."}, h.warnings);
}

template <class Visitor, Either<ResultRecord> Record>
void describe(Visitor& v, Record& r) {
  describe(v, static_cast<const RecordHead&>(r));
  v.field({"predictions", "One per strategy and GPU count."}, r.predictions);
  v.field({"failures", "Points whose simulation did not come to an end."}, r.failures);
}

template <class Visitor, Either<Chosen> Choice>
void describe(Visitor& v, Choice& c) {
  v.field({"field", "Dotted name; scenario = which file."}, c.field);
  v.field({"value", "As the file has it."}, c.value);
}

template <class Visitor, Either<AlternativeResult> Result>
void describe(Visitor& v, Result& r) {
  v.field({"chosen", "What makes this alternative."}, r.chosen);
  v.field({"result", "As of a scenario without lists."}, r.record);
}

template <class Visitor, Either<AlternativeRow> Row>
void describe(Visitor& v, Row& r) {
  v.field({"alternative", "Index in alternatives."}, r.alternative);
  v.field({"prediction", "Index in its predictions."}, r.prediction);
}

template <class Visitor, Either<AlternativesRecord> Record>
void describe(Visitor& v, Record& r) {
  v.field({"alternatives", "One per combination of what the file lists."}, r.alternatives);
  v.field({"order", "All predictions, sorted as asked."}, r.order);
}

template <class Visitor, Either<RealRecord> Record>
void describe(Visitor& v, Record& r) {
  describe(v, static_cast<const RecordHead&>(r));
  v.field({"runs", "Real training; every figure was measured."}, r.runs);
}

}  // namespace lockstep
