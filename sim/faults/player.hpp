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

// The state machine of one run; made and used once by play(). An event changes the nodes first (the
// functions under "Events"), and its End tells the main loop how the job continues.
class Player {
 public:
  Player(const LongRun& plan, std::uint64_t seed, int run);

  LongRunResult play();

 private:
  // A node of the job or a spare node.
  struct NodeState {
    bool in_use = false;
    bool expected = false;  // in repair, or on its way to the job
    bool away = false;      // has left with notice, or has not joined yet
    int workers_down = 0;   // failed workers of the node
    int generation = 0;     // how often it was taken out of use
    int place = 0;          // position in the job, for a node in use
    bool hot = false;       // the program runs on it before it enters
    bool evicted = false;   // it leaves because it is slow
  };
  enum class Coming { node, worker, replica, eviction };
  // A scheduled event: a node, worker or replica comes back, or a slow node is to be evicted.
  // Events other than `node` are void if the node's or replica's generation has changed since.
  struct Return {
    double time;
    int number;  // of the replica for Coming::replica, else of the node
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
  // Number of nodes that train.
  int taking_part() const { return replicas_.any() ? replicas_.training_nodes() : members_; }

  // Optimizer steps per second at present; 0 = no progress.
  double speed() const;
  // The same without slow nodes and concurrent writes. The loss of a part of a node's workers
  // counts as the same part of the loss of a node; all nodes count alike.
  double speed_of_those_there() const;
  // The share of the speed that slow nodes leave. If ranks keep step, one slow node slows all, and
  // further slow nodes change nothing. Independent workers lose a share for each slow node.
  double share_with_slow_nodes() const;
  // Seconds of a restart; `hot` if the program runs already on the nodes that enter.
  double restart_seconds(bool hot) const;

  // --- time
  // Moves time by `seconds` and adds it to `account`, a part of the result; ends early if an event
  // affects the job.
  End pass(double seconds, double& account);
  double return_seconds() const;  // infinity = nothing comes back
  double next_seconds() { return std::min(failures_.next_seconds(), return_seconds()); }
  // The next event happens.
  End happen() { return return_seconds() <= next_seconds() ? comes_back() : fails(); }
  // Pass a pause: while the job is down, or while it stands still for a checkpoint. Return false if
  // an event stopped the job.
  bool quiet(double seconds);
  bool stand_still(double seconds);
  // Pass time until the condition is met, or enough nodes are there. Return false if nothing will
  // return, or not in time.
  template <class Condition>
  bool wait_until(Condition met);
  bool wait_for_nodes();

  // --- nodes
  // Nodes whose first event is that they join are absent at the beginning.
  void expect_those_who_join();
  // Marks a node as away or not, and counts its GPUs.
  void set_away(int node, bool away);
  // An idle node takes a free place of the job; take_out() frees it.
  void enter(int node);
  void take_out(int node);
  // Idle nodes enter the job, as many as it lacks.
  void take_idle();
  // The node comes back in `seconds`.
  void expect(int node, double seconds);
  // The last idle node joins the nodes that continue, in `seconds`.
  void call_spare(double seconds);
  // Independent workers: the state is placed on the first nodes in use.
  void place_state();
  // The replica trains again in `seconds`, plus the time to fetch the state.
  void restart_replica(int replica, double seconds);
  // Nodes of incomplete replicas form complete ones.
  void gather_replicas();
  void all_workers_restart();

  // --- events
  // Each returns how the job continues.
  End comes_back();
  End is_available(int node);
  End fails();
  End worker_fails(int node);
  End node_fails(int node, bool link);
  End fails_alone(int replica);
  // A replica stops: the others stand still until they have noticed, and continue without it.
  End stops(int replica, double detection_seconds);
  // A node leaves with notice. If the other nodes need it, it leaves after everything is saved.
  End leaves(int node);
  End go_away(int node);
  End joins(int node);
  End becomes_slow(int node);
  // Overdue slow nodes leave if another node replaces them or the others can continue without them.
  End evict();

  // Trains until the next checkpoint, the end, or an event; at most until a concurrent write ends,
  // because the speed changes then.
  End work();
  // Makes a checkpoint: waits for the previous write, stands still for this one, and lets idle
  // nodes join. Here and below, false means that the job cannot continue.
  bool checkpoint();
  // The job returns to the latest saved state and restarts. A failure meanwhile starts the recovery
  // anew.
  bool recover();
  // All nodes begin together, with a read of this length; false: an event stopped them.
  bool restart_all(double reading_seconds);
  // Saves everything before nodes leave that others need, or nodes join a synchronous job; the
  // present nodes continue.
  bool hand_over();

  const LongRun& plan_;
  Failures failures_;
  std::priority_queue<Return, std::vector<Return>, std::greater<>> returns_;
  // Spare nodes, and nodes that are back but not in use; the last one enters first.
  std::vector<int> idle_;
  std::vector<NodeState> nodes_;
  Replicas replicas_;
  Progress progress_;
  std::set<int> state_nodes_;     // nodes that keep the state (place_state())
  std::set<int> leaving_;         // leave as soon as everything is saved
  std::set<int> slow_, overdue_;  // slow nodes in use; slow nodes that are due to be evicted
  std::vector<int> free_places_;  // the last one is taken first
  // Nodes have joined that take part as soon as everything is saved.
  bool regroups_ = false;
  // Processes of nodes in use do not run, so that the next restart is not hot.
  bool cold_ = false;
  // Nodes in use, and the smallest number that makes progress.
  int members_ = 0, needed_ = 0;
  int workers_down_ = 0;  // failed workers of nodes in use
  int away_ = 0;          // GPUs of nodes that are away
  int joining_ = 0;       // number of `joins` events still to come
  // Present time, and the time at which the run is given up; in seconds.
  double now_ = 0, limit_ = 0;
  double stalled_until_ = 0;  // time until which the remaining replicas stand still
  LongRunResult result_;
};

}  // namespace lockstep
