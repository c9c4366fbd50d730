// Bulk-synchronous: one update from the pushes of all ranks, which wait for it (facts 68, 83). With
// backup workers (Chen et al. 2016; fact 87) an update takes the first pushes that were computed on
// the present weights; later ones are dropped, and answered with the new weights.
#include "strategies/parameter_server/rules/rule.hpp"

namespace lockstep {

namespace {

class BulkSynchronous final : public MessageRule {
 public:
  BulkSynchronous(int ranks, int backup) : pushes_(ranks - backup), drops_late_(backup > 0) {}
  int pushes_per_update(int) const override { return pushes_; }
  bool drops(std::int64_t read, std::int64_t version) const override {
    return drops_late_ && read < version;
  }

 private:
  int pushes_;
  bool drops_late_;
};

}  // namespace

PsRule bulk_synchronous(int ranks, int backup) {
  return [=](int) { return std::make_unique<BulkSynchronous>(ranks, backup); };
}

}  // namespace lockstep
