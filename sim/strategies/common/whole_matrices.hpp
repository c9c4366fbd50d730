// The reason why a strategy has no whole matrices for Muon to orthogonalise. Used in
// optimizer_misfit().
#pragma once

#include <optional>
#include <string>

#include "core/errors.hpp"
#include "costs/optimizer.hpp"

namespace lockstep {

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
