// Options of gossip in a scenario file. Parsers, strategies and schema use the visitors below.
// Semantics: docs/strategies.md.
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

// Ranks that average with each other.
struct RingGraph {};  // D-PSGD (Lian et al. 2017): all with both ranks beside them, thirds
struct ExponentialGraph {
};                   // SGP (Assran et al. 2019): with one rank, 1, 2, 4, ... away in turn, halves
struct PairsGraph {  // AD-PSGD (Lian et al. 2018): two at a time, halves; nobody keeps step
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

struct GossipOptions {
  static constexpr const char* name = "gossip";
  static constexpr const char* summary =
      "ranks average their parameters with a few others, on a ring, an exponential graph or in "
      "pairs";
  static constexpr std::array<StrategyForm, 0> forms{};
  GossipGraph graph;
  int every = 1;
  bool overlap = true;  // as in all three papers

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
