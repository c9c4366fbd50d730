// Options of the strategy `gossip` in a scenario file. For each struct, one describe() declares the
// name, text, unit and range of its fields; the file reader, the JSON Schema and the docs are
// generated from it (core/fields.hpp). docs/local-sgd.md explains the meaning.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <variant>

#include "core/fields.hpp"
#include "strategies/options.hpp"

namespace lockstep {

// The odd ranks that an even rank of AD-PSGD may ask for an average: all, or its neighbours on the
// ring.
enum class PairPartners : std::uint8_t { any, ring };
template <>
struct EnumNames<PairPartners> {
  static constexpr std::array names{"any", "ring"};
};

// Graphs of ranks that average with each other. D-PSGD (Lian et al. 2017): each rank averages with
// both of its neighbours on a ring; the weight of each of the three is one third.
struct RingGraph {};
// SGP (Assran et al. 2019): each rank averages with the rank 1, 2, 4, ... places before it, in
// turn; the weight of each of the two is one half.
struct ExponentialGraph {};
// AD-PSGD (Lian et al. 2018): two ranks average with weights of one half; ranks have no common
// step.
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
  // True: parameters travel during the next step's gradients, as in all three papers. False: a rank
  // waits for the average before its next step.
  bool overlap = true;

  // Null if the graph is not `pairs`.
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
