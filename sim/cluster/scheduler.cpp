// Decides after each change of the cluster's state which jobs start, shrink, grow or are evicted:
// jobs in order, EASY backfill (Lifka 1995), elastic growth, and preemption by least attained
// service (Tiresias, Gu et al., NSDI 2019). turns.cpp contains time slicing, moves.cpp migration.
#include "cluster/scheduler.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace lockstep {

namespace {

// The first `gpus` GPUs of an allocation. Whole nodes come first in it, so the job gives up a part
// of a node before a whole one.
Allocation first_of(const Allocation& allocation, int gpus) {
  Allocation kept;
  for (const Share& share : allocation) {
    if (gpus > 0) kept.push_back({share.node, std::min(gpus, share.gpus)});
    gpus -= share.gpus;
  }
  return kept;
}

}  // namespace

// Starts all jobs that may start at this moment.
void Scheduler::pass() {
  if (options_.policy == Policy::preemption) {
    evict_for_waiting();
  } else if (takes_turns()) {
    take_turns();
  } else {
    in_order();
    if (options_.policy == Policy::elastic) share_idle();
  }
}

// Starts jobs from the head of the line while they fit; elastic jobs may shrink and jobs may move
// to make them fit. The first job that does not fit stops the line, and other jobs overtake it only
// by backfill.
void Scheduler::in_order() {
  std::size_t first = 0;
  const auto may_start = [&](std::size_t job) {
    return unowned_.fits(need(job)) || squeeze(job) || move_together(job);
  };
  while (first < waiting_.size() && may_start(waiting_[first])) {
    const std::size_t job = waiting_[first];
    start(job, unowned_.place(most_that_fits(job)));
    ++first;
  }
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(first));
  const bool overtaking = options_.policy != Policy::fifo;
  if (overtaking && waiting_.size() > 1 && unowned_.free_gpus() > 0) backfill();
}

// An elastic job starts on the largest of its sizes that fits, up to the count that it asks for.
int Scheduler::most_that_fits(std::size_t job) const {
  int most = need(job);
  for (const int size : states_[job].sizes) {
    if (size <= jobs_[job].gpus && unowned_.fits(size)) most = size;
  }
  return most;
}

// Takes GPUs beyond their minimum from elastic jobs for the first job in line, beginning with the
// job that started last. Returns false, and changes nothing, if these GPUs are not enough.
bool Scheduler::squeeze(std::size_t job) {
  // Plans on a copy, and applies the plan only if it suffices.
  Nodes nodes = unowned_;
  std::vector<std::pair<std::size_t, Allocation>> squeezed;
  for (auto r = running_.rbegin(); r != running_.rend() && !nodes.fits(need(job)); ++r) {
    const State& state = states_[*r];
    if (state.floor <= need(*r)) continue;
    nodes.release(state.owned);
    squeezed.emplace_back(*r, first_of(state.owned, need(*r)));
    nodes.take(squeezed.back().second);
  }
  if (!nodes.fits(need(job))) return false;
  for (const auto& [running, owned] : squeezed) {
    State& state = states_[running];
    unowned_.release(state.owned);
    unowned_.take(owned);
    state.owned = owned;
    state.floor = need(running);
  }
  return true;
}

