// Records the time of workers, counts steps of all ranks, and detects a steady state:
// `agreeing_steps` in a row that agree, as a whole and in each part, within `agreement`
// (common/run_steps.hpp). Results are differences between two snapshots of running sums.
#include "strategies/parameter_server/books.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/index.hpp"
#include "strategies/common/run_steps.hpp"

namespace lockstep {

namespace {

constexpr std::size_t kRepeats = agreeing_steps;

}  // namespace

Books::Books(PsRun& run) : run_(run), servers_(at(run.system.servers)) {
  for (const PsWorker& worker : run.system.workers) {
    workers_.emplace_back(static_cast<int>(workers_.size()));
    ranks_ += worker.ranks;
  }
  base_ = snapshot();
}

// Compute stays in self.step until the step ends; end_step() adds it to the sum.
void Books::begin_step(int worker) {
  WorkerBook& self = workers_[at(worker)];
  self.step.clear(run_.executor.now());
  ++self.step.number;
  self.at_start = self.sum;
  self.dropped = 0;
}

void Books::end_step(int worker) {
  WorkerBook& self = workers_[at(worker)];
  book(self, run_.executor.now());
  if (run_.watch) run_.watch->step(self.step, run_.executor.now());
  add(self.sum, self.step.parts, 1);
}

// Progress is counted in messages, so that a step counts partly if some of its messages were
// dropped. `round` is the number of messages in a step of all ranks.
bool Books::count_step(int worker) {
  const PsSystem& system = run_.system;
  WorkerBook& self = workers_[at(worker)];
  // The finished step is already in the sum, so a snapshot must not count it again.
  self.step.clear(run_.executor.now());
  const auto messages = static_cast<int>(std::max<std::size_t>(1, system.messages.size()));
  completed_ += run_.ranks(worker) * (messages - self.dropped);
  const std::int64_t round = static_cast<std::int64_t>(ranks_) * messages;
  if (system.progress) {
    system.progress(static_cast<double>(completed_) / static_cast<double>(round) / system.steps);
  }
  if (completed_ < (steps() + 1) * round) return false;
  trace_.step_ends.push_back(run_.executor.now());
  if (system.steady) {
    latest_.push_back(snapshot());
    if (latest_.size() > kRepeats + 1) latest_.pop_front();
  }
  trace_.extrapolated = system.steady && steps() < system.steps && repeats();
  trace_.reported = trace_.step_ends.size() - 1;
  done_ = steps() >= system.steps || trace_.extrapolated;
  if (trace_.extrapolated) {  // report only the steady state
    base_ = latest_.front();
    trace_.reported = kRepeats;
  } else if (steps() == 1 && !done_) {  // leave out the first step
    base_ = snapshot();
    staleness_.clear();
    pushes_ = dropped_ = 0;
  }
  return true;
}

void Books::communicate(const PsParcel& parcel, int change) {
  WorkerBook& self = worker(parcel.worker);
  book(self, run_.executor.now());
  self.transfers[parcel.direction == Direction::push ? 0 : 1].change(change, run_.executor.now());
}

// Bytes are counted when they have arrived.
void Books::transfer(const PsParcel& parcel, int change) {
  communicate(parcel, change);
  if (change > 0) return;
  (parcel.direction == Direction::push ? trace_.pushed_bytes : trace_.pulled_bytes) +=
      run_.ranks(parcel.worker) * run_.message(parcel.message).bytes(parcel.direction);
}

void Books::book(WorkerBook& self, double until) {
  if (until <= self.booked_until) return;
  const bool transferring = self.transfers[0].running + self.transfers[1].running > 0;
  (transferring ? self.sum.exposed_communication : self.sum.waiting) += until - self.booked_until;
  if (run_.watch) {
    run_.watch->waits(self.step.worker,
                      transferring ? WaitCause::communication : WaitCause::waiting,
                      self.booked_until, until);
  }
  self.booked_until = until;
}

// The staleness of a push is the number of updates of its message between the worker's pull and
// this update (fact 82). In ScheduledPush, version 0 marks a dropped push, so updates have versions
// from 1 on.
void Books::settle(int message, const Contribution& push, std::int64_t version, bool used) {
  const int ranks = run_.ranks(push.worker);
  if (used) {
    const auto staleness = static_cast<std::size_t>(version - push.read);
    if (staleness >= staleness_.size()) staleness_.resize(staleness + 1, 0);
    staleness_[staleness] += ranks;
  } else {
    dropped_ += ranks;
    ++worker(push.worker).dropped;
  }
  if (!run_.system.records_updates) return;
  int rank = 0;
  for (int before = 0; before < push.worker; ++before) rank += run_.ranks(before);
  for (int i = 0; i < ranks; ++i) {
    trace_.updates.push_back(
        {run_.executor.now(), rank + i, message, push.read, used ? version + 1 : 0});
  }
}

// The running sums at present. A share of the present step's compute is included: the time since
// the step's start, divided by the compute that is played so far. Waits for weights inside the step
// (`gated`) are recorded separately, so both times exclude them.
Books::Snapshot Books::snapshot() {
  Snapshot s;
  const double now = s.time = run_.executor.now();
  for (WorkerBook& self : workers_) {
    book(self, now);
    StepSplit own = self.sum;
    const PsStep& step = self.step;
    const double elapsed = now - step.started - step.gated;
    const double known = step.device - step.gated;
    if (elapsed > 0 && known > 0) {
      add(own, step.parts, std::min(1.0, elapsed / known));
    }
    add(s.sum, own, run_.ranks(step.worker));
    s.workers.push_back(
        {own, step.number + 1, {self.transfers[0].until(now), self.transfers[1].until(now)}});
  }
  for (std::size_t link = 0; link < run_.system.links.size(); ++link) {
    s.links.push_back(run_.executor.traffic(static_cast<LinkId>(link)));
  }
  for (const Activity& server : servers_) s.servers.push_back(server.until(now));
  return s;
}

// The first step never counts. The kRepeats steps after it must agree in length and in each part.
bool Books::repeats() const {
  const std::vector<double>& ends = trace_.step_ends;
  if (ends.size() < kRepeats + 1) return false;
  const std::size_t last = ends.size() - 1;
  const double step = ends[last] - ends[last - 1];
  for (std::size_t k = 1; k < kRepeats; ++k) {
    const double earlier = ends[last - k] - ends[last - k - 1];
    if (std::abs(earlier - step) > agreement * step) return false;
  }
  for (const auto part : step_parts) {
    const auto seconds = [&](std::size_t k) {
      return (latest_[k].sum.*part - latest_[k - 1].sum.*part) / ranks_;
    };
    for (std::size_t k = 1; k < kRepeats; ++k) {
      if (std::abs(seconds(k) - seconds(kRepeats)) > agreement * step) return false;
    }
  }
  // A loader that is slower than such a step is ahead after a long first step, and delays the
  // workers only later.
  double loading = 0;
  for (const PsSegment& segment : run_.system.segments) {
    if (segment.needs_input) loading += run_.system.input_seconds;
  }
  return loading <= step * (1 + agreement);
}

// The differences between the end of the run and base_. A worker's own time is its time without
// communication and waits.
PsTrace Books::trace(const RuleChanges& changes) {
  const Snapshot end = snapshot();
  const double time = std::max(end.time - base_.time, std::numeric_limits<double>::min());
  const double steps = std::max<double>(1, static_cast<double>(trace_.reported));
  add(trace_.split, end.sum, 1 / (steps * ranks_));
  add(trace_.split, base_.sum, -1 / (steps * ranks_));
  // `busiest`: seconds in which the busiest worker pushes; seconds in which the busiest worker
  // pulls.
  std::array<double, 2> busiest{};
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    const Snapshot::Worker &to = end.workers[w], &from = base_.workers[w];
    const auto per_step = [&](double StepSplit::*part) {
      return (to.sum.*part - from.sum.*part) / steps;
    };
    RankTimes times;
    times.steps = static_cast<double>(to.steps - from.steps) / steps;
    times.communicating = per_step(&StepSplit::exposed_communication);
    times.waiting = per_step(&StepSplit::waiting);
    times.own = time / steps - times.communicating - times.waiting;
    trace_.workers.push_back(times);
    trace_.worker_steps[to.steps - from.steps] += run_.ranks(static_cast<int>(w));
    for (const std::size_t way : {0, 1}) {
      busiest[way] = std::max(busiest[way], to.transfers[way] - from.transfers[way]);
    }
  }
  trace_.push_busy = busiest[0] / time;
  trace_.pull_busy = busiest[1] / time;
  for (std::size_t s = 0; s < end.servers.size(); ++s) {
    trace_.server_busy = std::max(trace_.server_busy, (end.servers[s] - base_.servers[s]) / time);
  }
  for (std::size_t i = 0; i < staleness_.size(); ++i) {
    if (staleness_[i] > 0) trace_.staleness[static_cast<std::int64_t>(i)] = staleness_[i];
  }
  for (std::size_t link = 0; link < end.links.size(); ++link) {
    const Executor::Traffic &to = end.links[link], &from = base_.links[link];
    trace_.link_bytes.push_back((to.bytes - from.bytes) / steps);
    trace_.link_busy.push_back((to.busy_seconds - from.busy_seconds) / time);
  }
  if (pushes_ > 0) trace_.dropped = static_cast<double>(dropped_) / static_cast<double>(pushes_);
  trace_.stretches = changes.stretches();
  if (end.time > 0) trace_.asynchronous_share = changes.asynchronous_seconds(end.time) / end.time;
  return std::move(trace_);
}

}  // namespace lockstep
