// Plays a run between failures: progress, checkpoints, repairs and rejoining nodes.
#include "faults/long_run.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

namespace lockstep {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

enum class End { over, changed, stopped };

class Player {
 public:
  Player(const LongRun& plan, std::uint64_t seed, int run)
      : plan_(plan),
        failures_(plan.speeds, plan.servers, plan.faults.at, plan.workers_per_node, seed, run),
        nodes_(static_cast<std::size_t>(plan.nodes() + plan.faults.spare_nodes)),
        limit_(most_times * plan.failure_free_seconds()) {
    expect_those_who_join();
    for (int node = 0; node < plan.nodes(); ++node) {
      if (!at(node).away) enter(node);
    }
    for (int node = plan.nodes() + plan.faults.spare_nodes; node-- > plan.nodes();) {
      if (!at(node).away) idle_.push_back(node);
    }
    take_idle();
    place_state();
    const auto& speed = plan.steps_per_second;
    needed_ = static_cast<int>(
        std::find_if(speed.begin(), speed.end(), [](double s) { return s > 0; }) - speed.begin());
  }

  LongRunResult play() {
    while (now_ < limit_) {
      if (!leaving_.empty() || regroups_) {
        if (!hand_over()) break;
        continue;
      }
      if (speed() <= 0) {
        if (!wait_until([this] { return speed() > 0; })) break;
        continue;
      }
      if (work() == End::stopped) {
        if (!recover()) break;
      } else if (done_ >= plan_.steps) {
        keep();
        result_.finished = true;
        break;
      } else if (done_ >= saved_ + plan_.steps_between_checkpoints && !checkpoint()) {
        break;
      }
    }
    if (!result_.finished) lose();
    result_.seconds = now_;
    result_.steps = saved_;
    return result_;
  }

 private:
  struct NodeState {
    bool in_use = false;
    bool expected = false;  // in repair, or on its way
    bool away = false;      // has left, or not joined yet
    int workers_down = 0;
    int generation = 0;  // how often it was taken out of use
  };
  // Who is back, a node or one of its workers (of which generation).
  struct Return {
    double time;
    int node;
    int generation = -1;  // -1 = the node
    bool operator>(const Return& other) const {
      return std::tuple(time, node, generation) >
             std::tuple(other.time, other.node, other.generation);
    }
  };

  NodeState& at(int node) { return nodes_[static_cast<std::size_t>(node)]; }
  bool is_there(int node) const { return static_cast<std::size_t>(node) < nodes_.size(); }

  // Of a part of a node's workers a part of the way to one node fewer; all nodes count alike.
  double speed() const {
    const double all = plan_.steps_per_second[static_cast<std::size_t>(members_)];
    if (workers_down_ == 0) return all;
    const double left = std::max(0.0, members_ - workers_down_ / plan_.workers_of_a_node());
    const auto below = static_cast<std::size_t>(left);
    const double less = plan_.steps_per_second[below], more = plan_.steps_per_second[below + 1];
    return less + (more - less) * (left - static_cast<double>(below));
  }

  // Nodes that join before they leave are not there at the beginning.
  void expect_those_who_join() {
    std::set<int> seen;
    for (const ScheduledFailure& listed : in_time(plan_.faults.at)) {
      if (listed.joins) ++joining_;
      const std::optional<int> node = listed.joins ? listed.joins : listed.leaves;
      if (node && is_there(*node) && seen.insert(*node).second && listed.joins)
        set_away(*node, true);
    }
  }

  void set_away(int node, bool away) {
    at(node).away = away;
    away_ += (away ? 1 : -1) * plan_.workers_of(node);
  }

  void enter(int node) {
    at(node).in_use = true;
    ++members_;
    failures_.enters(node, now_);
  }

  void take_out(int node) {
    NodeState& state = at(node);
    state.in_use = false;
    ++state.generation;
    workers_down_ -= std::exchange(state.workers_down, 0);
    --members_;
    failures_.leaves(node);
    leaving_.erase(node);
  }

  void expect(int node, double seconds) {
    at(node).expected = true;
    returns_.push({now_ + seconds, node});
  }

  // Passes time, and gives it to `account`, until it is over or something happens to the job.
  End pass(double seconds, double& account) {
    const double until = now_ + seconds;
    while (true) {
      const double next = next_seconds();
      const double to = std::clamp(next, now_, until);
      account += to - now_;
      result_.node_seconds += members_ * (to - now_);
      result_.away_seconds += away_ * (to - now_);
      now_ = to;
      if (next >= until) return End::over;
      const End end = happen();
      if (end != End::over) return end;
    }
  }

