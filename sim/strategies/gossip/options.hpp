// Options of the strategy `gossip` in a scenario file. One describe() per struct declares each
// field's name, text, unit and range; the file reader, the JSON Schema and the docs are generated
// from it (core/fields.hpp). Semantics: docs/strategies.md.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <variant>

#include "core/fields.hpp"
#include "strategies/options.hpp"

namespace lockstep {

// The ranks with which a rank of AD-PSGD may average.
enum class PairPartners : std::uint8_t { any, ring };
template <>
struct EnumNames<PairPartners> {
  static constexpr std::array names{"any", "ring"};
};

// Graphs of ranks that average with each other. D-PSGD (Lian et al. 2017): each rank with both
// ranks beside it on a ring; each of the three counts a third.
struct RingGraph {};
// SGP (Assran et al. 2019): each rank with the rank 1, 2, 4, ... places before it, in turn; each
// counts a half.
struct ExponentialGraph {};
// AD-PSGD (Lian et al. 2018): two ranks at a time, each counts a half; ranks keep no common step.
struct PairsGraph {
  PairPartners partners = PairPartners::any;
};
using GossipGraph = std::variant<RingGraph, ExponentialGraph, PairsGraph>;
template <>
struct AlternativeNames<GossipGraph> {
  static constexpr std::array names{"ring", "exponential", "pairs"};
};
template <class Visitor>
void describe(Visitor&, RingGraph&) {}
template <class Visitor>
void describe(Visitor&, ExponentialGraph&) {}
template <class Visitor>
void describe(Visitor& v, PairsGraph& o) {
  v.field("partners", o.partners,
          "Each even rank averages with an odd rank, drawn from all odd ranks (any) or from its "
          "two neighbours (ring).");
}

// The options of one `gossip` entry.
struct GossipOptions {
  static constexpr const char* name = "gossip";
  static constexpr const char* summary =
      "ranks average their parameters with a few others, on a ring, an exponential graph or in "
      "pairs";
  static constexpr std::array<StrategyForm, 0> forms{};
  GossipGraph graph;
  int every = 1;  // steps from one averaging to the next
  // Parameters travel beside the next step's gradients, as in all three papers; false: a rank waits
  // for the average before its next step.
  bool overlap = true;

  // Null if the graph is not of pairs.
  const PairsGraph* pairs() const { return std::get_if<PairsGraph>(&graph); }
};

class Strategy;
std::unique_ptr<Strategy> make_strategy(const GossipOptions& options);

template <class Visitor>
void describe(Visitor& v, GossipOptions& o) {
  v.field("graph", o.graph,
          "Partners of a rank. ring: both neighbours (D-PSGD); exponential: one rank, 1, 2, 4, ... "
          "away in turn (SGP); pairs: one other rank at a time, without a common step (AD-PSGD).");
  v.field("every", o.every, "Steps from one averaging to the next.", {.min = 1, .max = 10'000});
  v.field("overlap", o.overlap,
          "Parameters travel beside the next step's gradients, which are applied to the average.");
}

}  // namespace lockstep
