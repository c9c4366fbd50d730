// Checkpoints begin, are completed or abandoned, and are returned to after a failure. Between two
// calls of goes_on_at(), progress is a linear function of time. Copies in memory cost the player no
// event, because reach() computes in closed form which copy is the latest.
#include "faults/progress.hpp"

#include <algorithm>
#include <cmath>

namespace lockstep {

bool Checkpointing::settle(double now) {
  if (!writing() || now < completes) return false;
  kept = begun;
  abandon();
  return true;
}

Progress::Progress(const LongRun& plan) : plan_(plan) {
  storage_.steps_between = plan.steps_between_checkpoints;
  storage_.stall_seconds = plan.copy_seconds.value_or(plan.write_seconds);
  storage_.beside_seconds = plan.copy_seconds ? plan.write_seconds : 0;
  if (plan.memory.copies == 0) return;
  memory_.steps_between = plan.memory.steps_between;
  memory_.beside_seconds = plan.memory.seconds;
  lost_hosts_.resize(static_cast<std::size_t>(plan.nodes() / plan.memory.copies) + 1);
}

void Progress::goes_on_at(double pace, double now) {
  base_ = done_;
  pace_ = pace;
  told_at_ = now_ = now;
}

void Progress::reach(double now) {
  if (pace_ > 0) {
    const Mark from = done_;
    done_ = {base_.steps + (now - told_at_) * pace_, base_.seconds + (now - told_at_)};
    if (memory_.steps_between < std::numeric_limits<double>::infinity()) copy(from, now_);
  }
  now_ = now;
  storage_.settle(now);
  completes_copy(now);
}

// A copy begins when it is due and the previous copy has ended. Only the last two copies since
// `from` matter: the last complete one and the one in progress.
void Progress::copy(const Mark& from, double then) {
  // Seconds from `then` until the copy in progress is complete.
  const double free = memory_.writing() ? std::max(0.0, memory_.completes - then) : 0;
  // The progress, in steps, at which the first new copy begins, and the steps between two copies.
  const double first = std::max(memory_.next_steps(), from.steps + free * pace_);
  if (done_.steps < first) return;
  const double apart = std::max(memory_.steps_between, memory_.beside_seconds * pace_);
  const auto begin = [&](double number) {
    const double steps = first + number * apart, seconds = (steps - from.steps) / pace_;
    memory_.begin({steps, from.seconds + seconds}, then + seconds);
  };
  const double last = std::floor((done_.steps - first) / apart);
  if (last >= 1) begin(last - 1);
  // The copy before the last is complete.
  completes_copy(memory_.completes);
  begin(last);
}

void Progress::completes_copy(double now) {
  if (!memory_.settle(now)) return;
  memory_holds_ = true;
  restarted();
}

void Progress::begins_to_store(double now) {
  storage_.begin(done_, now);
  storage_.settle(now);
}

void Progress::saved() {
  storage_.abandon();
  storage_.kept = done_;
}

void Progress::loses_host(int place, double now) {
  if (plan_.memory.copies == 0) return;
  reach(now);
  memory_.abandon();  // a copy to this host cannot become complete
  // If the last group is smaller, its hosts are counted in the group before. Therefore that group
  // counts as lost a little too early.
  const auto groups = std::max(1, plan_.nodes() / plan_.memory.copies);
  const auto group = static_cast<std::size_t>(std::min(place / plan_.memory.copies, groups - 1));
  if (++lost_hosts_[group] >= plan_.memory.copies) memory_holds_ = false;
}

double Progress::go_back(double now) {
  reach(now);
  storage_.abandon();
  memory_.abandon();
  memory_holds_ = reads_memory();
  const Mark to = memory_holds_ ? memory_.kept : storage_.kept;
  // The next copy is due `steps_between` steps after this progress, whether memory holds a copy or
  // not.
  memory_.kept = to;
  const double lost = done_.seconds - to.seconds;
  done_ = to;
  return lost;
}

double Progress::reading_seconds() const {
  if (!reads_memory()) return plan_.read_seconds;
  // A new host has no copy, and must first fetch one from another host.
  const bool any_lost =
      std::any_of(lost_hosts_.begin(), lost_hosts_.end(), [](int lost) { return lost > 0; });
  return plan_.memory.load_seconds + (any_lost ? plan_.memory.fetch_seconds : 0);
}

void Progress::restarted() {
  std::fill(lost_hosts_.begin(), lost_hosts_.end(), 0);
}

}  // namespace lockstep
