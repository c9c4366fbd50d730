// Declares the fields of `recommend --json` and the columns of `--csv`, in the style of
// results/fields.hpp. Include it to write or describe them. An optional part is an object in JSON,
// and one column with its main value in CSV.
#pragma once

#include <fmt/format.h>

#include <string>

#include "results/fields.hpp"
#include "sweep/recommend.hpp"

namespace lockstep {

template <class Visitor>
void describe(Visitor& v, const PassedOver& p) {
  v.field("strategy", p.strategy, "Name of the strategy.");
  v.field("time_saved", p.gain, "Share of the time that it would save.");
  v.field("least_told_apart", p.told, "The smallest share that predictions of the two tell apart.");
  v.field("without_autocast", p.without_autocast,
          "Whether it computes without the autocast of the precision.");
}

template <class Visitor>
void describe(Visitor& v, const Candidate& c) {
  const Verdict& result = c.verdict;
  v.field("platform", c.platform, "Name of the platform.", {.column = "platform"});
  v.field("gpus", c.gpus, "GPUs of the run.", {.column = "gpus", .min = 1});
  v.field("rented_gpus", result.rented, "GPUs that are paid for: all GPUs of the rented nodes.",
          {.column = "rented_gpus", .min = 1});
  v.field("strategy", c.strategy, "Strategy and memory savers.", {.column = "strategy"});
  v.field("family", c.family, "DDP, compressed DDP, FSDP, sync server, async server, ZeRO or mesh.",
          {.column = "family"});
  v.field("mesh", c.mesh, "Ranks of each axis; empty = data parallelism alone.",
          {.column = "mesh"});
  v.field("micro_batch", c.micro, "Samples of one forward and backward on one GPU.",
          {.column = "micro_batch", .min = 1});
  v.field("accumulation", c.accumulation, "Micro-batches per optimizer step.",
          {.column = "accumulation", .min = 1});
  v.field("step_seconds", result.step, "Mean optimizer step.", {.column = "step_s"});
  v.field("total_seconds", result.total, "The whole run.", {.column = "total_s"});
  v.field("dollars", result.dollars,
          "Price of the whole run on the rented GPUs; absent = no price.",
          {.column = "dollars", .min = 0, .none_at_zero = true});
  v.field("device_bytes", result.device, "Peak of one GPU's memory.", {.column = "device_bytes"});
  v.field("staleness", result.staleness, "Mean age of gradients in updates.",
          {.column = "staleness"});
  v.field("energy", result.energy, "Energy, if the scenario asks for it.");
  v.column("most_kilowatt_hours",
           result.energy ? fmt::format("{}", most_energy(result)) : std::string());
  v.field("accuracy", result.accuracy, "At the end of the run, where it was trained.");
  v.column("accuracy", result.accuracy ? fmt::format("{}", result.accuracy->mean) : std::string());
  v.field("without_autocast", result.without_autocast,
          "Whether it computes without autocast, all in half precision.",
          {.column = "without_autocast"});
  v.field("passed_over", c.passed_over,
          "A less simple strategy on the same GPUs that is better by too little to tell.");
  v.column("passed_over", c.passed_over ? c.passed_over->strategy : std::string());
  v.field("bottleneck", result.bottleneck, "Bottleneck of the step, one sentence.",
          {.column = "bottleneck"});
  v.field("settings", c.settings,
          "Arguments with which `lockstep sweep` gives this candidate alone.");
}

template <class Visitor>
void describe(Visitor& v, const MatrixColumn& m) {
  v.field("family", m.family,
          "DDP, compressed DDP, FSDP, sync server, async server, ZeRO or mesh.");
  v.field("fastest", m.fastest, "The fastest candidate of the family that fits.");
  v.field("least_device_bytes", m.least_memory, "The least memory of any.");
  v.field("least_dollars", m.least_dollars, "The lowest price of any; absent = no price.",
          {.min = 0, .none_at_zero = true});
  v.field("uneven", m.uneven,
          "Time of the fastest with one GPU 30 % slower, over its own; absent = one GPU.",
          {.min = 0, .none_at_zero = true});
  v.field("limit", m.limit,
          "Bottleneck of the fastest candidate, if a slow GPU costs no time; else empty.");
}

// An element of Recommendation::left_out in JSON.
struct LeftOut {
  std::string reason;
  std::size_t candidates = 0;
};
template <class Visitor>
void describe(Visitor& v, const LeftOut& l) {
  v.field("reason", l.reason, "Reason for leaving candidates out.");
  v.field("candidates", l.candidates, "Number of candidates.");
}

template <class Visitor>
void describe(Visitor& v, const MeshCounts& m) {
  v.field("looked_at", m.looked_at,
          "Considered combinations of axes, strategy, memory saver and batch.");
  v.field("refused", m.refused, "Combinations that do not divide, or that the strategy excludes.");
  v.field("ruled_out", m.ruled_out,
          "Combinations excluded by bounds of time or memory, without simulation.");
  v.field("simulated", m.simulated,
          "Combinations that were simulated; memory only, if it exceeds the device.");
}

template <class Visitor>
void describe(Visitor& v, const FasterStill& f) {
  v.field("setting", f.setting, "Argument of `lockstep sweep --set`.");
  v.field("gain", f.gain, "Share of the step that it saves.");
  v.field("other_numerics", f.other_numerics,
          "Whether the learning may change, so that losses should be compared.");
}

template <class Visitor>
void describe(Visitor& v, const Recommendation& r) {
  std::vector<LeftOut> left_out;
  for (const auto& [reason, count] : r.left_out) left_out.push_back({reason, count});
  v.field("ranked_by", std::string(rank_names[static_cast<std::size_t>(r.by)]),
          "cost, time, memory or energy.");
  v.field("candidates", r.candidates, "Number of candidates that were considered.");
  v.field("ranked", r.ranked, "All that meet every limit, best first; the first is recommended.");
  v.field("shortlist", shortlist(r.ranked),
          "Places in `ranked`: the best of each family, platform and GPU count.");
  v.field("pareto", r.pareto, "Places in `ranked`: no other is better in everything at once.");
  v.field("left_out", left_out, "Candidates that meet not every limit, by reason.");
  v.field("matrix", r.matrix, "How the families compare; see docs/recommend.md.");
  v.field("meshes", r.meshes, "Candidates with a mesh: considered, refused, ruled out, simulated.");
  v.field("faster", r.faster,
          "Settings that make the recommended candidate faster: torch.compile, CUDA graphs, fp8.");
  v.field("trainings", r.trainings, "Candidates that learn differently and were trained.");
}

}  // namespace lockstep
