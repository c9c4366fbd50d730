#include "strategies/table.hpp"

#include "strategies/ddp/ddp.hpp"
#include "strategies/fsdp/fsdp.hpp"
#include "strategies/parameter_server/parameter_server.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

std::unique_ptr<Strategy> make_strategy(const StrategyOptions& options) {
  struct Table {
    std::unique_ptr<Strategy> operator()(const DdpOptions& o) const {
      return std::make_unique<Ddp>(o);
    }
    std::unique_ptr<Strategy> operator()(const FsdpOptions& o) const {
      return std::make_unique<Fsdp>(o);
    }
    std::unique_ptr<Strategy> operator()(const ParameterServerOptions& o) const {
      return std::make_unique<ParameterServer>(o);
    }
  };
  return std::visit(Table{}, options);
}

}  // namespace lockstep
