// The servers of a run. Each takes the next push from its inbox, works on it, applies it by the
// consistency rule, and answers the workers that may pull. One object holds all servers; worker.cpp
// starts one serve() program for each. Private to the room.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "strategies/parameter_server/wire.hpp"

namespace lockstep {

class Servers {
 public:
  // Blocks the workers that may not begin at once under the rule (workers that are not drawn).
  Servers(PsRun& run, Books& books, Wire& wire);

  // The loop of a server: first come, first served. A serial server handles one message at a time,
  // its transfer included. Never returns; the end of the run cancels it.
  Program serve(int server);
  // Changes the rule. Pushes that waited under the old rule become an update of their own, and
  // workers that the new rule does not block go on. Null: nothing changes.
  void change_rule(const PsRule* rule);

 private:
  // The state of a message on its server.
  struct Shard {
    std::unique_ptr<MessageRule> rule;  // in force at present
    std::int64_t version = 0;           // number of updates applied
    int arrived = 0;                    // number of ranks whose push waits for the next update
    std::vector<Contribution> waiting;  // pushes that wait for the next update, oldest first
    std::vector<int> settled;           // by worker: pushes applied or dropped
    std::vector<std::int64_t> read;     // by worker: version that it pulled last
    std::vector<int> blocked;           // workers that may not pull yet, oldest first
  };

  // Seconds of work on the push, by the state of its message when the server takes it up.
  double service_seconds(const PsParcel& push) const;
  // The server has worked on the push: drops it, applies it, or keeps it for the next update.
  void take(const PsParcel& push);
  // Applies the pushes as one update and answers the workers that may pull.
  void update(int message, std::span<const Contribution> pushes);
  // Makes an update of all pushes that wait, even if the rule asks for more.
  void update_waiting(int message);
  void settle(int message, const Contribution& push, bool used);
  // Sends the present weights to the worker.
  void answer(int message, int worker);
  void answer_or_block(int message, int worker, bool may);
  // Answers blocked workers that may go on, then the workers of `pushes` that have no answer yet.
  void answer_all_that_may(int message, std::span<const Contribution> pushes);

  PsRun& run_;
  Books& books_;
  Wire& wire_;
  std::vector<Shard> shards_;  // by message
};

}  // namespace lockstep
