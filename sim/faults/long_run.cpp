// Plays a run from failure to failure: progress, checkpoints and restarts. The player advances time
// from event to event. A period of work, standing still or waiting ends when its time is over, or
// earlier if an event (failure, repair, joining node) interrupts it (pass()). player_events.cpp has
// the rules for nodes that come and go.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "faults/player.hpp"

namespace lockstep {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

}  // namespace

// The first nodes of the job enter; further nodes are idle, and absent nodes are away. `needed_` is
// the smallest number of nodes that makes progress.
Player::Player(const LongRun& plan, std::uint64_t seed, int run)
    : plan_(plan),
      failures_(plan.speeds, plan.servers, plan.faults.at, plan.workers_per_node, seed, run),
      nodes_(static_cast<std::size_t>(plan.nodes() + plan.faults.spare_nodes)),
      replicas_(plan.nodes(), plan.replica_nodes),
      progress_(plan),
      limit_(most_times * plan.failure_free_seconds()) {
  for (int place = plan.nodes(); place-- > 0;) free_places_.push_back(place);
  expect_those_who_join();
  for (int node = 0; node < plan.nodes(); ++node) {
    if (!at(node).away) enter(node);
  }
  for (int node = plan.nodes() + plan.faults.spare_nodes; node-- > plan.nodes();) {
    if (!at(node).away) idle_.push_back(node);
  }
  take_idle();
  place_state();
  replicas_.start_whole_ones();
  const auto& speed = plan.steps_per_second;
  needed_ = static_cast<int>(
      std::find_if(speed.begin(), speed.end(), [](double s) { return s > 0; }) - speed.begin());
}

// The main loop. Each turn executes the first case whose condition is true.
LongRunResult Player::play() {
  while (now_ < limit_) {
    progress_.reach(now_);
    // A replica has failed, and the others stand still until they continue without it.
    if (now_ < stalled_until_) {
      if (!quiet(stalled_until_ - now_) && !recover()) break;
      continue;
    }
    // Nodes are about to leave or join: save everything first.
    if (!leaving_.empty() || regroups_) {
      if (!hand_over()) break;
      continue;
    }
    // The job has too few nodes, or no replica trains.
    if (speed() <= 0) {
      if (!wait_until([this] { return speed() > 0; })) break;
      continue;
    }
    if (work() == End::stopped) {
      if (!recover()) break;
    } else if (progress_.done().steps >= plan_.steps) {
      result_.finished = true;
      break;
    } else if (progress_.done().steps >= progress_.storage().next_steps() && !checkpoint()) {
      break;
    }
  }
  if (!result_.finished) result_.lost += progress_.go_back(now_);
  result_.seconds = now_;
  result_.steps = progress_.done().steps;
  result_.training = progress_.done().seconds;
  return result_;
}

double Player::return_seconds() const {
  return returns_.empty() ? never : returns_.top().time;
}

double Player::speed() const {
  const double there = speed_of_those_there() * share_with_slow_nodes();
  return there * (progress_.storage().writing() ? plan_.speed_while_writing : 1);
}

// Steps per second of the nodes that take part. A failed worker counts as a fraction of a node; the
// speed between two whole numbers of nodes is interpolated linearly.
double Player::speed_of_those_there() const {
  const double all = plan_.steps_per_second[static_cast<std::size_t>(taking_part())];
  if (workers_down_ == 0) return all;
  const double left = std::max(0.0, members_ - workers_down_ / plan_.workers_of_a_node());
  const auto below = static_cast<std::size_t>(left);
  const double less = plan_.steps_per_second[below], more = plan_.steps_per_second[below + 1];
  return less + (more - less) * (left - static_cast<double>(below));
}

// Factor (<= 1) on the speed. A slow node counts only if its replica trains.
double Player::share_with_slow_nodes() const {
  const auto count = std::count_if(slow_.begin(), slow_.end(), [this](int node) {
    const int place = nodes_[static_cast<std::size_t>(node)].place;
    return !replicas_.any() || replicas_.trains(replicas_.of(place));
  });
  const double lost = 1 - plan_.speed_with_slow_node;
  if (plan_.independent_workers) return std::max(0.0, 1 - static_cast<double>(count) * lost);
  return count > 0 ? 1 - lost : 1;
}

// Advances time by `seconds`, or to the first event that affects the job. Events that do not affect
// the job are executed on the way.
End Player::pass(double seconds, double& account) {
  const double until = now_ + seconds;
  while (true) {
    const double next = next_seconds();
    const double to = std::clamp(next, now_, until);
    account += to - now_;
    result_.node_seconds += taking_part() * (to - now_);
    result_.away_seconds += away_ * (to - now_);
    now_ = to;
    progress_.reach(now_);
    if (next >= until) return End::over;
    const End end = happen();
    if (end != End::over) return end;
  }
}

End Player::work() {
  const double done = progress_.done().steps, pace = speed();
  const double target = std::max(done, std::min(progress_.storage().next_steps(), plan_.steps));
  const double needed = (target - done) / pace;
  // A write beside training slows down the steps, so the speed changes when the write is complete.
  const double unchanged = progress_.storage().completes - now_;
  progress_.goes_on_at(pace, now_);
  double spent = 0;
  const End end = pass(std::min(needed, unchanged), spent);
  progress_.goes_on_at(0, now_);
  // Without this, rounding could leave an endless series of tiny periods.
  if (end == End::over && needed <= unchanged) progress_.arrives_at(target);
  return end;
}

bool Player::stand_still(double seconds) {
  const double end = now_ + seconds;
  while (now_ < end) {
    if (pass(end - now_, result_.checkpoints) == End::stopped) return false;
  }
  return true;
}

