// The loop of a server, and its work on a push: add the push to the sum of the next update, apply
// the update when it has as many pushes as the rule requires, and answer the workers that the rule
// allows to pull. This is the server of ps-lite and of the PyTorch RPC tutorials (facts 68, 69,
// 81), but with an exchangeable rule (rules/rule.hpp).
#include "strategies/parameter_server/server.hpp"

#include <utility>

#include "core/index.hpp"

namespace lockstep {

Servers::Servers(PsRun& run, Books& books, Wire& wire)
    : run_(run), books_(books), wire_(wire), shards_(run.system.messages.size()) {
  const std::size_t workers = run.system.workers.size();
  for (Shard& shard : shards_) {
    shard.rule = run.system.rule(static_cast<int>(workers));
    shard.settled.assign(workers, 0);
    shard.read.assign(workers, 0);
  }
  // If the rule forbids a worker to begin, the worker waits for an answer to a push that it never
  // made.
  for (std::size_t m = 0; m < shards_.size(); ++m) {
    for (std::size_t worker = 0; worker < workers; ++worker) {
      const PsParcel first{Direction::pull, static_cast<int>(worker), static_cast<int>(m)};
      if (shards_[m].rule->may_go_on(first.worker)) continue;
      shards_[m].blocked.push_back(first.worker);
      wire_.expect(first);
    }
  }
}

Program Servers::serve(int server) {
  constexpr double update_cores = 1;  // one thread applies updates
  Executor& executor = run_.executor;
  Activity& busy = books_.server(server);
  SharedCore* const core = run_.core_of_server(server);
  while (true) {
    const PsParcel parcel = co_await wire_.inbox(server).receive();
    busy.change(+1, executor.now());
    // A serial server carries pushes and answers itself. Any other server receives only pushes,
    // after they have arrived.
    if (run_.system.serial_servers) co_await wire_.carry(parcel);
    if (parcel.direction == Direction::push) {
      const double start = executor.now();
      ServerDemand demand(core, update_cores, start);
      co_await executor.sleep_for(service_seconds(parcel));
      // On a core that a worker also uses, the work takes longer (SharedCore).
      while (const double missed = demand.missed(executor.now())) {
        co_await executor.sleep_for(missed);
      }
      if (run_.watch) run_.watch->serves(parcel, start, executor.now());
    }
    busy.change(-1, executor.now());
    if (parcel.direction == Direction::push) take(parcel);
  }
}

// A dropped push takes no time. A push that is an update by itself is applied without a sum. Any
// other push is stored or added to the sum, and the last push of an update also takes the time of
// the update. A worker that represents several ranks pushes equally many gradients.
double Servers::service_seconds(const PsParcel& push) const {
  const PsMessage& message = run_.message(push.message);
  const Shard& shard = shards_[at(push.message)];
  if (shard.rule->drops(shard.read[at(push.worker)], shard.version)) return 0;
  const int ranks = run_.ranks(push.worker);
  const int pushes = shard.rule->pushes_per_update(push.worker);
  if (pushes == 1) return ranks * message.update_seconds;
  double seconds = shard.arrived == 0
                       ? message.keep_seconds + (ranks - 1) * message.accumulate_seconds
                       : ranks * message.accumulate_seconds;
  if (shard.arrived + ranks >= pushes) seconds += message.update_seconds;
  return seconds;
}

// One of three cases: the rule drops the push; the push is an update by itself; or the push waits
// with others for an update. In the third case, a rule whose workers do not wait (softsync) answers
// the worker before the update.
void Servers::take(const PsParcel& push) {
  Shard& shard = shards_[at(push.message)];
  const Contribution contribution{push.worker, shard.read[at(push.worker)]};
  books_.take(push);
  if (shard.rule->drops(contribution.read, shard.version)) {
    settle(push.message, contribution, false);
    answer_or_block(push.message, push.worker, shard.rule->may_go_on(push.worker));
    return;
  }
  const int pushes = shard.rule->pushes_per_update(push.worker);
  if (pushes == 1) {
    update(push.message, {&contribution, 1});
    return;
  }
  shard.waiting.push_back(contribution);
  shard.arrived += run_.ranks(push.worker);
  if (shard.arrived >= pushes) {
    update_waiting(push.message);
  } else if (!shard.rule->pusher_waits()) {
    shard.waiting.back().answered = true;
    answer(push.message, push.worker);
  }
}

// The pushes are settled (counted as applied) before the version increases, so that their own
// update does not count in their staleness.
void Servers::update(int m, std::span<const Contribution> pushes) {
  for (const Contribution& push : pushes) settle(m, push, true);
  Shard& shard = shards_[at(m)];
  shard.rule->begin_round(++shard.version);
  answer_all_that_may(m, pushes);
}

void Servers::update_waiting(int m) {
  Shard& shard = shards_[at(m)];
  update(m, shard.waiting);
  shard.waiting.clear();
  shard.arrived = 0;
}

void Servers::settle(int m, const Contribution& push, bool used) {
  Shard& shard = shards_[at(m)];
  books_.settle(m, push, shard.version, used);
  ++shard.settled[at(push.worker)];
  shard.rule->settle(push.worker, run_.executor.now());
}

// The present weights travel to the worker. If each push is an update, a serial server sends the
// answer before it takes the next message; otherwise the answer waits behind other messages.
void Servers::answer(int m, int worker) {
  Shard& shard = shards_[at(m)];
  shard.read[at(worker)] = shard.version;
  wire_.send({Direction::pull, worker, m}, shard.rule->pushes_per_update(worker) == 1);
}

// Workers that wait because of earlier pushes are answered first, then the workers of this update.
void Servers::answer_all_that_may(int m, std::span<const Contribution> pushes) {
  Shard& shard = shards_[at(m)];
  std::erase_if(shard.blocked, [&](int worker) {
    if (!shard.rule->may_go_on(worker)) return false;
    answer(m, worker);
    return true;
  });
  for (const Contribution& push : pushes) {
    if (!push.answered) answer_or_block(m, push.worker, shard.rule->may_pull(push.worker));
  }
}

void Servers::answer_or_block(int m, int worker, bool may) {
  if (may) {
    answer(m, worker);
  } else {
    shards_[at(m)].blocked.push_back(worker);
  }
}

// Pushes of steps that have begun, but are not settled yet (applied or dropped), become updates of
// their own. `earlier` counts them for each worker: the number of steps that the worker has begun,
// less the number of its settled pushes of the message.
void Servers::change_rule(const PsRule* rule) {
  if (rule == nullptr) return;
  const int workers = static_cast<int>(run_.system.workers.size());
  for (std::size_t m = 0; m < shards_.size(); ++m) {
    Shard& shard = shards_[m];
    std::vector<int> earlier;
    for (int worker = 0; worker < workers; ++worker) {
      earlier.push_back(books_.worker(worker).step.number + 1 - shard.settled[at(worker)]);
    }
    shard.rule = (*rule)(workers);
    shard.rule->begin_midway(std::move(earlier));
    const int number = static_cast<int>(m);
    shard.waiting.empty() ? answer_all_that_may(number, {}) : update_waiting(number);
  }
}

}  // namespace lockstep
