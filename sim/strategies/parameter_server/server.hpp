// The servers: each takes a push, works on it, applies it by the rule and answers all workers that
// may pull. One object runs all servers of a system. Private to the room.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "strategies/parameter_server/wire.hpp"

namespace lockstep {

class Servers {
 public:
  Servers(PsRun& run, Books& books, Wire& wire);

  // First come, first served. A serial server has one message at a time, its transfer included.
  Program serve(int server);
  // Changes the rule. Pushes that waited under the old rule become an update of their own, and
  // workers that the new rule does not block go on. Null: nothing changes.
  void change_rule(const PsRule* rule);

 private:
  // The state of a message on its server.
  struct Shard {
    std::unique_ptr<MessageRule> rule;  // the present one
    std::int64_t version = 0;           // updates applied
    int arrived = 0;                    // ranks whose push waits for the next update,
    std::vector<Contribution> waiting;  // and their pushes
    std::vector<int> settled;           // pushes of each worker, applied or dropped
    std::vector<std::int64_t> read;     // version that each worker pulled last
    std::vector<int> blocked;           // workers that may not pull yet, oldest first
  };

  double service_seconds(const PsParcel& push) const;
  void take(const PsParcel& push);
  void update(int message, std::span<const Contribution> pushes);
  void update_waiting(int message);
  void settle(int message, const Contribution& push, bool used);
  void answer(int message, int worker);
  void answer_or_block(int message, int worker, bool may);
  void answer_all_that_may(int message, std::span<const Contribution> pushes);

  PsRun& run_;
  Books& books_;
  Wire& wire_;
  std::vector<Shard> shards_;  // by message
};

}  // namespace lockstep
