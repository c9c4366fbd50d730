// The table of strategies: one line each.
#pragma once

#include <array>
#include <memory>
#include <variant>

#include "core/fields.hpp"
#include "strategies/ddp/options.hpp"
#include "strategies/fsdp/options.hpp"
#include "strategies/parameter_server/options.hpp"

namespace lockstep {

class Strategy;

using StrategyOptions = std::variant<DdpOptions, FsdpOptions, ParameterServerOptions>;
template <>
struct AlternativeNames<StrategyOptions> {
  static constexpr std::array names{"ddp", "fsdp", "parameter_server"};
};

std::unique_ptr<Strategy> make_strategy(const StrategyOptions& options);

}  // namespace lockstep
