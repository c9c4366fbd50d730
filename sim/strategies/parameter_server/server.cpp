// A server: take a push, work on it, apply it by the rule, answer whoever may pull. First come,
// first served. And what it keeps of every message: its version, and who is how far.
#include <utility>

#include "strategies/parameter_server/run.hpp"

namespace lockstep {

// A serial one has one message at a time, its transfer included.
Program PsRun::server(Server& self) {
  constexpr double update_cores = 1;  // one thread applies updates
  SharedCore* const core = core_of_server(self.id);
  while (true) {
    const Parcel parcel = co_await self.inbox.receive();
    self.busy.change(+1, executor_.now());
    if (system_.serial_servers) {
      co_await carry(nullptr, {.parcel = parcel});
      if (parcel.direction == Direction::pull) {
        executor_.start("tail", tail(parcel));
        self.busy.change(-1, executor_.now());
        continue;
      }
      count_transfer(parcel, -1);
    }
    const double start = executor_.now();
    ServerDemand demand(core, update_cores, start);
    co_await executor_.sleep_for(service_seconds(parcel));
    while (const double missed = demand.missed(executor_.now())) {
      co_await executor_.sleep_for(missed);
    }
    if (watch_) watch_->serves(parcel.message, parcel.number, start, executor_.now());
    self.busy.change(-1, executor_.now());
    take(parcel);
  }
}

// To add the gradient to the others of this update, and apply them when it is the last. Nothing is
// done with one that is dropped.
double PsRun::service_seconds(const Parcel& push) const {
  const PsMessage& m = message(push.message);
  const Shared& shared = shared_[static_cast<std::size_t>(push.message)];
  const int arrived = shared.arrived, ranks = ranks_of(push.worker);
  if (late(push)) return 0;
  const int pushes = shared.rule->pushes_per_update(push.worker);
  if (pushes == 1) return ranks * m.update_seconds;
  double seconds = arrived == 0 ? m.keep_seconds + (ranks - 1) * m.accumulate_seconds
                                : ranks * m.accumulate_seconds;
  if (arrived + ranks >= pushes) seconds += m.update_seconds;
  return seconds;
}

bool PsRun::late(const Parcel& push) const {
  const Shared& shared = shared_[static_cast<std::size_t>(push.message)];
  return shared.rule->drops(shared.seen[static_cast<std::size_t>(push.worker)], shared.version);
}

void PsRun::take(const Parcel& push) {
  Shared& shared = shared_[static_cast<std::size_t>(push.message)];
  const Contribution made{push.worker, shared.seen[static_cast<std::size_t>(push.worker)]};
  pushes_ += ranks_of(push.worker);
  if (late(push)) {
    dropped_ += ranks_of(push.worker);
    ++worker_of(push.worker).dropped;
    record_push(push.message, made, false);
    settle(shared, push.worker);
    answer(push.message, push.worker);
    return;
  }
  const int pushes = shared.rule->pushes_per_update(push.worker);
  contributions_.clear();
  if (pushes == 1) {
    contributions_.push_back(made);
    update(push.message);
    return;
  }
  shared.arrived += ranks_of(push.worker);
  shared.contributions.push_back(made);
  if (shared.arrived >= pushes) {
    contributions_.swap(shared.contributions);
    shared.arrived = 0;
    update(push.message);
  } else if (!shared.rule->pusher_waits()) {
    shared.contributions.back().answered = true;
    answer(push.message, push.worker);
  }
}

// With contributions_.
void PsRun::update(int m) {
  Shared& shared = shared_[static_cast<std::size_t>(m)];
  for (const Contribution& push : contributions_) apply(m, push);
  ++shared.version;
  std::erase_if(contributions_, [](const Contribution& push) { return push.answered; });
  answer_whoever_may(m, contributions_);
}

void PsRun::settle(Shared& shared, int worker) {
  ++shared.settled[static_cast<std::size_t>(worker)];
  shared.rule->settled(worker, executor_.now());
}

// One push of the update that is made.
void PsRun::apply(int m, const Contribution& push) {
  Shared& shared = shared_[static_cast<std::size_t>(m)];
  const auto staleness = static_cast<std::size_t>(shared.version - push.read);
  if (staleness >= staleness_.size()) staleness_.resize(staleness + 1, 0);
  staleness_[staleness] += ranks_of(push.worker);
  record_push(m, push, true);
  settle(shared, push.worker);
}

// The weights as they are now travel to the worker.
void PsRun::answer(int m, int w) {
  Shared& shared = shared_[static_cast<std::size_t>(m)];
  shared.seen[static_cast<std::size_t>(w)] = shared.version;
  send({.direction = Direction::pull, .worker = w, .message = m});
}

// Whoever waited for the slowest goes first, then those whose push this was.
void PsRun::answer_whoever_may(int m, const std::vector<Contribution>& pushed) {
  Shared& shared = shared_[static_cast<std::size_t>(m)];
  std::vector<int> waited;
  waited.swap(shared.blocked);
  for (const int w : waited) {
    if (shared.rule->may_go_on(w)) {
      answer(m, w);
    } else {
      shared.blocked.push_back(w);
    }
  }
  for (const Contribution& push : pushed) {
    if (shared.rule->may_pull(push.worker)) {
      answer(m, push.worker);
    } else {
      shared.blocked.push_back(push.worker);
    }
  }
}

void PsRun::record_push(int m, const Contribution& push, bool used) {
  if (!system_.records_updates) return;
  const std::int64_t made = used ? shared_[static_cast<std::size_t>(m)].version + 1 : 0;
  int rank = 0;
  for (int before = 0; before < push.worker; ++before) rank += ranks_of(before);
  for (int i = 0; i < ranks_of(push.worker); ++i) {
    trace_.updates.push_back({executor_.now(), rank + i, m, push.read, made});
  }
}

// Pushes that waited under the old rule are an update of their own; nobody waits for what the new
// one does not ask for.
void PsRun::change_rule(const PsRule* rule) {
  if (rule == nullptr) return;
  const int workers = static_cast<int>(workers_.size());
  for (std::size_t m = 0; m < shared_.size(); ++m) {
    Shared& shared = shared_[m];
    std::vector<int> earlier;
    for (const auto& worker : workers_) {
      earlier.push_back(worker->steps - shared.settled[static_cast<std::size_t>(worker->id)]);
    }
    shared.rule = beginning_midway((*rule)(workers), std::move(earlier));
    const int number = static_cast<int>(m);
    if (shared.arrived > 0) {
      contributions_.clear();
      contributions_.swap(shared.contributions);
      shared.arrived = 0;
      update(number);
    } else {
      answer_whoever_may(number, {});
    }
  }
}

}  // namespace lockstep
