// Servers: one queue each, served first come first served; consistency and staleness of every
// message.
#include <algorithm>

#include "strategies/ps_run.hpp"

namespace lockstep {

// Takes up the next task of an idle server. A serial server's task begins with the transfer; others
// get pushes only when these have arrived, and leave the answers to the network.
void PsRun::pump(int server_id) {
  Server& server = servers_[static_cast<std::size_t>(server_id)];
  if (server.busy || server.tasks.empty()) return;
  const Task task = server.tasks.front();
  server.tasks.pop_front();
  server.busy = true;
  server.busy_since = now_;
  server.current = task;
  if (system_.serial_servers) {
    begin_transfer(task.direction, task.worker, task.message);
  } else {
    serve(server_id, task);
  }
}

// The gradient is there: add it to the others of this update, and apply them when it is the last.
void PsRun::serve(int server_id, const Task& task) {
  const PsMessage& m = message(task.message);
  const Shared& shared = shared_[static_cast<std::size_t>(task.message)];
  const int ranks = system_.workers[static_cast<std::size_t>(task.worker)].ranks;
  double seconds = 0;
  if (system_.rule.pushes_per_update == 1) {
    seconds = ranks * m.update_seconds;
  } else {
    seconds = shared.arrived == 0 ? m.keep_seconds + (ranks - 1) * m.accumulate_seconds
                                  : ranks * m.accumulate_seconds;
    if (shared.arrived + ranks >= system_.rule.pushes_per_update) seconds += m.update_seconds;
  }
  service_begins(server_id);
  schedule(now_ + seconds, Kind::service_end, task.direction, server_id, task.message);
}

void PsRun::served(int server_id) {
  Server& server = servers_[static_cast<std::size_t>(server_id)];
  server.busy = false;
  server.busy_seconds += now_ - server.busy_since;
  const Task task = server.current;
  if (task.direction == Direction::push) apply_push(task.worker, task.message);
  pump(server_id);
}

void PsRun::apply_push(int w, int m) {
  Shared& shared = shared_[static_cast<std::size_t>(m)];
  shared.arrived += system_.workers[static_cast<std::size_t>(w)].ranks;
  shared.contributors.push_back(w);
  if (shared.arrived < system_.rule.pushes_per_update) return;

  std::vector<int> contributors;
  contributors.swap(shared.contributors);
  shared.arrived = 0;
  for (const int contributor : contributors) {
    const std::int64_t staleness =
        shared.version - shared.seen[static_cast<std::size_t>(contributor)];
    if (staleness >= static_cast<std::int64_t>(staleness_.size())) {
      staleness_.resize(static_cast<std::size_t>(staleness) + 1, 0);
    }
    staleness_[static_cast<std::size_t>(staleness)] +=
        system_.workers[static_cast<std::size_t>(contributor)].ranks;
    advance_clock(shared, contributor);
  }
  ++shared.version;

  // Whoever waited for the slowest goes first, then those whose push this was.
  std::vector<int> candidates;
  candidates.swap(shared.blocked);
  candidates.insert(candidates.end(), contributors.begin(), contributors.end());
  for (const int candidate : candidates) {
    if (system_.rule.may_pull(shared.clock[static_cast<std::size_t>(candidate)], shared.slowest)) {
      answer(candidate, m);
    } else {
      shared.blocked.push_back(candidate);
    }
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

// The weights as they are now travel to the worker.
void PsRun::answer(int w, int m) {
  Shared& shared = shared_[static_cast<std::size_t>(m)];
  shared.seen[static_cast<std::size_t>(w)] = shared.version;
  request(Direction::pull, w, m);
}

}  // namespace lockstep
