// Policy migration: running jobs move so that a wide job finds whole nodes (Gandiva, Xiao et al.,
// OSDI 2018). A move stops the moved job for `migration` seconds. So jobs move only if the first
// job in line would lose more GPU time by waiting than the moved jobs lose.
//
//   before   node 0 |A A . .|   node 1 |B B . .|    C needs 4 GPUs: 4 are free, on two nodes
//   after    node 0 |A A B B|   node 1 |C C C C|    B has moved
#include <algorithm>

#include "cluster/scheduler.hpp"

namespace lockstep {

// Moves jobs that hold a part of a node to fuller nodes, so that the first job in line fits.
// Returns false, and changes nothing, if this is impossible or the moves cost more GPU time than
// they save.
bool Scheduler::move_together(std::size_t job) {
  if (options_.policy != Policy::migration) return false;
  // Moves gather free GPUs and make no new ones.
  if (need(job) > unowned_.free_gpus()) return false;
  // Plans on a copy. Each job leaves its node and is placed by the usual rule, on the fullest node
  // that has room. Because the emptiest node is emptied first, its jobs fill up the other nodes.
  Nodes nodes = unowned_;
  std::vector<Move> moves;
  for (const std::size_t running : emptiest_first()) {
    if (nodes.fits(need(job))) break;
    const State& state = states_[running];
    nodes.release(state.owned);
    const Allocation placed = nodes.place(state.gpus);
    nodes.take(placed);
    // A job that lands on its own node does not move.
    const bool moves_on = placed.front().node != state.owned.front().node;
    if (moves_on) moves.push_back({running, placed});
  }
  if (!nodes.fits(need(job))) return false;
  // The loop stops at the first fit, so an early move may turn out to be superfluous.
  leave_unneeded(moves, nodes, need(job));
  // Both sides of the comparison are GPU-seconds: the stops of all moved jobs, and the wait of the
  // first in line until its reservation, times the GPUs that it needs.
  double cost = 0;
  for (const Move& move : moves) {
    cost += jobs_[move.job].migration * states_[move.job].gpus;
  }
  const double wait = reserve(job).time - now_;
  if (cost >= wait * need(job)) return false;
  migrate(moves);
  return true;
}

// The running jobs that hold a part of a node, ordered by free GPUs of the node and then by size,
// both descending. Jobs with a whole node or more never move.
std::vector<std::size_t> Scheduler::emptiest_first() const {
  std::vector<std::size_t> movable;
  for (const std::size_t running : running_) {
    const bool on_a_part = states_[running].gpus < unowned_.gpus_per_node();
    if (on_a_part) movable.push_back(running);
  }
  const auto key = [&](std::size_t running) {
    const State& state = states_[running];
    const int node = state.owned.front().node;
    return std::pair(unowned_.free_on(node), state.gpus);
  };
  std::stable_sort(movable.begin(), movable.end(),
                   [&](std::size_t a, std::size_t b) { return key(a) > key(b); });
  return movable;
}

// Cancels moves that are not needed for `gpus` to fit, the latest move first. `nodes` is the
// cluster after all moves, and stays consistent with `moves`.
void Scheduler::leave_unneeded(std::vector<Move>& moves, Nodes& nodes, int gpus) const {
  for (auto move = moves.end(); move != moves.begin();) {
    --move;
    const Allocation& home = states_[move->job].owned;
    Nodes without = nodes;
    without.release(move->placed);
    if (!without.has(home)) continue;
    without.take(home);
    if (!without.fits(gpus)) continue;
    nodes = without;
    move = moves.erase(move);
  }
}

// Carries out the moves. All jobs leave their GPUs before any takes new ones, because a job may
// move to GPUs that another one leaves. Work done so far is counted with the old GPUs.
void Scheduler::migrate(const std::vector<Move>& moves) {
  for (const Move& move : moves) {
    const State& state = states_[move.job];
    settle(move.job);
    unowned_.release(state.owned);
    free_.release(state.owned);
  }
  for (const auto& [job, placed] : moves) {
    State& state = states_[job];
    state.owned = placed;
    state.placed = placed;
    unowned_.take(placed);
    free_.take(placed);
    // The job holds its new GPUs during the stop, but does not train.
    state.trains_from = std::max(state.trains_from, now_) + jobs_[job].migration;
    ++schedule_.jobs[job].migrations;
    announce(job);
  }
}

}  // namespace lockstep
