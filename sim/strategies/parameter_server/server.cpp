// A server: take a push, work on it, apply it by the rule, answer whoever may pull. First come,
// first served. And what it keeps of every message: its version, and who is how far.
#include <algorithm>

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
  const int arrived = shared_[static_cast<std::size_t>(push.message)].arrived;
  const int ranks = ranks_of(push.worker);
  if (late(push)) return 0;
  if (rule_.pushes_per_update == 1 || is_let_go(push)) return ranks * m.update_seconds;
  double seconds = arrived == 0 ? m.keep_seconds + (ranks - 1) * m.accumulate_seconds
                                : ranks * m.accumulate_seconds;
  if (arrived + ranks >= rule_.pushes_per_update) seconds += m.update_seconds;
  return seconds;
}

bool PsRun::late(const Parcel& push) const {
  const Shared& shared = shared_[static_cast<std::size_t>(push.message)];
  return rule_.drops_late && shared.seen[static_cast<std::size_t>(push.worker)] < shared.version;
}

// Of a step that began before all had to wait for each other: some of its messages were answered by
// then, and whoever waited for all workers in some messages of a step and not in others would wait for
// other steps of theirs in each. It is an update of its own.
bool PsRun::is_let_go(const Parcel& push) const {
  return rule_.pushes_per_update > 1 && push.rule != rules_begun_;
}

void PsRun::take(const Parcel& push) {
  Shared& shared = shared_[static_cast<std::size_t>(push.message)];
  const Contribution made{push.worker, shared.seen[static_cast<std::size_t>(push.worker)]};
  pushes_ += ranks_of(push.worker);
  if (late(push)) {
    dropped_ += ranks_of(push.worker);
    ++worker_of(push.worker).dropped;
    record_push(push.message, made, false);
    answer(push.message, push.worker);
    return;
  }
  if (is_let_go(push)) {
    apply(push.message, made);
    ++shared.version;
    answer(push.message, push.worker);
    return;
  }
  shared.arrived += ranks_of(push.worker);
  shared.contributions.push_back(made);
  if (shared.arrived >= rule_.pushes_per_update) {
    update(push.message);
  } else if (!rule_.pusher_waits) {
    shared.contributions.back().answered = true;
    answer(push.message, push.worker);
  }
}

// With all pushes that have arrived.
void PsRun::update(int m) {
  Shared& shared = shared_[static_cast<std::size_t>(m)];
  std::vector<Contribution>& contributions = contributions_;
  contributions.clear();
  contributions.swap(shared.contributions);
  shared.arrived = 0;
  for (const Contribution& push : contributions) apply(m, push);
  ++shared.version;
  std::erase_if(contributions, [](const Contribution& push) { return push.answered; });
  answer_whoever_may(m, contributions);
}

// One push of the update that is made.
void PsRun::apply(int m, const Contribution& push) {
  Shared& shared = shared_[static_cast<std::size_t>(m)];
  const auto staleness = static_cast<std::size_t>(shared.version - push.read);
  if (staleness >= staleness_.size()) staleness_.resize(staleness + 1, 0);
  staleness_[staleness] += ranks_of(push.worker);
  record_push(m, push, true);
  advance_clock(shared, push.worker);
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
    if (rule_.may_pull(shared.clock[static_cast<std::size_t>(w)], shared.slowest)) {
      answer(m, w);
    } else {
      shared.blocked.push_back(w);
    }
  }
  for (const Contribution& push : pushed) {
    if (may_pull(shared, push.worker)) {
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

void PsRun::advance_clock(Shared& shared, int w) {
  const int clock = shared.clock[static_cast<std::size_t>(w)]++;
  if (rule_.lead == PsRule::kUnbounded) return;
  const std::size_t place = static_cast<std::size_t>(clock - shared.slowest);
  if (place + 1 >= shared.workers_at.size()) shared.workers_at.resize(place + 2, 0);
  --shared.workers_at[place];
  ++shared.workers_at[place + 1];
  while (shared.workers_at.front() == 0) {
    shared.workers_at.pop_front();
    ++shared.slowest;
  }
  if (rule_.extra == 0) return;
  PushTimes& times = shared.times[static_cast<std::size_t>(w)];
  times = {executor_.now(), executor_.now() - times.last};
}

// Of a worker whose push has just been applied. DSSP (Zhao et al. 2019), algorithm 1.
bool PsRun::may_pull(Shared& shared, int w) {
  const auto at = static_cast<std::size_t>(w);
  if (rule_.extra > 0 && shared.extra[at] > 0) {
    --shared.extra[at];
    return true;
  }
  if (rule_.may_pull(shared.clock[at], shared.slowest)) return true;
  return rule_.extra > 0 && goes_further(shared, w);
}

// Beyond the bound: as far as the pace of the fastest and the slowest says, if it is the fastest.
bool PsRun::goes_further(Shared& shared, int w) {
  const auto at = static_cast<std::size_t>(w);
  const auto fastest = std::max_element(shared.clock.begin(), shared.clock.end());
  if (shared.clock[at] < *fastest) return false;
  const auto slowest = std::min_element(shared.clock.begin(), shared.clock.end());
  const PushTimes& theirs = shared.times[static_cast<std::size_t>(slowest - shared.clock.begin())];
  const int beyond = shared.clock[at] - shared.slowest - rule_.lead;
  const int most = rule_.extra - beyond + 1;
  shared.extra[at] = most > 0 ? best_extra(shared.times[at], theirs, most) : 0;
  if (shared.extra[at] == 0) return false;
  --shared.extra[at];
  return true;
}

// Pushes that waited under the old rule are an update of their own; nobody waits for what the new
// one does not ask for.
void PsRun::change_rule(const PsRule& rule) {
  rule_ = rule;
  ++rules_begun_;
  for (std::size_t m = 0; m < shared_.size(); ++m) {
    const int number = static_cast<int>(m);
    if (shared_[m].arrived > 0) {
      update(number);
    } else {
      answer_whoever_may(number, {});
    }
  }
}

// Looks at the workers once a round. What it sees of a step leaves out what the worker waited for
// others: that is the same for all as long as they wait for each other.
void PsRun::control(const Worker& finished) {
  if (!pace_) return;
  pace_->add(finished.id,
             executor_.now() - finished.started - (finished.sum.waiting - finished.waited_before),
             finished.sum.exposed_communication - finished.exposed_before);
  if (++controlled_ % static_cast<std::int64_t>(workers_.size()) != 0) return;
  const double apart = pace_->slowest_over_median(), share = pace_->communication_share();
  const bool alone = asynchronous_.running > 0;
  if (!alone && system_.controller->lets_go(apart, share)) {
    asynchronous_.change(+1, executor_.now());
    ++trace_.stretches;
    change_rule(switched_rule(Consistency::async, ranks_));
  } else if (alone && system_.controller->comes_back(apart, share)) {
    asynchronous_.change(-1, executor_.now());
    change_rule(system_.rule);
  }
}

}  // namespace lockstep
