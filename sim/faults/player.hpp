// Plays one long run: state and rules of its nodes, replicas, checkpoints and restarts. Part of
// long_run.cpp's implementation; call play() instead.
#pragma once

#include <algorithm>
#include <queue>
#include <set>
#include <tuple>
#include <vector>

#include "faults/failures.hpp"
#include "faults/long_run.hpp"
#include "faults/progress.hpp"
#include "faults/replicas.hpp"

namespace lockstep {

// The end of a period: its time is over, nodes or speed changed, or the whole job stopped.
enum class End { over, changed, stopped };

class Player {
 public:
  Player(const LongRun& plan, std::uint64_t seed, int run);

  LongRunResult play();

 private:
  struct NodeState {
    bool in_use = false;
    bool expected = false;  // in repair, or on its way
    bool away = false;      // has left, or not joined yet
    int workers_down = 0;
    int generation = 0;    // how often it was taken out of use
    int place = 0;         // in the job, of a node in use
    bool hot = false;      // the program runs on it before it enters
    bool evicted = false;  // it leaves for being slow
  };
  // A scheduled event: a node, worker or replica comes back, or a slow node is to leave. Events
  // other than `node` are void if their generation is over.
  enum class Coming { node, worker, replica, eviction };
  struct Return {
    double time;
    int number;  // of a replica, or of the node
    int generation = 0;
    Coming what = Coming::node;
    bool operator>(const Return& other) const {
      return std::tuple(time, number, what, generation) >
             std::tuple(other.time, other.number, other.what, other.generation);
    }
  };

  NodeState& at(int node) { return nodes_[static_cast<std::size_t>(node)]; }
  bool is_there(int node) const { return static_cast<std::size_t>(node) < nodes_.size(); }

  bool alone() const { return plan_.nodes_come_back_alone(); }
  int taking_part() const { return replicas_.any() ? replicas_.training_nodes() : members_; }

  // Steps per second.
  double speed() const;
  // The loss of a part of a node's workers counts as the same part of the loss of a node; all nodes
  // count alike.
  double speed_of_those_there() const;
  // One slow node slows all synchronous nodes; further slow nodes change nothing.
  double share_with_slow_nodes() const;
  double restart_seconds(bool hot) const;

  // Time. pass() adds it to `account`, until it is over or an event affects the job.
  End pass(double seconds, double& account);
  double return_seconds() const;  // infinity = nothing comes back
  double next_seconds() { return std::min(failures_.next_seconds(), return_seconds()); }
  End happen() { return return_seconds() <= next_seconds() ? comes_back() : fails(); }
  // Whether no event stops the job during a pause: while it is down or stands still for
  // checkpoints.
  bool quiet(double seconds);
  bool stand_still(double seconds);
  // Returns false if no node will come (in time).
  template <class Condition>
  bool wait_until(Condition met);
  bool wait_for_nodes();

  // Nodes. Nodes that join before they leave are absent at the beginning.
  void expect_those_who_join();
  void set_away(int node, bool away);
  void enter(int node);
  void take_out(int node);
  void take_idle();
  void expect(int node, double seconds);
  // A spare node joins the nodes that continue meanwhile.
  void call_spare(double seconds);
  // The state is placed on the first available nodes.
  void place_state();
  void restart_replica(int replica, double seconds);
  // Nodes of incomplete replicas form complete ones.
  void gather_replicas();
  void all_workers_restart();

  // Events.
  End comes_back();
  End is_available(int node);
  End fails();
  End worker_fails(int node);
  End node_fails(int node, bool link);
  End fails_alone(int replica);
  // A replica stops: the others stand still until they have noticed, and continue without it.
  End stops(int replica, double detection_seconds);
  // A node leaves with notice: if others would stop, everything is saved before.
  End leaves(int node);
  End go_away(int node);
  End joins(int node);
  End becomes_slow(int node);
  // Slow nodes leave at the end of their time, if another node replaces them or the others continue
  // without them.
  End evict();

  // Trains until the next checkpoint, the end, or an event; at most until a concurrent write ends,
  // because the speed changes then.
  End work();
  // Waits until the previous checkpoint is complete. Here and below, false means that the job
  // cannot continue.
  bool checkpoint();
  // The job returns to the latest saved state. A failure meanwhile starts the recovery anew.
  bool recover();
  // All nodes begin together; false: an event stopped them.
  bool restart_all(double reading_seconds);
  // Saves everything before nodes leave that others need, or nodes join a synchronous job; the
  // present nodes continue.
  bool hand_over();

  const LongRun& plan_;
  Failures failures_;
  std::priority_queue<Return, std::vector<Return>, std::greater<>> returns_;
  std::vector<int> idle_;
  std::vector<NodeState> nodes_;
  Replicas replicas_;
  Progress progress_;
  std::set<int> state_nodes_;
  std::set<int> leaving_;         // as soon as everything is saved
  std::set<int> slow_, overdue_;  // slow nodes in use; slow nodes that are due to be evicted
  std::vector<int> free_places_;
  bool regroups_ = false;  // nodes have joined that take part as soon as everything is saved
  bool cold_ = false;      // processes of nodes in use do not run
  int members_ = 0, needed_ = 0;
  int workers_down_ = 0;  // of members
  int away_ = 0;          // GPUs of nodes that are away
  int joining_ = 0;       // how often one still will
  double now_ = 0, limit_ = 0;
  double stalled_until_ = 0;  // replicas that are left
  LongRunResult result_;
};

}  // namespace lockstep
