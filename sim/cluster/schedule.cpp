// Discrete-event simulation of one policy. Events are arrivals, ends, service thresholds and ends
// of slices. All events at one time are applied before Scheduler::pass() decides, so their order
// does not matter. The decisions of the policies are in scheduler.cpp, turns.cpp and moves.cpp.
//
// settle() adds up a running job's work only when its GPUs, speed or state change. The job's future
// events have the `version` of its state; events of an older version are stale and ignored, so that
// none must be removed from the queue.
#include "cluster/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cluster/scheduler.hpp"

namespace lockstep {

std::vector<int> sizes_of(const JobKind& kind, int gpus) {
  std::vector<int> sizes{gpus};
  if (kind.elastic) {
    const int most = kind.most > 0 ? kind.most : gpus;
    for (int size = kind.least; size < most; size *= 2) sizes.push_back(size);
    sizes.push_back(most);
    std::sort(sizes.begin(), sizes.end());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  }
  return sizes;
}

Schedule schedule(const ClusterSize& size, const std::vector<JobKind>& kinds,
                  const std::vector<ClusterJob>& jobs, const ScheduleOptions& options) {
  return Scheduler(size, kinds, jobs, options).run();
}

// Rates are copied from maps to vectors indexed by GPU count, because every event looks up rates.
Scheduler::Scheduler(const ClusterSize& size, const std::vector<JobKind>& kinds,
                     const std::vector<ClusterJob>& jobs, const ScheduleOptions& options)
    : kinds_(kinds),
      jobs_(jobs),
      options_(options),
      states_(jobs.size()),
      unowned_(size.nodes, size.gpus_per_node),
      free_(unowned_) {
  schedule_.jobs.resize(jobs.size());
  for (const JobKind& kind : kinds) {
    std::vector<double>& by_gpus = rates_.emplace_back();
    for (const auto& [gpus, rate] : kind.rates) {
      by_gpus.resize(static_cast<std::size_t>(gpus) + 1, 0);
      by_gpus.back() = rate;
    }
  }
}

Schedule Scheduler::run() {
  std::vector<std::size_t> order(jobs_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return jobs_[a].submit < jobs_[b].submit; });
  auto next = order.begin();
  while (next != order.end() || !events_.empty()) {
    const double before = now_;
    // If an arrival and an event are closer than same_moment, `now_` is the time of the arrival,
    // because no job may start before it arrives.
    const bool arrival =
        next != order.end() &&
        (events_.empty() || jobs_[*next].submit <= events_.top().time + same_moment);
    now_ = arrival ? jobs_[*next].submit : events_.top().time;
    // Fragmentation: GPUs that stay free between events although they would be enough for the first
    // job in line.
    if (!waiting_.empty() && need(waiting_.front()) <= free_.free_gpus()) {
      schedule_.fragmented_gpu_seconds += free_.free_gpus() * (now_ - before);
    }
    // Applies all events of this time before the pass decides.
    bool changed = false;
    for (; next != order.end() && jobs_[*next].submit <= now_; ++next, changed = true) {
      arrive(*next);
    }
    while (!events_.empty() && events_.top().time <= now_ + same_moment) {
      const Event event = events_.top();
      events_.pop();
      // The job has got other GPUs or has left them since the event was queued.
      if (states_[event.job].version != event.version) continue;
      changed = true;
      if (event.ends) {
        end(event.job);
      } else {
        // The job has reached its service threshold or had its slice, so the pass may evict it.
        states_[event.job].served = true;
      }
    }
    if (changed) pass();
  }
  return std::move(schedule_);
}

// The line is ordered by job class, then by time, then by job number. The time is the submission;
// under time slicing it is the beginning of the job's present wait.
bool Scheduler::before(std::size_t a, std::size_t b) const {
  const auto key = [&](std::size_t job) {
    const State& state = states_[job];
    const double since = takes_turns() ? state.waits_since : jobs_[job].submit;
    // A job whose turn ends stands behind a job that arrives at the same time.
    const bool had_a_turn = takes_turns() && state.evicted;
    return std::tuple(job_class(job), since, had_a_turn, job);
  };
  return key(a) < key(b);
}

void Scheduler::arrive(std::size_t job) {
  State& state = states_[job];
  state.sizes = options_.policy == Policy::elastic ? sizes_of(kind(job), jobs_[job].gpus)
                                                   : std::vector<int>{jobs_[job].gpus};
  state.remaining = jobs_[job].work;
  // If the limit were below the true length, the scheduler would expect an end that has already
  // passed.
  state.told = std::max(jobs_[job].work, jobs_[job].limit * rate(job, jobs_[job].gpus));
  state.phase = Phase::waiting;
  state.waits_since = now_;
  line_up(job);
}

// Inserts the job into the line, in the order of before().
void Scheduler::line_up(std::size_t job) {
  waiting_.insert(std::upper_bound(waiting_.begin(), waiting_.end(), job,
                                   [&](auto a, auto b) { return before(a, b); }),
                  job);
}