// EASY (Lifka 1995): the first in line has a reservation, the time at which it will fit by the
// limits of running jobs. A job behind it may overtake if it ends before that time, or if the first
// in line still fits beside it.
void Scheduler::backfill() {
  const std::size_t head = waiting_.front();
  Reservation reserved = reserve(head);
  if (options_.on_reservation) options_.on_reservation(head, reserved.time);
  const auto all = static_cast<std::size_t>(unowned_.gpus());
  // GPU counts with which a job would leave too little room for the first in line. Placement
  // depends only on the count, so an entry holds for all jobs until one starts.
  std::vector<bool> in_the_way(all + 1);
  const auto may_go = [&](std::size_t job, int gpus) {
    if (!unowned_.fits(gpus)) return false;
    if (latest_end(job, gpus) <= reserved.time + same_moment) return true;
    if (in_the_way[static_cast<std::size_t>(gpus)]) return false;
    const Allocation placed = unowned_.place(gpus);
    // The GPUs stay taken if the job may go, because it will still run when the first in line
    // starts.
    reserved.nodes.take(placed);
    if (reserved.nodes.fits(need(head))) return true;
    reserved.nodes.release(placed);
    in_the_way[static_cast<std::size_t>(gpus)] = true;
    return false;
  };
  // One pass that compacts the line in place; the first in line stays.
  auto kept = waiting_.begin() + 1, job = kept;
  for (; job != waiting_.end() && unowned_.free_gpus() > 0; ++job) {
    const auto& sizes = states_[*job].sizes;
    // The largest size that may go.
    const auto size = std::find_if(sizes.rbegin(), sizes.rend(), [&](int gpus) {
      return gpus <= std::max(need(*job), jobs_[*job].gpus) && may_go(*job, gpus);
    });
    if (size != sizes.rend()) {
      start(*job, unowned_.place(*size));
      in_the_way.assign(all + 1, false);
    } else {
      *kept++ = *job;
    }
  }
  waiting_.erase(kept, job);
}

// The latest end of the job on `gpus` GPUs, by the length that the scheduler expects. A running
// job's progress since the last settle() is included; a job that shrinks first pauses.
double Scheduler::latest_end(std::size_t job, int gpus) const {
  const State& state = states_[job];
  const ClusterJob& requester = jobs_[job];
  double from = now_, done = requester.work - state.remaining;
  if (state.phase == Phase::running) {
    from = std::max(now_, state.trains_from);
    done += std::max(0.0, now_ - std::max(state.settled, state.trains_from)) * state.rate;
    if (state.gpus > gpus) from += kind(job).pause;
  }
  return from + (state.told - done) / rate(job, gpus);
}

// The earliest time at which the first in line fits, if no running job ends later than its limit
// and elastic jobs fall back to the GPUs that they own. If several jobs end at that time, all their
// GPUs are free.
Scheduler::Reservation Scheduler::reserve(std::size_t job) const {
  std::vector<std::pair<double, std::size_t>> ends;
  for (const std::size_t running : running_) {
    ends.emplace_back(latest_end(running, states_[running].floor), running);
  }
  std::sort(ends.begin(), ends.end());
  Reservation reserved{now_, unowned_};
  for (const auto& [time, running] : ends) {
    if (!reserved.nodes.fits(need(job))) {
      reserved.time = std::max(now_, time);
    } else if (time > reserved.time + same_moment) {
      break;
    }
    reserved.nodes.release(states_[running].owned);
  }
  return reserved;
}

// Lets elastic jobs grow into GPUs that no job owns. Greedy: the next growth goes to the job whose
// speed, relative to its speed on the requested GPUs, rises most per added GPU. Growth is decided
// anew at each pass, starting from the GPUs that each job owns.
void Scheduler::share_idle() {
  free_ = unowned_;
  std::map<std::size_t, Allocation> placed;
  for (const std::size_t job : running_) {
    const State& state = states_[job];
    if (state.sizes.size() == 1) continue;
    Allocation& mine = placed[job] = state.owned;
    if (kind(job).pause <= 0) continue;
    // A job whose changes cost a pause stays on its GPUs as long as no other job needs them.
    free_.release(state.owned);
    if (free_.has(state.placed)) mine = state.placed;
    free_.take(mine);
  }
  // A possible growth of a job. The queue returns the largest gain first; among equal gains, the
  // job with the lower number.
  struct Step {
    double gain;
    std::size_t job;
    int size;
    bool operator<(const Step& other) const {
      return gain != other.gain ? gain < other.gain : job > other.job;
    }
  };
  std::priority_queue<Step> steps;
  // Queues a job's growth to its next size, if that is worth the pause.
  const auto offer = [&](std::size_t job) {
    const int gpus = gpus_in(placed[job]);
    const auto& sizes = states_[job].sizes;
    const auto next = std::upper_bound(sizes.begin(), sizes.end(), gpus);
    if (next == sizes.end()) return;
    const double faster = rate(job, *next) - rate(job, gpus);
    // A pause that costs more time than the growth will save is not worth it.
    const double saved = states_[job].remaining * (1 / rate(job, gpus) - 1 / rate(job, *next));
    if (faster <= 0 || saved <= kind(job).pause) return;
    steps.push({faster / rate(job, jobs_[job].gpus) / (*next - gpus), job, *next});
  };
  if (free_.free_gpus() > 0) {
    for (const auto& [job, ignored] : placed) offer(job);
  }
  while (!steps.empty() && free_.free_gpus() > 0) {
    const Step step = steps.top();
    steps.pop();
    if (free_.grow(placed[step.job], step.size)) offer(step.job);
  }
  for (const auto& [job, allocation] : placed) {
    const int gpus = gpus_in(allocation);
    State& state = states_[job];
    if (gpus == state.gpus) {
      state.placed = allocation;
    } else {
      // A job that starts at this very time starts at its grown size, without a pause.
      const bool just_started = state.settled == now_ && state.trains_from <= now_;
      change(job, allocation, just_started ? 0 : kind(job).pause);
    }
  }
}

