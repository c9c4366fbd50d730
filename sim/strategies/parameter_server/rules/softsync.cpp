// n-softsync (Zhang et al. 2016; fact 84): an update from every floor(ranks / n) pushes. A worker
// pulls directly after its push, even before the update that contains the push, and waits for no
// other worker.
#include <algorithm>

#include "strategies/parameter_server/rules/rule.hpp"

namespace lockstep {

PsRule softsync(int ranks, int splitting) {
  struct Softsync final : MessageRule {
    explicit Softsync(int n) : needed(n) {}
    int pushes() const override { return needed; }
    bool pusher_waits() const override { return false; }
    int needed;
  };
  const int pushes = std::max(1, ranks / splitting);
  // If an update has a single push, the rule is asynchronous: the worker gets the weights after its
  // own update.
  if (pushes == 1) return asynchronous();
  return [pushes](int) { return std::make_unique<Softsync>(pushes); };
}

}  // namespace lockstep