  double return_seconds() const { return returns_.empty() ? never : returns_.top().time; }
  double next_seconds() { return std::min(failures_.next_seconds(), return_seconds()); }
  End happen() { return return_seconds() <= next_seconds() ? comes_back() : fails(); }

  End comes_back() {
    const Return back = returns_.top();
    returns_.pop();
    NodeState& state = at(back.node);
    if (back.generation >= 0) {
      if (state.generation != back.generation) return End::over;  // its node has gone meanwhile
      --state.workers_down;
      --workers_down_;
      return End::changed;
    }
    state.expected = false;
    return state.away ? End::over : is_available(back.node);
  }

  End is_available(int node) {
    if (plan_.independent_workers && members_ < plan_.nodes()) {
      enter(node);
      return End::changed;
    }
    idle_.push_back(node);
    return End::over;
  }

  End fails() {
    const FailureEvent event = failures_.take();
    if (event.what == Failing::server || event.what == Failing::job) {
      ++result_.failures;
      return End::stopped;
    }
    if (event.what == Failing::joins) return joins(event.number);
    // A given time may find the node idle, in repair, or not in a job of this size.
    if (event.what == Failing::leaves) return leaves(event.number);
    if (!is_there(event.number) || !at(event.number).in_use) return End::over;
    if (event.what == Failing::worker) return worker_fails(event.number);
    return node_fails(event.number, event.what == Failing::link);
  }

  End worker_fails(int node) {
    NodeState& state = at(node);
    if (state.workers_down == plan_.workers_of(node)) return End::over;  // all are down
    ++result_.failures;
    if (!plan_.independent_workers) return End::stopped;
    ++state.workers_down;
    ++workers_down_;
    const Faults& faults = plan_.faults;
    returns_.push(
        {now_ + faults.detection_seconds + faults.restart_seconds, node, state.generation});
    return End::changed;
  }

  End node_fails(int node, bool link) {
    ++result_.failures;
    const bool leaving = leaving_.contains(node);
    take_out(node);
    const Faults& faults = plan_.faults;
    const bool alone = plan_.independent_workers;  // restarts without the others
    const double restart = alone ? faults.restart_seconds : 0;
    if (leaving) {
      set_away(node, true);
    } else if (link) {  // workers behind a link that is back go on
      expect(node, *faults.link_outage_seconds);
    } else if (faults.repair_seconds) {
      expect(node, *faults.repair_seconds + restart);
    }
    if (!alone) return End::stopped;
    call_spare(faults.detection_seconds + restart);
    return state_nodes_.erase(node) > 0 ? End::stopped : End::changed;
  }

  // With notice: where others would stop, everything is saved before it goes.
  End leaves(int node) {
    if (!is_there(node) || at(node).away) return End::over;
    if (at(node).in_use && (!plan_.independent_workers || state_nodes_.contains(node))) {
      leaving_.insert(node);
      return End::changed;
    }
    go_away(node);
    return End::changed;
  }

  void go_away(int node) {
    NodeState& state = at(node);
    const bool missed = state.in_use || state.expected;
    if (state.in_use) take_out(node);
    state_nodes_.erase(node);
    idle_.erase(std::remove(idle_.begin(), idle_.end(), node), idle_.end());
    set_away(node, true);
    if (missed && plan_.independent_workers) call_spare(plan_.faults.restart_seconds);
  }

  // To join those who go on meanwhile.
  void call_spare(double seconds) {
    if (idle_.empty()) return;
    expect(idle_.back(), seconds);
    idle_.pop_back();
  }

  End joins(int node) {
    --joining_;
    if (!is_there(node)) return End::over;
    const NodeState& state = at(node);
    if (state.in_use || std::find(idle_.begin(), idle_.end(), node) != idle_.end()) {
      return End::over;
    }
    if (state.away) set_away(node, false);  // else it failed, perhaps for good
    if (state.expected) return End::over;
    regroups_ = !plan_.independent_workers && members_ < plan_.nodes();
    return is_available(node) == End::changed || regroups_ ? End::changed : End::over;
  }

  // Until the next checkpoint, the end, or something happens.
  End work() {
    const double target = std::min(saved_ + plan_.steps_between_checkpoints, plan_.steps);
    const double pace = speed(), before = since_save_;
    const End end = pass((target - done_) / pace, since_save_);
    done_ = end == End::over ? target : std::min(target, done_ + (since_save_ - before) * pace);
    return end;
  }

  void keep() {
    result_.training += std::exchange(since_save_, 0.0);
    saved_ = done_;
  }
  void lose() {
    result_.lost += std::exchange(since_save_, 0.0);
    done_ = saved_;
  }

