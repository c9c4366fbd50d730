// Bulk-synchronous: each update is made from the pushes of all ranks, which wait for it (facts 68,
// 83). With backup workers (Chen et al. 2016; fact 87), an update uses the first pushes that were
// computed on the present weights; later pushes are dropped, and answered with the new weights.
// With `participants`, workers are drawn for each update (federated averaging: McMahan et al. 2017,
// algorithm 1). With both, more workers are drawn than the update waits for (Bonawitz et al. 2019,
// section 2.2).
#include "results/participants.hpp"
#include "strategies/parameter_server/rules/rule.hpp"

namespace lockstep {

namespace {

// Synchronous updates from a drawn subset of the workers. A worker that is not drawn waits, without
// computing, until an update for which it is drawn.
struct Sampled final : MessageRule {
  Sampled(int all, int of_them, int backup, std::uint64_t key)
      : workers(all), drawn(of_them), backups(backup), seed(key) {
    begin_round(0);
  }
  void begin_round(std::int64_t version) override {
    takes_part = participants(workers, drawn, seed, version);
  }
  bool drops(std::int64_t read, std::int64_t version) const override {
    return backups > 0 && read < version;
  }
  bool may_pull(int worker) override { return takes_part[at(worker)]; }
  bool may_go_on(int worker) const override { return takes_part[at(worker)]; }

  int workers, drawn, backups;
  std::uint64_t seed;
  std::vector<bool> takes_part;  // by worker: whether it takes part in the present update

 private:
  int pushes() const override { return drawn - backups; }
};

}  // namespace

PsRule sampled_synchronous(int drawn, int backup, std::uint64_t seed) {
  return [=](int workers) { return std::make_unique<Sampled>(workers, drawn, backup, seed); };
}

PsRule bulk_synchronous(int ranks, int backup) {
  struct BulkSynchronous final : MessageRule {
    BulkSynchronous(int n, bool late) : needed(n), drops_late(late) {}
    int pushes() const override { return needed; }
    // A push is late if its message has been updated since the worker pulled the weights. Without
    // backup workers, this never happens.
    bool drops(std::int64_t read, std::int64_t version) const override {
      return drops_late && read < version;
    }
    int needed;
    bool drops_late;
  };
  return [=](int) { return std::make_unique<BulkSynchronous>(ranks - backup, backup > 0); };
}

}  // namespace lockstep
