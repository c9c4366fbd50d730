// The servers of a run. Each server takes the next push from its inbox, works on it, applies it by
// the consistency rule (rules/rule.hpp), and answers the workers that may pull. One object holds
// all servers; worker.cpp starts one serve() program for each. Private to
// sim/strategies/parameter_server.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "strategies/parameter_server/wire.hpp"

namespace lockstep {

class Servers {
 public:
  // If the rule forbids workers to begin at once (workers that are not drawn), blocks these
  // workers.
  Servers(PsRun& run, Books& books, Wire& wire);

  // The loop of a server, which takes messages from its inbox in order. A serial server works on
  // only one message, including its transfer, at the same time; if each push is an update, it sends
  // an answer before it takes further messages. Never returns; the end of the run cancels it.
  Program serve(int server);
  // Changes the rule. Pushes that wait for an update under the old rule become one update, and
  // workers that the new rule does not block continue. Null: the rule does not change.
  void change_rule(const PsRule* rule);

 private:
  // The state of a message on its server.
  struct Shard {
    std::unique_ptr<MessageRule> rule;  // the present rule
    std::int64_t version = 0;           // number of updates applied
    int arrived = 0;                    // number of ranks whose pushes wait for the next update
    std::vector<Contribution> waiting;  // these pushes, oldest first
    std::vector<int> settled;        // by worker: number of its pushes that were applied or dropped
    std::vector<std::int64_t> read;  // by worker: the version that it pulled last
    std::vector<int> blocked;        // workers that may not pull yet, the longest-waiting first
  };

  // Seconds of work on the push, which depend on the state of its message when the server begins.
  double service_seconds(const PsParcel& push) const;
  // Called after the server has worked on the push: drops it, applies it, or stores it for the next
  // update.
  void take(const PsParcel& push);
  // Applies the pushes as one update, and answers the workers that may pull.
  void update(int message, std::span<const Contribution> pushes);
  // Makes an update of all waiting pushes, even if the rule requires more.
  void update_waiting(int message);
  void settle(int message, const Contribution& push, bool used);
  // Sends the present weights to the worker.
  void answer(int message, int worker);
  void answer_or_block(int message, int worker, bool may);
  // Answers blocked workers that may continue, then workers of `pushes` that have no answer yet.
  void answer_all_that_may(int message, std::span<const Contribution> pushes);

  PsRun& run_;
  Books& books_;
  Wire& wire_;
  std::vector<Shard> shards_;  // by message
};

}  // namespace lockstep
