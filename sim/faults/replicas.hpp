// Replicas of a job that fail and come back alone: which of them have all their nodes, and which train.
#pragma once

#include <vector>

namespace lockstep {

class Replicas {
 public:
  // Each has so many consecutive places; 0 = the job has no replicas of that kind.
  Replicas(int places, int nodes_each);

  bool any() const { return nodes_each_ > 0; }
  int of(int place) const { return place / nodes_each_; }
  int training_nodes() const { return training_ * nodes_each_; }
  bool trains(int replica) const { return at(replica).trains; }
  bool is_whole(int replica) const { return at(replica).nodes == nodes_each_; }
  // How often it was stopped: what was to bring it back before is void.
  int generation(int replica) const { return at(replica).generation; }

  void node_enters(int place) { ++at(of(place)).nodes; }
  void node_leaves(int place) { --at(of(place)).nodes; }
  // Whether it trained until then.
  bool stop(int replica);
  void start(int replica);
  void stop_all();
  void clear();  // all stop, and no place has a node
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
