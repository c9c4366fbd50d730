#include "faults/long_run.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>
#include <set>
#include <utility>

namespace lockstep {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

enum class End { over, changed, stopped };

class Player {
 public:
  Player(const LongRun& plan, std::uint64_t seed, int run)
      : plan_(plan),
        failures_(plan.speeds, plan.servers, plan.faults.at, seed, run),
        in_use_(static_cast<std::size_t>(plan.nodes() + plan.faults.spare_nodes), false),
        limit_(most_times * plan.failure_free_seconds()) {
    for (int node = 0; node < plan.nodes(); ++node) enter(node);
    for (int node = plan.nodes() + plan.faults.spare_nodes; node-- > plan.nodes();) {
      idle_.push_back(node);
    }
    place_state();
    const auto& speed = plan.steps_per_second;
    needed_ = static_cast<int>(
        std::find_if(speed.begin(), speed.end(), [](double s) { return s > 0; }) - speed.begin());
  }

  LongRunResult play() {
    while (now_ < limit_) {
      if (speed() <= 0) {
        if (!wait_for(needed_)) break;
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
  double speed() const { return plan_.steps_per_second[static_cast<std::size_t>(members_)]; }

  void enter(int node) {
    in_use_[static_cast<std::size_t>(node)] = true;
    ++members_;
    failures_.enters(node, now_);
  }

  // Passes time, and gives it to `account`, until it is over or something happens to the job.
  End pass(double seconds, double& account) {
    const double until = now_ + seconds;
    while (true) {
      const double returning = returns_.empty() ? never : returns_.top().first;
      const double next = std::min(failures_.next_seconds(), returning);
      const double to = std::clamp(next, now_, until);
      account += to - now_;
      result_.node_seconds += members_ * (to - now_);
      now_ = to;
      if (next >= until) return End::over;
      const End end = returning <= next ? comes_back() : fails();
      if (end != End::over) return end;
    }
  }

  End comes_back() {
    const int node = returns_.top().second;
    returns_.pop();
    if (plan_.independent_workers && members_ < plan_.nodes()) {
      enter(node);
      return End::changed;
    }
    idle_.push_back(node);
    return End::over;
  }

  End fails() {
    const FailureEvent failure = failures_.take();
    if (failure.what != Failing::node) {
      ++result_.failures;
      return End::stopped;
    }
    // A given time may find the node idle, in repair, or not in a job of this size.
    const auto node = static_cast<std::size_t>(failure.number);
    if (node >= in_use_.size() || !in_use_[node]) return End::over;
    ++result_.failures;
    in_use_[node] = false;
    --members_;
    failures_.leaves(failure.number);
    const Faults& faults = plan_.faults;
    const bool alone = plan_.independent_workers;  // restarts without the others
    const double restart = alone ? faults.restart_seconds : 0;
    if (faults.repair_seconds) {
      returns_.push({now_ + *faults.repair_seconds + restart, failure.number});
    }
    if (!alone) return End::stopped;
    if (!idle_.empty()) {
      returns_.push({now_ + faults.detection_seconds + restart, idle_.back()});
      idle_.pop_back();
    }
    return state_nodes_.erase(failure.number) > 0 ? End::stopped : End::changed;
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
    if (pass(plan_.faults.restart_seconds, result_.down) == End::stopped) return recover();
    return true;
  }

  void take_idle() {
    while (members_ < plan_.nodes() && !idle_.empty()) {
      enter(idle_.back());
      idle_.pop_back();
    }
  }

  bool wait_for(int members) {
    while (members_ < members) {
      if (returns_.empty() || now_ >= limit_) return false;
      pass(std::max(0.0, returns_.top().first - now_), result_.waiting);
      if (!returns_.empty() && returns_.top().first <= now_) comes_back();
      if (!plan_.independent_workers) take_idle();
    }
    return true;
  }

  // From the last checkpoint. A failure on the way starts it again.
  bool recover() {
    lose();
    while (now_ < limit_) {
      ++result_.interruptions;
      if (!quiet(plan_.faults.detection_seconds)) continue;
      if (!plan_.independent_workers) take_idle();
      if (!wait_for(needed_)) return false;
      place_state();
      if (quiet(plan_.faults.restart_seconds + plan_.read_seconds)) return true;
    }
    return false;
  }

  // On the first nodes there are.
  void place_state() {
    const auto wanted = static_cast<std::size_t>(plan_.independent_workers ? plan_.state_nodes : 0);
    for (std::size_t n = 0; n < in_use_.size() && state_nodes_.size() < wanted; ++n) {
      if (in_use_[n]) state_nodes_.insert(static_cast<int>(n));
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
  using Return = std::pair<double, int>;  // time, node
  std::priority_queue<Return, std::vector<Return>, std::greater<>> returns_;
  std::vector<int> idle_;
  std::vector<bool> in_use_;
  std::set<int> state_nodes_;
  int members_ = 0, needed_ = 0;
  double now_ = 0, limit_ = 0;
  double done_ = 0, saved_ = 0;  // steps
  double since_save_ = 0;        // seconds
  LongRunResult result_;
};

}  // namespace

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
