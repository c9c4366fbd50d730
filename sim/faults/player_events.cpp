// Events of nodes: failures, repairs, spare nodes, evictions, nodes that leave and join. A node is
// in one of these states:
//   in use     trains, or waits with the job; failures by rate happen only in this state
//   idle       a spare node, or back and not needed yet
//   expected   in repair, or on its way to the job; returns_ has the time of its return
//   away       has left with notice, or has not joined yet; returns by a `joins` event
//   lost       failed without `repair`; returns by a `joins` event
#include <algorithm>
#include <utility>

#include "faults/player.hpp"

namespace lockstep {

void Player::expect_those_who_join() {
  std::set<int> seen;
  for (const ScheduledFailure& listed : in_time(plan_.faults.at)) {
    if (listed.joins) ++joining_;
    const std::optional<int> node = listed.joins ? listed.joins : listed.leaves;
    if (node && is_there(*node) && seen.insert(*node).second && listed.joins) set_away(*node, true);
  }
}

void Player::set_away(int node, bool away) {
  at(node).away = away;
  away_ += (away ? 1 : -1) * plan_.workers_of(node);
}

// If this node completes a replica, the replica restarts on its own.
void Player::enter(int node) {
  NodeState& state = at(node);
  state.in_use = true;
  state.place = free_places_.back();
  free_places_.pop_back();
  ++members_;
  failures_.enters(node, now_);
  const bool hot = std::exchange(state.hot, false);
  if (!replicas_.any()) return;
  replicas_.node_enters(state.place);
  const int replica = replicas_.of(state.place);
  if (replicas_.is_whole(replica)) restart_replica(replica, restart_seconds(hot));
}

double Player::restart_seconds(bool hot) const {
  const Faults& faults = plan_.faults;
  return hot ? faults.hot_restart_seconds.value_or(faults.restart_seconds) : faults.restart_seconds;
}

void Player::restart_replica(int replica, double seconds) {
  returns_.push({now_ + seconds + plan_.catch_up_seconds, replica, replicas_.generation(replica),
                 Coming::replica});
}

// Removes a node from the job. Everything that was scheduled for it becomes invalid, because its
// generation changes.
void Player::take_out(int node) {
  NodeState& state = at(node);
  state.in_use = state.evicted = false;
  ++state.generation;
  free_places_.push_back(state.place);
  progress_.loses_host(state.place, now_);
  if (replicas_.any()) replicas_.node_leaves(state.place);
  slow_.erase(node);
  overdue_.erase(node);
  workers_down_ -= std::exchange(state.workers_down, 0);
  --members_;
  failures_.leaves(node);
  leaving_.erase(node);
}

void Player::expect(int node, double seconds) {
  at(node).expected = true;
  returns_.push({now_ + seconds, node});
}

// Executes the next scheduled event.
End Player::comes_back() {
  const Return back = returns_.top();
  returns_.pop();
  if (back.what == Coming::replica) {
    if (replicas_.generation(back.number) == back.generation) replicas_.start(back.number);
    return End::changed;
  }
  NodeState& state = at(back.number);
  if (back.what == Coming::node) {
    state.expected = false;
    return state.away ? End::over : is_available(back.number);
  }
  if (state.generation != back.generation) return End::over;  // the node has left meanwhile
  if (back.what == Coming::eviction) {
    overdue_.insert(back.number);
    return evict();
  }
  --state.workers_down;
  --workers_down_;
  return End::changed;
}

// If nodes come back alone and a place is free, the node enters at once. Otherwise the node is
// idle, and may replace a slow node.
End Player::is_available(int node) {
  if (alone() && members_ < plan_.nodes()) {
    enter(node);
    return End::changed;
  }
  idle_.push_back(node);
  return evict();
}

End Player::evict() {
  End end = End::over;
  // Whether the slow node's place would stay empty: free places, and places of nodes that leave,
  // take all idle nodes.
  const auto is_missed = [&] { return idle_.size() <= leaving_.size() + free_places_.size(); };
  while (!overdue_.empty() && end != End::stopped && (needed_ < plan_.nodes() || !is_missed())) {
    const int node = *overdue_.begin();
    overdue_.erase(overdue_.begin());
    at(node).evicted = true;
    end = leaves(node);
  }
  return end;
}

End Player::becomes_slow(int node) {
  if (!slow_.insert(node).second) return End::over;
  if (const auto& after = plan_.faults.degraded->evict_after_seconds) {
    returns_.push({now_ + *after, node, at(node).generation, Coming::eviction});
  }
  return End::changed;
}

// Executes the next event of the stream of failures.
End Player::fails() {
  const FailureEvent event = failures_.take();
  if (event.what == Failing::server || event.what == Failing::job) {
    ++result_.failures;
    cold_ = true;
    return End::stopped;
  }
  if (event.what == Failing::joins) return joins(event.number);
  // An event at a given time may name a node that is idle, in repair, or not in a job of this size.
  if (event.what == Failing::leaves) return leaves(event.number);
  if (!is_there(event.number) || !at(event.number).in_use) return End::over;
  if (event.what == Failing::slows) return becomes_slow(event.number);
  if (event.what == Failing::worker) return worker_fails(event.number);
  return node_fails(event.number, event.what == Failing::link);
}

// The process of a GPU fails; its node stays. With replicas, the whole replica restarts. Any other
// job whose workers run in step stops. Independent workers continue, and the failed worker returns
// by itself.
End Player::worker_fails(int node) {
  NodeState& state = at(node);
  if (state.workers_down == plan_.workers_of(node)) return End::over;  // all are down
  ++result_.failures;
  const Faults& faults = plan_.faults;
  if (replicas_.any()) {
    const int replica = replicas_.of(state.place);
    const End end = fails_alone(replica);
    if (replicas_.is_whole(replica))
      restart_replica(replica, faults.detection_seconds + faults.restart_seconds);
    return end;
  }
  if (!plan_.independent_workers) {
    cold_ = true;
    return End::stopped;
  }
  ++state.workers_down;
  ++workers_down_;
  returns_.push({now_ + faults.detection_seconds + faults.restart_seconds, node, state.generation,
                 Coming::worker});
  return End::changed;
}

End Player::stops(int replica, double detection_seconds) {
  if (!replicas_.stop(replica)) return End::changed;
  if (replicas_.training_nodes() == 0) return End::stopped;
  const double reconfigure = plan_.faults.reconfigure_seconds.value_or(usual_reconfigure_seconds);
  stalled_until_ = std::max(stalled_until_, now_ + detection_seconds + reconfigure);
  return End::changed;
}

// A failure in a replica. It counts as an interruption only if the replica trained and others
// remain.
End Player::fails_alone(int replica) {
  const bool trained = replicas_.trains(replica);
  const End end = stops(replica, plan_.faults.detection_seconds);
  if (trained && end == End::changed) ++result_.interruptions;
  return end;
}

// A node, or its link, fails. If nodes come back alone, an idle spare node takes its place.
End Player::node_fails(int node, bool link) {
  ++result_.failures;
  // A node that was about to leave for good does not come back.
  const bool leaving = leaving_.contains(node) && !at(node).evicted;
  take_out(node);
  const Faults& faults = plan_.faults;
  const bool restarts = plan_.independent_workers;  // the node's workers restart without the others
  if (leaving) {
    set_away(node, true);
  } else if (link) {  // workers behind a link that is back continue
    expect(node, *faults.link_outage_seconds);
  } else if (faults.repair_seconds) {
    expect(node, *faults.repair_seconds + (restarts ? faults.restart_seconds : 0));
  }
  if (!alone()) return End::stopped;
  call_spare(faults.detection_seconds + (restarts ? restart_seconds(true) : 0));
  if (replicas_.any()) return fails_alone(replicas_.of(at(node).place));
  return state_nodes_.erase(node) > 0 ? End::stopped : End::changed;
}

End Player::leaves(int node) {
  if (!is_there(node) || at(node).away) return End::over;
  if (at(node).in_use && (!alone() || state_nodes_.contains(node))) {
    leaving_.insert(node);
    return End::changed;
  }
  return go_away(node);
}

// A node leaves: for good, or because it was slow. A slow node returns after its repair.
End Player::go_away(int node) {
  NodeState& state = at(node);
  const bool in_use = state.in_use, missed = in_use || state.expected, evicted = state.evicted;
  if (in_use) take_out(node);
  state_nodes_.erase(node);
  idle_.erase(std::remove(idle_.begin(), idle_.end(), node), idle_.end());
  if (evicted) {
    ++result_.evictions;
    expect(node, *plan_.faults.repair_seconds +
                     (plan_.independent_workers ? plan_.faults.restart_seconds : 0));
  } else {
    set_away(node, true);
  }
  if (missed && alone()) call_spare(plan_.independent_workers ? restart_seconds(true) : 0);
  return in_use && replicas_.any() ? stops(replicas_.of(state.place), 0) : End::changed;
}

void Player::call_spare(double seconds) {
  if (idle_.empty()) return;
  at(idle_.back()).hot = true;
  expect(idle_.back(), seconds);
  idle_.pop_back();
}

// A `joins` event: an absent or lost node is present from this moment on.
End Player::joins(int node) {
  --joining_;
  if (!is_there(node)) return End::over;
  const NodeState& state = at(node);
  if (state.in_use || std::find(idle_.begin(), idle_.end(), node) != idle_.end()) {
    return End::over;
  }
  if (state.away) set_away(node, false);  // otherwise it has failed
  if (state.expected) return End::over;
  regroups_ = !alone() && members_ < plan_.nodes();
  return is_available(node) == End::changed || regroups_ ? End::changed : End::over;
}

}  // namespace lockstep
