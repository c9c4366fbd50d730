// Options of the outer step: how the shared parameters change after each worker has trained by
// itself for several steps. Used by strategies whose workers exchange parameters: local SGD and
// parameter servers.
#pragma once

#include <array>
#include <variant>

#include "core/fields.hpp"

namespace lockstep {

// The shared parameters become the mean of the workers' parameters.
struct MeanOuter {};
// SGD with Nesterov momentum on the mean distance by which the workers have moved since the last
// outer step (DiLoCo: Douillard et al. 2023, algorithm 1).
struct NesterovOuter {
  double learning_rate = 0.7, momentum = 0.9;
};
using OuterOptimizer = std::variant<MeanOuter, NesterovOuter>;
template <>
struct AlternativeNames<OuterOptimizer> {
  static constexpr std::array names{"mean", "nesterov"};
};
template <class Visitor>
void describe(Visitor&, MeanOuter&) {}
template <class Visitor>
void describe(Visitor& v, NesterovOuter& o) {
  v.field("learning_rate", o.learning_rate, "Learning rate of the outer step.",
          {.min = 1e-6, .max = 100});
  v.field("momentum", o.momentum, "Momentum of the outer step.", {.min = 0, .max = 0.9999});
}

}  // namespace lockstep
