// Policy migration: running jobs move so that a wide one finds whole nodes (Gandiva, OSDI 2018).
#include <algorithm>

#include "cluster/scheduler.hpp"

namespace lockstep {

// Moves jobs on parts of nodes to fuller nodes so that the first job in line fits. Only done if the
// moved jobs lose less GPU time than the first in line would wait; false: nothing has changed.
bool Scheduler::move_together(std::size_t job) {
  if (options_.policy != Policy::migration) return false;
  if (need(job) > unowned_.free_gpus()) return false;
  Nodes nodes = unowned_;
  std::vector<Move> moves;
  for (const std::size_t running : emptiest_first()) {
    if (nodes.fits(need(job))) break;
    const State& state = states_[running];
    nodes.release(state.owned);
    const Allocation placed = nodes.place(state.gpus);
    nodes.take(placed);
    const bool moves_on = placed.front().node != state.owned.front().node;
    if (moves_on) moves.push_back({running, placed});
  }
  if (!nodes.fits(need(job))) return false;
  leave_unneeded(moves, nodes, need(job));
  double cost = 0;
  for (const Move& move : moves) {
    cost += jobs_[move.job].migration * states_[move.job].gpus;
  }
  const double wait = reserve(job).time - now_;
  if (cost >= wait * need(job)) return false;
  migrate(moves);
  return true;
}

// Running jobs on a part of a node, the largest of the emptiest node first.
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

// Takes back moves without which so many GPUs fit, too. `nodes`: the nodes after all moves.
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
    state.trains_from = std::max(state.trains_from, now_) + jobs_[job].migration;
    ++schedule_.jobs[job].migrations;
    announce(job);
  }
}

}  // namespace lockstep