// Least attained service with one threshold (Tiresias, NSDI 2019). Among jobs of equal priority, a
// job that has held `service_before_eviction` GPU-seconds gets a larger class, and jobs of smaller
// classes may evict it. The line is ordered by class.
void Scheduler::evict_for_waiting() {
  const auto class_before = [this](std::size_t a, std::size_t b) {
    return job_class(a) < job_class(b);
  };
  // Repeats until no job is evicted, because an evicted job may fit elsewhere.
  while (true) {
    const std::vector<std::size_t> line = std::exchange(waiting_, {});
    std::vector<std::size_t> still;
    for (auto job = line.begin(); job != line.end();) {
      if (free_.fits(need(*job)) || make_room(*job)) {
        const double pause = states_[*job].evicted ? kind(*job).restart : 0;
        start(*job, unowned_.place(need(*job)), pause);
        ++job;
      } else {  // only jobs of larger classes, which it may evict, may overtake it
        const auto next = std::upper_bound(job, line.end(), *job, class_before);
        still.insert(still.end(), job, next);
        job = next;
      }
    }
    const std::vector<std::size_t> evicted = std::exchange(waiting_, std::move(still));
    if (evicted.empty()) return;
    for (const std::size_t job : evicted) line_up(job);
  }
}

// Evicts jobs of larger classes until `job` fits, and spares each job that turns out not to be
// needed. The job that would stand last in line is evicted first. Returns false, and evicts no job,
// if `job` does not fit even then.
bool Scheduler::make_room(std::size_t job) {
  std::vector<std::size_t> candidates;
  for (const std::size_t running : running_) {
    if (job_class(job) < job_class(running)) candidates.push_back(running);
  }
  // Under time slicing, jobs whose size is closest to that of `job` are evicted first; among equal
  // sizes, the job whose turn is longest.
  const auto key = [&](std::size_t running) {
    int likeness = 0;
    double time = jobs_[running].submit;
    if (takes_turns()) {
      likeness = -std::abs(states_[running].gpus - need(job));
      time = -states_[running].trains_from;
    }
    return std::tuple(job_class(running), likeness, time, running);
  };
  std::sort(candidates.begin(), candidates.end(),
            [&](std::size_t a, std::size_t b) { return key(a) > key(b); });
  Nodes nodes = free_;
  std::size_t taken = 0;
  while (taken < candidates.size() && !has_room(nodes, job)) {
    nodes.release(states_[candidates[taken++]].placed);
  }
  if (!has_room(nodes, job)) return false;
  std::vector<std::size_t> victims;
  for (std::size_t i = taken; i-- > 0;) {
    const Allocation& placed = states_[candidates[i]].placed;
    nodes.take(placed);
    if (has_room(nodes, job)) continue;
    nodes.release(placed);
    victims.push_back(candidates[i]);
  }
  for (const std::size_t victim : victims) evict(victim);
  return true;
}

}  // namespace lockstep
