// What the servers ask before they update and before they answer a pull.
#pragma once

#include <cstddef>
#include <deque>
#include <limits>
#include <vector>

#include "strategies/parameter_server/options.hpp"

namespace lockstep {

// Every message (a key, or all keys of a server) is kept consistent by itself: its clock of a worker
// is the number of this worker's pushes that have been applied.
//   sync            one update from the pushes of all W workers, who wait for it (facts 68, 83)
//   backup workers  the same from the first W - b pushes; later ones are dropped, and answered
//                   (Chen et al. 2016; fact 87)
//   async           each push is an update; nobody waits (fact 69)
//   n-softsync      an update from W / n pushes; who pushes goes on at once (Zhang et al. 2016;
//                   fact 84)
//   ssp             each push is an update; a worker may be at most `lead` clocks ahead (fact 83)
//   dssp            the same, and `extra` clocks further when that saves waiting (Zhao et al. 2019)
struct PsRule {
  static constexpr int kUnbounded = std::numeric_limits<int>::max();
  int pushes_per_update = 1;
  int lead = kUnbounded;
  int extra = 0;
  bool pusher_waits = true;  // for the update that its push is part of
  bool drops_late = false;   // pushes that were computed on an older version than the present one

  // Do all workers wait for each other in every step?
  bool keeps_step(int workers) const { return pushes_per_update == workers && pusher_waits; }
  // May a worker whose clock is `clock` read, when the slowest one is at `slowest`?
  bool may_pull(int clock, int slowest) const {
    return lead == kUnbounded || clock - lead <= slowest;
  }
};

// Throws ConfigError when the options do not fit so many workers.
PsRule consistency_rule(const ParameterServerOptions& options, int workers);
// The one that PsPhase switches to.
PsRule switched_rule(Consistency to, int workers);

// What a controller of the pace goes by: of each worker its latest steps.
class WorkerPace {
 public:
  WorkerPace(std::size_t workers, int window) : window_(window), latest_(workers) {}

  // A step, and what of it was communication.
  void add(int worker, double seconds, double communication);
  // Of the means; the lower one of two medians. 1 until every worker has done so many steps.
  double slowest_over_median() const;
  // Of all of them together. 0 until every worker has done so many steps.
  double communication_share() const;

 private:
  struct Step {
    double seconds = 0, communication = 0;
  };
  double sum(std::size_t worker, double Step::*what) const;
  bool complete() const;

  int window_;
  std::vector<std::deque<Step>> latest_;  // by worker
};

// When a worker's last push was applied, and how long it had taken since the one before.
struct PushTimes {
  double last = 0, interval = 0;
};

// DSSP (Zhao et al. 2019, algorithm 2): how many clocks beyond the bound the fastest worker should
// go, 0 to `most`, so that it then waits least for the slowest, if both keep their pace.
int best_extra(const PushTimes& fastest, const PushTimes& slowest, int most);

}  // namespace lockstep