bool Player::checkpoint() {
  const Checkpointing& storage = progress_.storage();
  const double unfinished = storage.writing() ? storage.completes - now_ : 0;
  if (!stand_still(unfinished + storage.stall_seconds)) return recover();
  progress_.begins_to_store(now_);
  // If nodes come back alone, each joins by itself; nodes that are still idle then are not needed.
  if (alone() || idle_.empty() || members_ == plan_.nodes()) return true;
  // Nodes that are back join right after a checkpoint, because the restart then loses no work.
  take_idle();
  return quiet(plan_.faults.restart_seconds) || recover();
}

// Idle nodes enter the job until all its places are taken.
void Player::take_idle() {
  regroups_ = false;
  while (members_ < plan_.nodes() && !idle_.empty()) {
    enter(idle_.back());
    idle_.pop_back();
  }
}

// Passes time until the condition is met. Gives up if no node or replica can return, or if the
// run's time limit is reached.
template <class Condition>
bool Player::wait_until(Condition met) {
  while (!met()) {
    if ((returns_.empty() && joining_ == 0) || now_ >= limit_) return false;
    pass(std::max(0.0, next_seconds() - now_), result_.waiting);
    if (next_seconds() <= now_) happen();
    if (!alone()) take_idle();
  }
  return true;
}

bool Player::wait_for_nodes() {
  cold_ = cold_ || members_ < plan_.nodes();
  return wait_until([this] { return members_ >= needed_; });
}

// If a restart fails, the recovery starts again: detection, waiting for nodes, restart.
bool Player::recover() {
  stalled_until_ = now_;
  if (replicas_.any()) replicas_.stop_all();
  while (now_ < limit_) {
    result_.lost += progress_.go_back(now_);
    ++result_.interruptions;
    if (!quiet(plan_.faults.detection_seconds)) continue;
    if (!alone()) take_idle();
    if (!wait_for_nodes()) return false;
    if (restart_all(progress_.reading_seconds())) return true;
  }
  return false;
}

bool Player::restart_all(double reading_seconds) {
  place_state();
  all_workers_restart();
  gather_replicas();
  const bool from_memory = progress_.reads_memory();
  if (!quiet(restart_seconds(!cold_) + reading_seconds)) return false;
  cold_ = false;
  if (from_memory) ++result_.memory_restarts;
  progress_.restarted();
  if (replicas_.any()) replicas_.start_whole_ones();
  return true;
}

// Renumbers the places of nodes in use without holes, so that as many replicas as possible are
// complete.
void Player::gather_replicas() {
  if (!replicas_.any()) return;
  free_places_.clear();
  replicas_.clear();
  int place = 0;
  for (NodeState& state : nodes_) {
    if (!state.in_use) continue;
    state.place = place++;
    replicas_.node_enters(state.place);
  }
  for (int free = plan_.nodes(); free-- > place;) free_places_.push_back(free);
}

bool Player::hand_over() {
  // All nodes that leave or join at this moment do so together.
  while (next_seconds() <= now_) {
    if (happen() == End::stopped) return recover();
  }
  const Checkpointing& storage = progress_.storage();
  if (!stand_still(storage.stall_seconds + storage.beside_seconds)) return recover();
  progress_.saved();
  for (const int node : std::set<int>(leaving_)) go_away(node);
  if (!alone()) take_idle();
  if (!wait_for_nodes()) return false;
  return restart_all(plan_.read_seconds) || recover();
}

// Failed workers are back after the restart, so their scheduled returns become invalid (new
// generation).
void Player::all_workers_restart() {
  if (std::exchange(workers_down_, 0) == 0) return;
  for (NodeState& state : nodes_) {
    if (std::exchange(state.workers_down, 0) > 0) ++state.generation;
  }
}

void Player::place_state() {
  const auto wanted = static_cast<std::size_t>(plan_.independent_workers ? plan_.state_nodes : 0);
  for (std::size_t n = 0; n < nodes_.size() && state_nodes_.size() < wanted; ++n) {
    if (nodes_[n].in_use) state_nodes_.insert(static_cast<int>(n));
  }
}

bool Player::quiet(double seconds) {
  const double end = now_ + seconds;
  while (now_ < end) {
    if (pass(end - now_, result_.down) == End::stopped) return false;
  }
  return true;
}

// Spare nodes have higher numbers than the job's nodes, and count as full.
int LongRun::workers_of(int node) const {
  if (workers == 0 || node >= nodes()) return workers_per_node;
  return std::clamp(workers - node * workers_per_node, 0, workers_per_node);
}

double LongRun::workers_of_a_node() const {
  return workers == 0 ? workers_per_node : static_cast<double>(workers) / nodes();
}

double LongRun::failure_free_seconds() const {
  const double pace = steps_per_second.back(), training = steps / pace;
  if (std::isinf(steps_between_checkpoints)) return training;
  const double count = std::max(0.0, std::ceil(steps / steps_between_checkpoints) - 1);
  if (!copy_seconds) return training + count * write_seconds;
  // The time in which `work` seconds of full-speed training pass beside a write. With s the speed
  // while writing and w the seconds of the write: work / s if training ends before the write,
  // otherwise work + (1 - s) w.
  const auto beside = [&](double work) {
    return std::min(work / speed_while_writing, work + (1 - speed_while_writing) * write_seconds);
  };
  if (count == 0) return training;
  // The first interval has no write beside it. Each further interval begins with a copy, and its
  // checkpoint waits for the previous write. The last interval is the remaining work; no checkpoint
  // follows it.
  const double each = steps_between_checkpoints / pace;
  return each + count * *copy_seconds + (count - 1) * std::max(write_seconds, beside(each)) +
         beside(training - count * each);
}

LongRunResult play(const LongRun& plan, std::uint64_t seed, int run) {
  return Player(plan, seed, run).play();
}

}  // namespace lockstep
