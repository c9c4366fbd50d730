// A server: take a push, work on it, apply it by the rule, answer whoever may pull. First come,
// first served. And what it keeps of every message: its version, and who is how far.
#include <algorithm>

#include "strategies/parameter_server/run.hpp"

namespace lockstep {

Program PsRun::server(Server& self) {
  while (true) {
    const Parcel push = co_await self.inbox.receive();
    self.busy.change(+1, executor_.now());
    co_await handle(push);
    self.busy.change(-1, executor_.now());
    apply(push);
  }
}

// One message at a time, its transfer included.
Program PsRun::serial_server(Server& self) {
  while (true) {
    const Parcel parcel = co_await self.inbox.receive();
    self.busy.change(+1, executor_.now());
    co_await transfer(parcel);
    if (parcel.direction == Direction::push) {
      count_transfer(parcel, -1);
      co_await handle(parcel);
    } else {
      executor_.start("tail", tail(parcel));
    }
    self.busy.change(-1, executor_.now());
    if (parcel.direction == Direction::push) apply(parcel);
  }
}

Program PsRun::handle(Parcel push) {
  constexpr double update_cores = 1;  // one thread applies updates
  const double start = executor_.now();
  ServerDemand demand(core_of_server(message(push.message).server), update_cores, start);
  co_await executor_.sleep_for(service_seconds(push));
  while (const double missed = demand.missed(executor_.now())) {
    co_await executor_.sleep_for(missed);
  }
  if (watch_) watch_->serves(push.message, push.number, start, executor_.now());
}

// To add the gradient to the others of this update, and apply them when it is the last.
double PsRun::service_seconds(const Parcel& push) const {
  const PsMessage& m = message(push.message);
  const int arrived = shared_[static_cast<std::size_t>(push.message)].arrived;
  const int ranks = ranks_of(push.worker);
  if (system_.rule.pushes_per_update == 1) return ranks * m.update_seconds;
  double seconds = arrived == 0 ? m.keep_seconds + (ranks - 1) * m.accumulate_seconds
                                : ranks * m.accumulate_seconds;
  if (arrived + ranks >= system_.rule.pushes_per_update) seconds += m.update_seconds;
  return seconds;
}

void PsRun::apply(const Parcel& push) {
  Shared& shared = shared_[static_cast<std::size_t>(push.message)];
  shared.arrived += ranks_of(push.worker);
  shared.contributors.push_back(push.worker);
  if (shared.arrived < system_.rule.pushes_per_update) return;

  std::vector<int> contributors;
  contributors.swap(shared.contributors);
  shared.arrived = 0;
  for (const int contributor : contributors) {
    const auto staleness = static_cast<std::size_t>(
        shared.version - shared.seen[static_cast<std::size_t>(contributor)]);
    if (staleness >= staleness_.size()) staleness_.resize(staleness + 1, 0);
    staleness_[staleness] += ranks_of(contributor);
    record_update(push.message, contributor);
    advance_clock(shared, contributor);
  }
  ++shared.version;

  // Whoever waited for the slowest goes first, then those whose push this was. The weights as they
  // are now travel to them.
  std::vector<int> candidates;
  candidates.swap(shared.blocked);
  candidates.insert(candidates.end(), contributors.begin(), contributors.end());
  for (const int candidate : candidates) {
    const auto at = static_cast<std::size_t>(candidate);
    if (system_.rule.may_pull(shared.clock[at], shared.slowest)) {
      shared.seen[at] = shared.version;
      send({Direction::pull, candidate, push.message});
    } else {
      shared.blocked.push_back(candidate);
    }
  }
}

void PsRun::record_update(int m, int w) {
  if (!system_.records_updates) return;
  const Shared& shared = shared_[static_cast<std::size_t>(m)];
  int rank = 0;
  for (int before = 0; before < w; ++before) rank += ranks_of(before);
  for (int i = 0; i < ranks_of(w); ++i) {
    trace_.updates.push_back({executor_.now(), rank + i, m,
                              shared.seen[static_cast<std::size_t>(w)], shared.version + 1});
  }
}

void PsRun::advance_clock(Shared& shared, int w) {
  const int clock = shared.clock[static_cast<std::size_t>(w)]++;
  if (system_.rule.lead == PsRule::kUnbounded) return;
  const std::size_t place = static_cast<std::size_t>(clock - shared.slowest);
  if (place + 1 >= shared.workers_at.size()) shared.workers_at.resize(place + 2, 0);
  --shared.workers_at[place];
  ++shared.workers_at[place + 1];
  while (shared.workers_at.front() == 0) {
    shared.workers_at.pop_front();
    ++shared.slowest;
  }
}

}  // namespace lockstep
