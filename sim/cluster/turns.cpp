// Policy time_slicing: whole gangs take turns on their GPUs (Gandiva, Xiao et al., OSDI 2018). A
// job that waits takes the place of jobs that have had their slice. A suspended job keeps the nodes
// of its state (`State::owned`), and comes back there or moves to free GPUs.
//
//   node 0   |A A A A|switch|B B B B|switch|A A A A|      slice: training time of a turn
#include <algorithm>
#include <utility>

#include "cluster/scheduler.hpp"

namespace lockstep {

namespace {

// Whether two jobs lie on a common node, and so wait for each other.
bool share_a_node(const Allocation& a, const Allocation& b) {
  for (const Share& one : a) {
    for (const Share& other : b) {
      if (one.node == other.node) return true;
    }
  }
  return false;
}

}  // namespace

// Goes through the line: the job that waits longest takes the place of jobs that have had their
// slice, on all its GPUs at once. A job that cannot start blocks the nodes of its state for all
// jobs behind it; a job without a state may start anywhere, so it blocks all jobs of its class.
void Scheduler::take_turns() {
  // evict() appends to waiting_, so the line is taken out first.
  const std::vector<std::size_t> line = std::exchange(waiting_, {});
  std::vector<std::size_t> still;
  // Nodes for which a job waits that stands before and may not be evicted.
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
    // If every node is awaited, no job of this class can start, and the class is skipped.
    const bool all = home.empty() || static_cast<int>(awaited.size()) == free_.nodes();
    if (all) {
      next = std::upper_bound(job, line.end(), *job, [this](std::size_t a, std::size_t b) {
        return job_class(a) < job_class(b);
      });
    }
    // A job of a larger class may be evicted by the blocked ones, so nodes that they await are no
    // obstacle for it.
    const bool next_class = next != line.end() && job_class(*job) < job_class(*next);
    if (next_class) awaited.clear();
    still.insert(still.end(), job, next);
    job = next;
  }
  // The jobs that lost their turn stand in waiting_ now; the others are put back and the suspended
  // jobs lined up among them.
  const std::vector<std::size_t> suspended = std::exchange(waiting_, still);
  for (const std::size_t job : suspended) {
    line_up(job);
  }
}

// Starts `job` if it can get all its GPUs: where its state is, on free GPUs elsewhere, or where
// other jobs have had their slice. `awaited`: nodes that the job must not take. `unshared`:
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
  // Prefers GPUs that no suspended job will come back to.
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
  // A job without a state may take free GPUs of nodes that are not awaited, as above. It ends no
  // turns while other jobs wait before it.
  const bool waits = first ? !awaited.empty() : held_back(home);
  if (waits) return false;
  if (!at_home && !make_room(job)) return false;
  start(job, first ? free_.place(asking.gpus) : home, asking.switching);
  return true;
}

// Free GPUs that no suspended job will come back to.
Nodes Scheduler::unshared_nodes() const {
  Nodes nodes = free_;
  for (const auto& [node, gpus] : suspended_) {
    const int taken = std::min(gpus, nodes.free_on(node));
    nodes.take({{node, taken}});
  }
  return nodes;
}

// Whether a move saves more time than its stop costs. On GPUs without suspended jobs (`alone`) the
// job ends its sharing, and saves the time for which it would share: until it or its first partner
// ends. Elsewhere it saves one turn at most.
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
