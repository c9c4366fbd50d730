// What a simulating child sends to its parent through a pipe: a StrategyResult, or a strategy's
// refusal of its options. Exact: every double comes back bit for bit.
#pragma once

#include <string>
#include <vector>

#include "core/errors.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

std::string to_wire(const StrategyResult& result);
std::string refusal_to_wire(const ConfigError& refusal);
// A refusal's diagnostics go to `refused`; the result is empty then.
StrategyResult from_wire(const std::string& text, std::vector<Diagnostic>& refused);

}  // namespace lockstep
