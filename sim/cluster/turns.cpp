// Policy time_slicing: whole gangs take turns on their GPUs (Gandiva, OSDI 2018).
#include <algorithm>
#include <utility>

#include "cluster/scheduler.hpp"

namespace lockstep {

namespace {

bool share_a_node(const Allocation& a, const Allocation& b) {
  for (const Share& one : a) {
    for (const Share& other : b) {
      if (one.node == other.node) return true;
    }
  }
  return false;
}

}  // namespace

// The job that waits longest takes the place of jobs that have had their slice, on all its GPUs at
// once.
void Scheduler::take_turns() {
  const std::vector<std::size_t> line = std::exchange(waiting_, {});
  std::vector<std::size_t> still;
  std::set<int> awaited;  // nodes for which a job waits that stands before and may not be evicted
  Nodes unshared = unshared_nodes();
  for (auto job = line.begin(); job != line.end();) {
    if (take_turn(*job, awaited, unshared)) {
      unshared = unshared_nodes();
      ++job;
      continue;
    }
    auto next = job + 1;
    const Allocation& home = states_[*job].owned;
    for (const Share& share : home) {
      awaited.insert(share.node);
    }
    const bool all = home.empty() || static_cast<int>(awaited.size()) == free_.nodes();
    if (all) {
      next = std::upper_bound(job, line.end(), *job, [this](std::size_t a, std::size_t b) {
        return job_class(a) < job_class(b);
      });
    }
    const bool next_class = next != line.end() && job_class(*job) < job_class(*next);
    if (next_class) awaited.clear();
    still.insert(still.end(), job, next);
    job = next;
  }
  const std::vector<std::size_t> suspended = std::exchange(waiting_, still);
  for (const std::size_t job : suspended) {
    line_up(job);
  }
}

// Where its state is, on free GPUs elsewhere, or where others have had their slice. `unshared`:
// unshared_nodes().
bool Scheduler::take_turn(std::size_t job, const std::set<int>& awaited, const Nodes& unshared) {
  const auto held_back = [&](const Allocation& placed) {
    return std::any_of(placed.begin(), placed.end(),
                       [&](const Share& share) { return awaited.contains(share.node); });
  };
  const ClusterJob& asking = jobs_[job];
  const Allocation& home = states_[job].owned;
  const bool first = home.empty();
  const bool at_home = !first && free_.has(home);
  const bool alone = unshared.fits(asking.gpus);
  const bool elsewhere = !at_home && free_.fits(asking.gpus);
  if (elsewhere && (first || worth_moving(job, alone))) {
    const Nodes& nodes = alone ? unshared : free_;
    const Allocation placed = nodes.place(asking.gpus);
    if (!held_back(placed)) {
      if (!first) ++schedule_.jobs[job].migrations;
      start(job, placed, first ? 0 : asking.migration);
      return true;
    }
  }
  const bool waits = first ? !awaited.empty() : held_back(home);
  if (waits) return false;
  if (!at_home && !make_room(job)) return false;
  start(job, first ? free_.place(asking.gpus) : home, asking.switching);
  return true;
}

// GPUs that are free and that no suspended job holds.
Nodes Scheduler::unshared_nodes() const {
  Nodes nodes = free_;
  for (const auto& [node, gpus] : suspended_) {
    const int taken = std::min(gpus, nodes.free_on(node));
    nodes.take({{node, taken}});
  }
  return nodes;
}

// A move to GPUs that no suspended job comes back to ends its sharing; elsewhere it saves a turn.
bool Scheduler::worth_moving(std::size_t job, bool alone) const {
  const State& state = states_[job];
  double saved = latest_end(job, need(job)) - now_;
  if (!alone) saved = std::min(saved, options_.slice);
  for (const std::size_t running : running_) {
    if (!share_a_node(state.owned, states_[running].owned)) continue;
    const double left = latest_end(running, need(running)) - now_;
    saved = std::min(saved, left);
  }
  return jobs_[job].migration < saved;
}

}  // namespace lockstep
