// Policy time_slicing: whole gangs take turns on their GPUs (Gandiva, Xiao et al., OSDI 2018). A
// waiting job takes the GPUs of jobs that have had their slice. A suspended job's state stays on
// its nodes (`State::owned`); the job returns there or moves to free GPUs.
//
//   node 0   |A A A A|switch|B B B B|switch|A A A A|      slice: training time of a turn
#include <algorithm>
#include <utility>

#include "cluster/scheduler.hpp"

namespace lockstep {

namespace {

// Whether two jobs have a node in common, so that they take turns on it.
bool share_a_node(const Allocation& a, const Allocation& b) {
  for (const Share& one : a) {
    for (const Share& other : b) {
      if (one.node == other.node) return true;
    }
  }
  return false;
}

}  // namespace

// Goes through the line: the job that has waited longest takes all its GPUs at the same time, from
// jobs that have had their slice. If a job cannot start, the jobs behind it must not use the nodes
// of its state. A job that has not run yet may start anywhere, so if it cannot start, no job of its
// class behind it may.
void Scheduler::take_turns() {
  // evict() appends to `waiting_`, so the line is moved out of `waiting_` first.
  const std::vector<std::size_t> line = std::exchange(waiting_, {});
  std::vector<std::size_t> still;
  // Nodes for which a job waits that stands farther ahead in line and may not be evicted.
  std::set<int> awaited;
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
    // If waiting jobs block every node, no job of this class can start, and the class is skipped.
    const bool all = home.empty() || static_cast<int>(awaited.size()) == free_.nodes();
    if (all) {
      next = std::upper_bound(job, line.end(), *job, [this](std::size_t a, std::size_t b) {
        return job_class(a) < job_class(b);
      });
    }
    // The blocked jobs may later evict a job of a larger class, so such a job may use the nodes for
    // which they wait.
    const bool next_class = next != line.end() && job_class(*job) < job_class(*next);
    if (next_class) awaited.clear();
    still.insert(still.end(), job, next);
    job = next;
  }
  // `waiting_` contains the jobs that were suspended in this pass. The jobs that still wait go back
  // into it, and the suspended jobs line up among them.
  const std::vector<std::size_t> suspended = std::exchange(waiting_, still);
  for (const std::size_t job : suspended) {
    line_up(job);
  }
}

// Starts `job` if it can get all its GPUs: at the place of its state, on free GPUs elsewhere, or on
// GPUs of jobs that have had their slice. `awaited`: nodes that the job must not take. `unshared`:
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
  // Prefers GPUs to which no suspended job will return.
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
  // A job that has not run yet may take free GPUs of nodes outside `awaited` (above). While jobs
  // ahead in line wait, the job must not end turns of other jobs.
  const bool waits = first ? !awaited.empty() : held_back(home);
  if (waits) return false;
  if (!at_home && !make_room(job)) return false;
  start(job, first ? free_.place(asking.gpus) : home, asking.switching);
  return true;
}

// The free GPUs to which no suspended job will return.
Nodes Scheduler::unshared_nodes() const {
  Nodes nodes = free_;
  for (const auto& [node, gpus] : suspended_) {
    const int taken = std::min(gpus, nodes.free_on(node));
    nodes.take({{node, taken}});
  }
  return nodes;
}

// Whether a move saves more time than its stop costs. On GPUs without suspended jobs (`alone`) the
// job no longer takes turns, and saves the time until it or the first job that shares its nodes
// ends. On other GPUs it saves at most one turn.
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
