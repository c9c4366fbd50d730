// Options of the strategy `local_sgd` in a scenario file. describe() declares the name, text, unit
// and range of each field; the file reader, the JSON Schema and the docs are generated from it
// (core/fields.hpp). docs/local-sgd.md explains the meaning.
#pragma once

#include <array>
#include <memory>
#include <variant>

#include "core/fields.hpp"
#include "strategies/options.hpp"
#include "strategies/outer_optimizer.hpp"

namespace lockstep {

// The options of one `local_sgd` entry.
struct LocalSgdOptions {
  static constexpr const char* name = "local_sgd";
  static constexpr const char* summary =
      "ranks train on their own; every few steps their parameters are averaged";
  static constexpr std::array<StrategyForm, 0> forms{};
  int every = 4;               // steps between two averagings (PeriodicModelAverager's period)
  bool average_state = false;  // PyTorch averages only parameters
  OuterOptimizer outer;        // the step of the shared parameters
  // Streaming DiLoCo (Douillard et al. 2025): number of parts of the parameters, which are
  // exchanged in turn, and number of steps that run while a part travels (section 2.3).
  int fragments = 1;
  int overlap = 0;

  // Whether an outer optimizer makes a step along the mean distance (DiLoCo); otherwise the ranks
  // take the mean.
  bool steps_along_mean() const { return std::holds_alternative<NesterovOuter>(outer); }
  // REQUIRES: fragments divides every; describe() refuses other values.
  int steps_between_exchanges() const { return every / fragments; }
};

class Strategy;
std::unique_ptr<Strategy> make_strategy(const LocalSgdOptions& options);

template <class Visitor>
void describe(Visitor& v, LocalSgdOptions& o) {
  v.field("every", o.every, "Steps from one averaging to the next.", {.min = 1, .max = 10'000});
  v.field("average_state", o.average_state,
          "Average the optimizer's state, too, not only the parameters.");
  v.field("outer", o.outer,
          "Parameters after an exchange. mean: the mean of all ranks; nesterov: a step of an outer "
          "optimizer towards that mean (DiLoCo).");
  v.field("fragments", o.fragments,
          "Parts of the parameters that are exchanged in turn, every / fragments steps apart.",
          {.min = 1, .max = 10'000});
  v.field("overlap", o.overlap,
          "Steps that run while a fragment travels; 0 = the exchange is waited for.",
          {.min = 0, .max = 10'000});
  v.check([&](auto report) {
    if (o.every % o.fragments != 0) {
      report("fragments", "do not divide `every`", "for example 1");
      return;
    }
    if (o.overlap > 0 && !o.steps_along_mean()) {
      report("overlap", "would lose the steps made meanwhile", "`outer: nesterov`");
    }
    if (o.overlap >= o.steps_between_exchanges() && o.overlap > 0) {
      report("overlap", "ends after the next exchange begins", "less than every / fragments");
    }
  });
}

}  // namespace lockstep
