// StrategyResult as text, for the pipe between a simulating child and its parent. Exact: every
// double comes back bit for bit.
#pragma once

#include <string>

#include "strategies/strategy.hpp"

namespace lockstep {

std::string to_wire(const StrategyResult& result);
StrategyResult from_wire(const std::string& text);

}  // namespace lockstep
