// What a user can say about local SGD in a scenario file. Semantics: docs/strategies.md and the fact
// cited at each field.
#pragma once

#include <array>
#include <memory>

#include "core/fields.hpp"
#include "strategies/options.hpp"

namespace lockstep {

struct LocalSgdOptions {
  static constexpr const char* name = "local_sgd";
  static constexpr const char* summary =
      "ranks train on their own; every few steps their parameters are averaged";
  static constexpr std::array<StrategyForm, 0> forms{};
  int every = 4;               // PeriodicModelAverager's period (fact 88)
  bool average_state = false;  // PyTorch averages parameters only
};

class Strategy;
std::unique_ptr<Strategy> make_strategy(const LocalSgdOptions& options);

template <class Visitor>
void describe(Visitor& v, LocalSgdOptions& o) {
  v.field("every", o.every, "Steps from one averaging to the next.", {.min = 1, .max = 10'000});
  v.field("average_state", o.average_state,
          "Average the optimizer's state, too, not only the parameters.");
}

}  // namespace lockstep
