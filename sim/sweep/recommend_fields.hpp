// The fields of `recommend --json` and the columns of `--csv` (results/fields.hpp).
#pragma once

#include <fmt/format.h>

#include <string>

#include "results/fields.hpp"
#include "sweep/recommend.hpp"

namespace lockstep {

inline std::string name_of(Family family) {
  return family_names[static_cast<std::size_t>(family)];
}

template <class Visitor>
void describe(Visitor& v, const PassedOver& p) {
  v.field({"strategy", "Which."}, p.strategy);
  v.field({"time_saved", "Share of the time that it would save."}, p.gain);
  v.field({"least_told_apart", "The smallest share that predictions of the two tell apart."},
          p.told);
  v.field({"without_autocast", "Whether it computes without the autocast of the precision."},
          p.without_autocast);
}

template <class Visitor>
void describe(Visitor& v, const Candidate& c) {
  const Verdict& result = c.verdict;
  v.field({"platform", "Name of the platform.", "platform"}, c.platform);
  v.field({"gpus", "GPUs of the run.", "gpus", 1}, c.gpus);
  v.field({"rented_gpus", "GPUs that are paid: those of whole nodes.", "rented_gpus", 1},
          result.rented);
  v.field({"strategy", "Strategy and memory savers.", "strategy"}, c.strategy);
  v.field({"family", "DDP, FSDP, sync server or async server.", "family"}, name_of(c.family));
  v.field({"micro_batch", "Samples of one forward and backward on one GPU.", "micro_batch", 1},
          c.micro);
  v.field({"accumulation", "Micro-batches per optimizer step.", "accumulation", 1}, c.accumulation);
  v.field({"step_seconds", "Mean optimizer step.", "step_s"}, result.step);
  v.field({"total_seconds", "The whole run.", "total_s"}, result.total);
  v.field({"dollars", "Price of the whole run on the rented GPUs; absent = no price.", "dollars", 0,
           true},
          result.dollars);
  v.field({"device_bytes", "Peak of one GPU's memory.", "device_bytes"}, result.device);
  v.field({"staleness", "Mean age of gradients in updates.", "staleness"}, result.staleness);
  v.field({"energy", "Where the scenario asks for it."}, result.energy);
  v.column("most_kilowatt_hours",
           result.energy ? fmt::format("{}", most_energy(result)) : std::string());
  v.field({"accuracy", "At the end of the run, where it was trained."}, result.accuracy);
  v.column("accuracy", result.accuracy ? fmt::format("{}", result.accuracy->mean) : std::string());
  v.field({"without_autocast",
           "Computes in half precision what the autocast of the precision does not.",
           "without_autocast"},
          result.without_autocast);
  v.field({"passed_over",
           "A less simple strategy on the same GPUs that is better by too little to tell."},
          c.passed_over);
  v.column("passed_over", c.passed_over ? c.passed_over->strategy : std::string());
  v.field({"bottleneck", "What limits it, one sentence.", "bottleneck"}, result.bottleneck);
  v.field({"settings", "Of `lockstep sweep`: they give this candidate alone."}, c.settings);
}

template <class Visitor>
void describe(Visitor& v, const MatrixColumn& m) {
  v.field({"family", "DDP, FSDP, sync server or async server."}, name_of(m.family));
  v.field({"fastest", "The fastest candidate of the family that fits."}, m.fastest);
  v.field({"least_device_bytes", "The least memory of any."}, m.least_memory);
  v.field({"least_dollars", "The lowest price of any; absent = no price.", "", 0, true},
          m.least_dollars);
  v.field(
      {"uneven", "Time of the fastest with one GPU 30 % slower, over its own; absent = one GPU.",
       "", 0, true},
      m.uneven);
  v.field({"limit", "What limits the fastest where a slow GPU costs nothing; else empty."},
          m.limit);
}

struct LeftOut {
  std::string reason;
  std::size_t candidates = 0;
};
template <class Visitor>
void describe(Visitor& v, const LeftOut& l) {
  v.field({"reason", "Why."}, l.reason);
  v.field({"candidates", "How many."}, l.candidates);
}

template <class Visitor>
void describe(Visitor& v, const Recommendation& r) {
  std::vector<LeftOut> left_out;
  for (const auto& [reason, count] : r.left_out) left_out.push_back({reason, count});
  v.field({"ranked_by", "cost, time, memory or energy."},
          std::string(rank_names[static_cast<std::size_t>(r.by)]));
  v.field({"candidates", "How many were looked at."}, r.candidates);
  v.field({"ranked", "All that meet every limit, best first; the first is recommended."}, r.ranked);
  v.field({"shortlist", "Places in `ranked`: the best of each family, platform and GPU count."},
          shortlist(r.ranked));
  v.field({"pareto", "Places in `ranked`: no other is better in everything at once."}, r.pareto);
  v.field({"left_out", "Candidates that meet not every limit, by reason."}, left_out);
  v.field({"matrix", "How the families compare; see docs/recommend.md."}, r.matrix);
  v.field({"trainings", "Candidates that learn differently and were trained."}, r.trainings);
}

}  // namespace lockstep