  // False: the job cannot go on.
  bool checkpoint() {
    const double end = now_ + plan_.write_seconds;
    while (now_ < end) {
      if (pass(end - now_, result_.checkpoints) == End::stopped) return recover();
    }
    keep();
    // Independent workers join alone; spare nodes that stand idle then are not needed.
    if (plan_.independent_workers || idle_.empty() || members_ == plan_.nodes()) return true;
    take_idle();  // those that came back join where nothing is lost by it
    return quiet(plan_.faults.restart_seconds) || recover();
  }

  void take_idle() {
    regroups_ = false;
    while (members_ < plan_.nodes() && !idle_.empty()) {
      enter(idle_.back());
      idle_.pop_back();
    }
  }

  // False: nobody will come (in time).
  template <class Condition>
  bool wait_until(Condition met) {
    while (!met()) {
      if ((returns_.empty() && joining_ == 0) || now_ >= limit_) return false;
      pass(std::max(0.0, next_seconds() - now_), result_.waiting);
      if (next_seconds() <= now_) happen();
      if (!plan_.independent_workers) take_idle();
    }
    return true;
  }
  bool wait_for_nodes() {
    return wait_until([this] { return members_ >= needed_; });
  }

  // From the last checkpoint. A failure on the way starts it again.
  bool recover() {
    lose();
    while (now_ < limit_) {
      ++result_.interruptions;
      if (!quiet(plan_.faults.detection_seconds)) continue;
      if (!plan_.independent_workers) take_idle();
      if (!wait_for_nodes()) return false;
      place_state();
      all_workers_restart();
      if (quiet(plan_.faults.restart_seconds + plan_.read_seconds)) return true;
    }
    return false;
  }

  // Writes a checkpoint before nodes leave that somebody would miss, or join those who keep step, and
  // goes on with those that are there.
  bool hand_over() {
    while (next_seconds() <= now_) {  // all who leave or join at once do so together
      if (happen() == End::stopped) return recover();
    }
    const double end = now_ + plan_.write_seconds;
    while (now_ < end) {
      if (pass(end - now_, result_.checkpoints) == End::stopped) return recover();
    }
    keep();
    for (const int node : std::set<int>(leaving_)) go_away(node);
    if (!plan_.independent_workers) take_idle();
    if (!wait_for_nodes()) return false;
    place_state();
    all_workers_restart();
    return quiet(plan_.faults.restart_seconds + plan_.read_seconds) || recover();
  }

  void all_workers_restart() {
    workers_down_ = 0;
    for (NodeState& state : nodes_) {
      if (std::exchange(state.workers_down, 0) > 0) ++state.generation;
    }
  }

  // On the first nodes there are.
  void place_state() {
    const auto wanted = static_cast<std::size_t>(plan_.independent_workers ? plan_.state_nodes : 0);
    for (std::size_t n = 0; n < nodes_.size() && state_nodes_.size() < wanted; ++n) {
      if (nodes_[n].in_use) state_nodes_.insert(static_cast<int>(n));
    }
  }

  // Whether nothing stops the job meanwhile.
  bool quiet(double seconds) {
    const double end = now_ + seconds;
    while (now_ < end) {
      if (pass(end - now_, result_.down) == End::stopped) return false;
    }
    return true;
  }

  const LongRun& plan_;
  Failures failures_;
  std::priority_queue<Return, std::vector<Return>, std::greater<>> returns_;
  std::vector<int> idle_;
  std::vector<NodeState> nodes_;
  std::set<int> state_nodes_;
  std::set<int> leaving_;  // as soon as everything is saved
  bool regroups_ = false;  // with nodes that have joined, likewise
  int members_ = 0, needed_ = 0;
  int workers_down_ = 0;  // of members
  int away_ = 0;          // GPUs of nodes that are away
  int joining_ = 0;       // how often one still will
  double now_ = 0, limit_ = 0;
  double done_ = 0, saved_ = 0;  // steps
  double since_save_ = 0;        // seconds
  LongRunResult result_;
};

}  // namespace

int LongRun::workers_of(int node) const {
  if (workers == 0 || node >= nodes()) return workers_per_node;
  return std::clamp(workers - node * workers_per_node, 0, workers_per_node);
}

double LongRun::workers_of_a_node() const {
  return workers == 0 ? workers_per_node : static_cast<double>(workers) / nodes();
}

double LongRun::failure_free_seconds() const {
  const double checkpoints = std::isinf(steps_between_checkpoints)
                                 ? 0
                                 : std::max(0.0, std::ceil(steps / steps_between_checkpoints) - 1);
  return steps / steps_per_second.back() + checkpoints * write_seconds;
}

LongRunResult play(const LongRun& plan, std::uint64_t seed, int run) {
  return Player(plan, seed, run).play();
}

}  // namespace lockstep
