// The player of one long run: the state of its nodes, replicas and checkpoints, and the rules by
// which they change. Part of the implementation of long_run.cpp; other code calls play()
// (long_run.hpp).
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

// Why a period ended: its time is over, the nodes or the speed changed, or the whole job stopped.
enum class End { over, changed, stopped };

// The state machine of one run; play() makes one and uses it once. An event first changes the nodes
// (the functions under "events"). The End that it returns tells the main loop how the job
// continues.
class Player {
 public:
  Player(const LongRun& plan, std::uint64_t seed, int run);

  LongRunResult play();

 private:
  // A node of the job or a spare node.
  struct NodeState {
    bool in_use = false;
    bool expected = false;  // is in repair, or on its way to the job
    bool away = false;      // has left with notice, or has not joined yet
    int workers_down = 0;   // number of failed workers on the node
    int generation = 0;     // grows if the node goes out of use, or its failed workers restart
    int place = 0;          // position in the job, for a node in use
    bool hot = false;       // the program already runs on it before it enters
    bool evicted = false;   // it leaves because it is slow
  };
  enum class Coming { node, worker, replica, eviction };
  // A scheduled event: a node, worker or replica comes back, or a slow node is due to be evicted.
  // Except for Coming::node, the event is invalid if the generation of its node or replica has
  // changed.
  struct Return {
    double time;
    int number;  // of the replica for Coming::replica, otherwise of the node
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
  // The speed if no node were slow and no checkpoint were being written. If a part of a node's
  // workers has failed, the same part of a node's speed is lost; all nodes count equally.
  double speed_of_those_there() const;
  // Factor on the speed because of slow nodes. If ranks run in step, one slow node slows down all,
  // and more slow nodes change nothing. If workers are independent, each slow node costs a share of
  // the speed.
  double share_with_slow_nodes() const;
  // Seconds of a restart. `hot`: the program already runs on the nodes that enter.
  double restart_seconds(bool hot) const;

  // --- time
  // Advances time by `seconds` and adds it to `account`, a part of the result. Ends early if an
  // event affects the job.
  End pass(double seconds, double& account);
  double return_seconds() const;  // time of the next scheduled event; infinity = none
  double next_seconds() { return std::min(failures_.next_seconds(), return_seconds()); }
  // Executes the next event.
  End happen() { return return_seconds() <= next_seconds() ? comes_back() : fails(); }
  // Pass `seconds` during which the job is down (quiet()) or stands still for a checkpoint
  // (stand_still()). Return false if an event stopped the job.
  bool quiet(double seconds);
  bool stand_still(double seconds);
  // Pass time until the condition is met, or until the job has enough nodes. Return false if
  // nothing is left that could return, or if the run's time limit is reached.
  template <class Condition>
  bool wait_until(Condition met);
  bool wait_for_nodes();

  // --- nodes
  // A node is absent at the beginning if its first `joins` or `leaves` event is a `joins` event.
  void expect_those_who_join();
  // Marks a node as away or present, and counts its GPUs.
  void set_away(int node, bool away);
  // enter(): an idle node takes a free place of the job. take_out(): the place becomes free.
  void enter(int node);
  void take_out(int node);
  // Idle nodes enter the job until all places are taken or no idle node is left.
  void take_idle();
  // Schedules that the node comes back in `seconds`.
  void expect(int node, double seconds);
  // If a node is idle, the last idle one joins the nodes that continue, in `seconds`.
  void call_spare(double seconds);
  // If workers are independent: puts the state on the first nodes in use.
  void place_state();
  // Schedules that the replica trains again, in `seconds` plus the time to fetch the state.
  void restart_replica(int replica, double seconds);
  // Regroups the nodes of incomplete replicas so that as many replicas as possible are complete.
  void gather_replicas();
  // Failed workers are back, and their scheduled returns become invalid.
  void all_workers_restart();

  // --- events
  // Each returns how the job continues.
  End comes_back();
  End is_available(int node);
  End fails();
  End worker_fails(int node);
  End node_fails(int node, bool link);
  End fails_alone(int replica);
  // A replica stops. The other replicas stand still until they have noticed it, and then continue.
  End stops(int replica, double detection_seconds);
  // A node leaves with notice. If the other nodes need it, it leaves only after everything is
  // saved.
  End leaves(int node);
  End go_away(int node);
  End joins(int node);
  End becomes_slow(int node);
  // Slow nodes that are due leave, if other nodes replace them or the job can continue without
  // them.
  End evict();

  // Trains until the next checkpoint, the end of the run, or an event. While a checkpoint is being
  // written beside training, it ends with the write at the latest, because the speed then changes.
  End work();
  // Makes a checkpoint: waits for the previous write and stands still for the new one. Then idle
  // nodes join with a restart, unless nodes come back alone. checkpoint(), recover() and
  // hand_over() return false if the job cannot continue.
  bool checkpoint();
  // The job returns to the latest saved state and restarts. If another failure happens meanwhile,
  // the recovery starts again.
  bool recover();
  // All nodes start together and read the state for `reading_seconds`. False: an event stopped
  // them.
  bool restart_all(double reading_seconds);
  // Saves everything before needed nodes leave or before nodes join a synchronous job. The nodes
  // that are then present continue.
  bool hand_over();

  const LongRun& plan_;
  Failures failures_;
  std::priority_queue<Return, std::vector<Return>, std::greater<>> returns_;
  // Spare nodes, and nodes that are back but not in use. The last one of the list enters first.
  std::vector<int> idle_;
  std::vector<NodeState> nodes_;
  Replicas replicas_;
  Progress progress_;
  std::set<int> state_nodes_;     // nodes that hold the state (place_state())
  std::set<int> leaving_;         // nodes that leave as soon as everything is saved
  std::set<int> slow_, overdue_;  // slow nodes in use; slow nodes that are due to be evicted
  std::vector<int> free_places_;  // the last one of the list is taken first
  // True: nodes have joined that take part as soon as everything is saved.
  bool regroups_ = false;
  // True: the program does not run on all nodes in use, so that the next restart is not hot.
  bool cold_ = false;
  // Number of nodes in use, and the smallest number that makes progress.
  int members_ = 0, needed_ = 0;
  int workers_down_ = 0;  // failed workers of nodes in use
  int away_ = 0;          // number of GPUs of nodes that are away
  int joining_ = 0;       // number of `joins` events still to come
  // Present time, and the time at which the run is given up; in seconds.
  double now_ = 0, limit_ = 0;
  double stalled_until_ = 0;  // time until which the remaining replicas stand still
  LongRunResult result_;
};

}  // namespace lockstep
