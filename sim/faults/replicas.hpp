// The replicas of a job whose replicas fail and return separately: which replicas have all their
// nodes, and which train. Used by the player of a long run (player.hpp) with `recovery: replicas`.
#pragma once

#include <vector>

namespace lockstep {

// Counts the nodes of each replica and knows its state. A replica may train only while it is whole.
class Replicas {
 public:
  // Each replica has `nodes_each` consecutive places of the job; 0 = the job has no replicas.
  Replicas(int places, int nodes_each);

  bool any() const { return nodes_each_ > 0; }
  // The replica of a place.
  int of(int place) const { return place / nodes_each_; }
  int training_nodes() const { return training_ * nodes_each_; }
  bool trains(int replica) const { return at(replica).trains; }
  bool is_whole(int replica) const { return at(replica).nodes == nodes_each_; }
  // How often stop() was called for the replica. A return that was scheduled in an earlier
  // generation is invalid.
  int generation(int replica) const { return at(replica).generation; }

  void node_enters(int place) { ++at(of(place)).nodes; }
  void node_leaves(int place) { --at(of(place)).nodes; }
  // Ends the replica's training and makes its scheduled returns invalid. Returns whether it
  // trained.
  bool stop(int replica);
  // The replica trains from now on.
  // REQUIRES: it is whole.
  void start(int replica);
  void stop_all();
  void clear();  // stops all and removes all nodes
  void start_whole_ones();

 private:
  struct Replica {
    int nodes = 0;
    bool trains = false;
    int generation = 0;
  };
  Replica& at(int replica) { return all_[static_cast<std::size_t>(replica)]; }
  const Replica& at(int replica) const { return all_[static_cast<std::size_t>(replica)]; }

  int nodes_each_;
  int training_ = 0;
  std::vector<Replica> all_;
};

}  // namespace lockstep
