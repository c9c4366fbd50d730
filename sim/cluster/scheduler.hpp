// The state of a cluster while jobs are scheduled on it, and the passes that change it. Only
// sim/cluster includes this header: schedule.cpp has the events and the accounting of work and GPU
// time; scheduler.cpp, turns.cpp and moves.cpp have the decisions of the policies. One object
// simulates one policy once.
//
//   to_come --arrive--> waiting --start--> running --end--> ended
//                          ^                  |
//                          +------ evict -----+
#pragma once

#include <map>
#include <queue>
#include <set>
#include <tuple>

#include "cluster/nodes.hpp"
#include "cluster/schedule.hpp"

namespace lockstep {

class Scheduler {
 public:
  // The object refers to kinds, jobs and options, which must outlive it.
  Scheduler(const ClusterSize& size, const std::vector<JobKind>& kinds,
            const std::vector<ClusterJob>& jobs, const ScheduleOptions& options);
  // Simulates all jobs until the last one ends.
  // REQUIRES: called once.
  Schedule run();

 private:
  enum class Phase { to_come, waiting, running, ended };
  // A job's state. Work is in the unit of its kind's rates, times are seconds.
  struct State {
    Phase phase = Phase::to_come;
    // Work left to do; work that an eviction loses is added back.
    double remaining = 0;
    // Total work that the scheduler expects: the time limit times the speed, but at least the true
    // work.
    double told = 0;
    // GPU counts that the job may have, ascending. Only elastic jobs under Policy::elastic have
    // several.
    std::vector<int> sizes;
    // Number of GPUs that the job owns: growth beyond them is taken back when another job needs it.
    int floor = 0;
    // The `floor` GPUs that the job owns; for a suspended job, the place of its state.
    Allocation owned;
    // All GPUs that the job holds: `owned`, and GPUs into which it has grown.
    Allocation placed;
    // Number of GPUs in `placed`, and the speed on them (work per second).
    int gpus = 0;
    double rate = 0;
    // Time up to which settle() has counted the work.
    double settled = 0;
    // The job trains from this time on. After a restart, a pause or a move, this is later than the
    // start.
    double trains_from = 0;
    double waits_since = 0;
    // Seconds of training since the job last got GPUs: tells when it last checkpointed.
    double since_restart = 0;
    // GPU-seconds that the job has held (its attained service, for Policy::preemption).
    double service = 0;
    // Whether `service` has reached its threshold, or the job's slice is over: it may be evicted.
    bool served = false;
    // The job has been evicted before.
    bool evicted = false;
    // Counts changes of the job's GPUs and speed; events with an older version are stale.
    std::uint32_t version = 0;
  };
  // A future time at which a job ends, reaches its service threshold, or has had its slice. The
  // event is stale if its version is not the version of the job's state.
  struct Event {
    double time;
    std::size_t job;
    std::uint32_t version;
    // True: the job ends. False: it reaches its service threshold or has had its slice.
    bool ends;
    // Order of the queue: time, then job, so that ties have one order on every machine.
    bool operator>(const Event& other) const {
      return std::tie(time, job, ends) > std::tie(other.time, other.job, other.ends);
    }
  };
  // The earliest time at which the first job in line fits, and the GPUs that will then be free.
  struct Reservation {
    double time;
    Nodes nodes;
  };

  // A running job and its new place.
  struct Move {
    std::size_t job;
    Allocation placed;
  };

  // Change a job's state (schedule.cpp). Each function keeps accounting, nodes and events
  // consistent.
  void arrive(std::size_t job);
  void line_up(std::size_t job);
  void start(std::size_t job, const Allocation& placed, double pause = 0);
  void settle(std::size_t job);
  void change(std::size_t job, const Allocation& placed, double pause);
  void announce(std::size_t job);
  void end(std::size_t job);
  void evict(std::size_t job);
  void leave(std::size_t job);

  // Decisions (scheduler.cpp, turns.cpp, moves.cpp). Functions that return bool change nothing if
  // they return false.
  void pass();
  void in_order();
  bool squeeze(std::size_t job);
  void backfill();
  void share_idle();
  void evict_for_waiting();
  bool make_room(std::size_t job);
  void take_turns();
  bool take_turn(std::size_t job, const std::set<int>& awaited, const Nodes& unshared);
  Nodes unshared_nodes() const;
  bool worth_moving(std::size_t job, bool alone) const;
  bool move_together(std::size_t job);
  std::vector<std::size_t> emptiest_first() const;
  void leave_unneeded(std::vector<Move>& moves, Nodes& nodes, int gpus) const;
  void migrate(const std::vector<Move>& moves);
  Reservation reserve(std::size_t job) const;
  double latest_end(std::size_t job, int gpus) const;

  bool takes_turns() const { return options_.policy == Policy::time_slicing; }
  // The fewest GPUs that the job starts with.
  int need(std::size_t job) const { return states_[job].sizes.front(); }
  // The largest of the job's sizes that fits now and does not exceed the request.
  int most_that_fits(std::size_t job) const;
  // Whether the job can start on `nodes`. A suspended job needs the GPUs at which its state lies.
  bool has_room(const Nodes& nodes, std::size_t job) const {
    const Allocation& home = states_[job].owned;
    return home.empty() ? nodes.fits(need(job)) : nodes.has(home);
  }
  const JobKind& kind(std::size_t job) const { return kinds_[jobs_[job].kind]; }
  double rate(std::size_t job, int gpus) const {
    return rates_[jobs_[job].kind][static_cast<std::size_t>(gpus)];
  }
  // Jobs of a smaller class go first. Under preemption and time slicing, they may evict jobs of a
  // larger class.
  std::pair<int, int> job_class(std::size_t job) const {
    return {-jobs_[job].priority, states_[job].served ? 1 : 0};
  }
  // Whether job a stands before job b in the line.
  bool before(std::size_t a, std::size_t b) const;

  const std::vector<JobKind>& kinds_;
  const std::vector<ClusterJob>& jobs_;
  const ScheduleOptions& options_;
  // Work per second by kind and GPU count.
  std::vector<std::vector<double>> rates_;
  std::vector<State> states_;
  Schedule schedule_;
  // GPUs that no running job owns. GPUs into which elastic jobs have grown count as unowned.
  Nodes unowned_;
  // GPUs that no running job holds. Equal to `unowned_` unless the policy is elastic.
  Nodes free_;
  // By node: GPUs to which suspended jobs will return.
  std::map<int, int> suspended_;
  // `waiting_`: the line of waiting jobs, the first in line in front. `running_`: in the order of
  // their start.
  std::vector<std::size_t> waiting_, running_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  double now_ = 0;
};

}  // namespace lockstep
