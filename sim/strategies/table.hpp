// The table of strategies, with one line for each. To add a strategy, add its options here and
// include them. The options struct of a strategy has its name, summary and forms; make_strategy()
// in the strategy's folder makes the implementation.
#pragma once

#include <array>
#include <memory>
#include <variant>

#include "core/fields.hpp"
#include "strategies/ddp/options.hpp"
#include "strategies/fsdp/options.hpp"
#include "strategies/gossip/options.hpp"
#include "strategies/local_sgd/options.hpp"
#include "strategies/parameter_server/options.hpp"
#include "strategies/zero/options.hpp"

namespace lockstep {

// The options of one entry of a scenario's `strategies:`. The active alternative identifies the
// strategy.
using StrategyOptions = std::variant<  //
    DdpOptions,                        //
    FsdpOptions,                       //
    GossipOptions,                     //
    LocalSgdOptions,                   //
    ParameterServerOptions,            //
    ZeroOptions>;

template <class Variant>
struct StrategyTable;
template <class... Options>
struct StrategyTable<std::variant<Options...>> {
  static constexpr std::array names{Options::name...};
  static constexpr std::array summaries{Options::summary...};
  // Calls visit(strategy's name, form) for all forms, in the order of the table.
  template <class Visit>
  static void each_form(Visit&& visit) {
    const auto all = [&](const char* name, const auto& forms) {
      for (const StrategyForm& form : forms) visit(name, form);
    };
    (all(Options::name, Options::forms), ...);
  }
};
template <>
struct AlternativeNames<StrategyOptions> : StrategyTable<StrategyOptions> {};

inline const char* strategy_name(const StrategyOptions& options) {
  return AlternativeNames<StrategyOptions>::names[options.index()];
}

// Calls the overload of make_strategy() for the chosen options. Because the function is a template,
// an argument is never converted to the variant; options without an overload therefore do not
// compile.
template <class... Options>
std::unique_ptr<Strategy> make_strategy(const std::variant<Options...>& options) {
  return std::visit([](const auto& chosen) { return make_strategy(chosen); }, options);
}

}  // namespace lockstep
