// Bulk-synchronous: one update from the pushes of all ranks, which wait for it (facts 68, 83). With
// backup workers (Chen et al. 2016; fact 87) an update takes the first pushes that were computed on
// the present weights; later ones are dropped, and answered with the new weights.
#include "strategies/parameter_server/rules/rule.hpp"

namespace lockstep {

PsRule bulk_synchronous(int ranks, int backup) {
  struct BulkSynchronous final : MessageRule {
    BulkSynchronous(int n, bool late) : needed(n), drops_late(late) {}
    int pushes() const override { return needed; }
    bool drops(std::int64_t read, std::int64_t version) const override {
      return drops_late && read < version;
    }
    int needed;
    bool drops_late;
  };
  return [=](int) { return std::make_unique<BulkSynchronous>(ranks - backup, backup > 0); };
}

}  // namespace lockstep
