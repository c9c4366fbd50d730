// The error of strategies that cut matrices if the optimizer is Muon, which orthogonalises whole
// matrices. Strategies return it from Strategy::optimizer_misfit().
#pragma once

#include <optional>
#include <string>

#include "core/errors.hpp"
#include "costs/optimizer.hpp"

namespace lockstep {

// Absent if the optimizer is not Muon. `field` is the option that cuts matrices, relative to the
// strategy's entry; `why` completes the message; `hint` shows options that the user may choose.
inline std::optional<Diagnostic> without_whole_matrices(
    const OptimizerSpec& optimizer, const std::string& field, const std::string& why,
    const std::string& hint = "ddp, or local_sgd; `optimizer: {name: adamw}`") {
  if (optimizer.name != OptimizerKind::muon) return std::nullopt;
  Diagnostic diagnostic;
  diagnostic.field = field;
  diagnostic.message = "muon orthogonalises whole matrices, and " + why;
  diagnostic.hint = hint;
  return diagnostic;
}

}  // namespace lockstep
