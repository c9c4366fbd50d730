// n-softsync (Zhang et al. 2016; fact 84): an update from every floor(ranks / n) pushes; a worker
// that has pushed pulls at once and waits for nobody.
#include <algorithm>

#include "strategies/parameter_server/rules/rule.hpp"

namespace lockstep {

namespace {

class Softsync final : public MessageRule {
 public:
  explicit Softsync(int pushes) : pushes_(pushes) {}
  int pushes_per_update(int) const override { return pushes_; }
  bool pusher_waits() const override { return false; }

 private:
  int pushes_;
};

}  // namespace

PsRule softsync(int ranks, int splitting) {
  const int pushes = std::max(1, ranks / splitting);
  if (pushes == 1) return asynchronous();
  return [pushes](int) { return std::make_unique<Softsync>(pushes); };
}

}  // namespace lockstep
