// The state of a cluster while jobs are scheduled on it, and the passes that change it. Part of
// schedule.cpp.
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
  Scheduler(const ClusterSize& size, const std::vector<JobKind>& kinds,
            const std::vector<ClusterJob>& jobs, const ScheduleOptions& options);
  Schedule run();

 private:
  enum class Phase { to_come, waiting, running, ended };
  struct State {
    Phase phase = Phase::to_come;
    double remaining = 0;  // work
    double told = 0;       // work known to the scheduler
    std::vector<int> sizes;
    int floor = 0;      // GPUs that are its own as long as the first in line cannot use them
    Allocation owned;   // where they lie; of a suspended job, where its state is,
    Allocation placed;  // and all it has
    int gpus = 0;
    double rate = 0;
    double settled = 0;      // work is counted up to here
    double trains_from = 0;  // later than that after a restart or a pause
    double waits_since = 0;
    double since_restart = 0;  // seconds of training
    double service = 0;        // GPU-seconds
    bool served = false;       // has had its service before eviction, or its slice
    bool evicted = false;      // before
    std::uint32_t version = 0;
  };
  struct Event {
    double time;
    std::size_t job;
    std::uint32_t version;
    bool ends;  // else: has had its service or its slice
    bool operator>(const Event& other) const {
      return std::tie(time, job, ends) > std::tie(other.time, other.job, other.ends);
    }
  };
  // The place reserved for the first job in line, and the GPUs that will then be free.
  struct Reservation {
    double time;
    Nodes nodes;
  };

  struct Move {
    std::size_t job;
    Allocation placed;
  };

  void arrive(std::size_t job);
  void line_up(std::size_t job);
  void start(std::size_t job, const Allocation& placed, double pause = 0);
  void settle(std::size_t job);
  void change(std::size_t job, const Allocation& placed, double pause);
  void announce(std::size_t job);
  void end(std::size_t job);
  void evict(std::size_t job);
  void leave(std::size_t job);

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
  int need(std::size_t job) const { return states_[job].sizes.front(); }
  int most_that_fits(std::size_t job) const;  // up to its requested count
  // A suspended job's place is the place of its state.
  bool has_room(const Nodes& nodes, std::size_t job) const {
    const Allocation& home = states_[job].owned;
    return home.empty() ? nodes.fits(need(job)) : nodes.has(home);
  }
  const JobKind& kind(std::size_t job) const { return kinds_[jobs_[job].kind]; }
  double rate(std::size_t job, int gpus) const {
    return rates_[jobs_[job].kind][static_cast<std::size_t>(gpus)];
  }
  // Smaller classes go first; jobs of a larger class may be evicted.
  std::pair<int, int> job_class(std::size_t job) const {
    return {-jobs_[job].priority, states_[job].served ? 1 : 0};
  }
  bool before(std::size_t a, std::size_t b) const;

  const std::vector<JobKind>& kinds_;
  const std::vector<ClusterJob>& jobs_;
  const ScheduleOptions& options_;
  std::vector<std::vector<double>> rates_;  // of each kind, by GPUs: asked for at every event
  std::vector<State> states_;
  Schedule schedule_;
  Nodes unowned_;
  Nodes free_;
  std::map<int, int> suspended_;  // GPUs of suspended jobs, by the node of their state
  std::vector<std::size_t> waiting_, running_;  // in line; in order of their start
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  double now_ = 0;
};

}  // namespace lockstep