// Gives the GPUs of `placed` to a waiting job, which trains after `pause` seconds.
// REQUIRES: the caller removes the job from the line.
void Scheduler::start(std::size_t job, const Allocation& placed, double pause) {
  State& state = states_[job];
  JobRun& run = schedule_.jobs[job];
  if (!state.evicted) run.started = now_;
  run.waited += now_ - state.waits_since;
  state.phase = Phase::running;
  // `suspended_` counts a suspended job at the nodes of its state until the job starts.
  for (const Share& home : state.owned) {
    suspended_[home.node] -= home.gpus;
  }
  state.floor = state.gpus = gpus_in(placed);
  state.owned = state.placed = placed;
  unowned_.take(state.owned);
  // Under Policy::elastic, share_idle() rebuilds `free_` at the end of the pass, and takes these
  // GPUs back from jobs that have grown into them.
  if (options_.policy != Policy::elastic) free_.take(state.placed);
  state.rate = rate(job, state.gpus);
  state.settled = now_;
  state.trains_from = now_ + pause;
  state.since_restart = 0;
  running_.push_back(job);
  announce(job);
}

// Queues a running job's future events, and makes its earlier events stale. The events are the
// job's end and, unless it is `served`, the time at which it reaches its service threshold or has
// had its slice.
void Scheduler::announce(std::size_t job) {
  State& state = states_[job];
  ++state.version;
  events_.push({state.trains_from + state.remaining / state.rate, job, state.version, true});
  if (state.served) return;
  // Service grows by `gpus` GPU-seconds per second, even during a restart.
  if (options_.policy == Policy::preemption) {
    const double left = options_.service_before_eviction - state.service;
    events_.push({now_ + std::max(0.0, left) / state.gpus, job, state.version, false});
  } else if (takes_turns()) {
    events_.push({state.trains_from + options_.slice, job, state.version, false});
  }
}

// Adds up the work since the last settle() at the present speed, and books GPU time as useful, idle
// or lost.
void Scheduler::settle(std::size_t job) {
  State& state = states_[job];
  JobRun& run = schedule_.jobs[job];
  const double held = now_ - state.settled;
  if (held <= 0) return;
  const double trained = std::max(0.0, now_ - std::max(state.settled, state.trains_from));
  // A job that ends has done all its remaining work, even if rounded times give slightly less.
  const double work = state.phase == Phase::ended ? state.remaining
                                                  : std::min(state.remaining, trained * state.rate);
  state.remaining -= work;
  state.since_restart += trained;
  state.service += held * state.gpus;
  run.gpu_seconds += held * state.gpus;
  run.idle_gpu_seconds += (held - trained) * state.gpus;
  double lost = 0;
  // A job that is being evicted loses the work since its last checkpoint. Checkpoints lie
  // `checkpoint_period` seconds of training apart, counted from its last restart.
  if (options_.policy == Policy::preemption && state.phase == Phase::waiting &&
      kind(job).checkpoint_period > 0) {
    const double unsaved = std::fmod(state.since_restart, kind(job).checkpoint_period);
    // on_span has reported the work of earlier spans as done, so at most the work of this span can
    // be lost.
    lost = std::min(unsaved, trained) * state.rate;
    lost = std::min(lost, work);
    state.remaining += lost;
    run.lost_gpu_seconds += lost / state.rate * state.gpus;
  }
  if (options_.on_span) {
    options_.on_span({job, state.settled, now_, state.gpus, work - lost, lost, state.placed});
  }
  state.settled = now_;
}

// Gives a running elastic job other GPUs; it trains after `pause` seconds.
void Scheduler::change(std::size_t job, const Allocation& placed, double pause) {
  State& state = states_[job];
  // A change at the time of the start does not count as a resize.
  if (state.settled < now_) ++schedule_.jobs[job].resizes;
  settle(job);
  state.placed = placed;
  state.gpus = gpus_in(placed);
  state.rate = rate(job, state.gpus);
  state.trains_from = std::max(state.trains_from, now_ + pause);
  announce(job);
}

// Takes its GPUs from a running job that ends or is evicted.
void Scheduler::leave(std::size_t job) {
  State& state = states_[job];
  settle(job);
  ++state.version;
  unowned_.release(state.owned);
  free_.release(state.placed);
  running_.erase(std::find(running_.begin(), running_.end(), job));
}

void Scheduler::end(std::size_t job) {
  states_[job].phase = Phase::ended;
  leave(job);
  schedule_.jobs[job].ended = now_;
}

// Sends a running job back into the line. Under time slicing `owned` stays: the job's state waits
// in the host memory of these nodes, and the job later returns to them or moves.
// REQUIRES: the caller puts the line in order.
void Scheduler::evict(std::size_t job) {
  State& state = states_[job];
  state.phase = Phase::waiting;
  leave(job);
  state.evicted = true;
  state.waits_since = now_;
  if (takes_turns()) {
    state.served = false;
    for (const Share& home : state.owned) {
      suspended_[home.node] += home.gpus;
    }
  } else {
    state.owned.clear();
  }
  ++schedule_.jobs[job].evictions;
  waiting_.push_back(job);
}

}  // namespace lockstep
