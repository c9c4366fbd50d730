// Stores the nodes and the state of each replica, and counts the replicas that train. Each stop
// begins a new generation, so that a return that was scheduled before the stop has no effect.
#include "faults/replicas.hpp"

namespace lockstep {

Replicas::Replicas(int places, int nodes_each) : nodes_each_(nodes_each) {
  if (nodes_each > 0) all_.resize(static_cast<std::size_t>(places / nodes_each));
}

bool Replicas::stop(int replica) {
  Replica& one = at(replica);
  ++one.generation;
  const bool trained = one.trains;
  if (trained) --training_;
  one.trains = false;
  return trained;
}

void Replicas::start(int replica) {
  if (trains(replica)) return;
  at(replica).trains = true;
  ++training_;
}

void Replicas::stop_all() {
  for (int replica = 0; replica < static_cast<int>(all_.size()); ++replica) stop(replica);
}

void Replicas::clear() {
  stop_all();
  for (Replica& replica : all_) replica.nodes = 0;
}

void Replicas::start_whole_ones() {
  for (int replica = 0; replica < static_cast<int>(all_.size()); ++replica) {
    if (is_whole(replica)) start(replica);
  }
}

}  // namespace lockstep
