// Stale-synchronous parallel (Ho et al. 2013; fact 83): each push is an update, and a worker is at
// most `bound` clocks ahead of the slowest worker. A worker's clock is the number of its pushes
// that have been applied. With an adaptive bound (DSSP, Zhao et al. 2019, algorithms 1 and 2), the
// fastest worker may go up to `highest` clocks ahead, if this shortens its wait for the slowest
// worker.
#include <algorithm>
#include <cmath>
#include <limits>

#include "strategies/parameter_server/rules/rule.hpp"

namespace lockstep {

namespace {

class StaleSynchronous final : public MessageRule {
 public:
  StaleSynchronous(int workers, int bound, int range)
      : bound_(bound), range_(range), clocks_(at(workers), 0), at_slowest_(workers) {
    if (range == 0) return;
    times_.resize(clocks_.size());
    extra_.assign(clocks_.size(), 0);
  }

  bool may_go_on(int worker) const override { return beyond_bound(worker) <= 0; }
  // A fixed bound decides by itself. An adaptive bound follows algorithm 1 of DSSP: a worker that
  // has extra clocks left uses one. A worker without extra clocks may pull within the bound; beyond
  // the bound, it may get extra clocks.
  bool may_pull(int worker) override {
    if (range_ == 0) return may_go_on(worker);
    int& extra = extra_[at(worker)];
    if (extra == 0) {
      if (may_go_on(worker)) return true;
      extra = extra_of(worker);
    }
    return extra > 0 && extra-- > 0;
  }

 private:
  void advance_clock(int worker, double now) override {
    if (range_ > 0) times_[at(worker)] = {now, now - times_[at(worker)].last};
    // The minimum is searched only if the last of the slowest workers has advanced.
    if (clocks_[at(worker)]++ != slowest_ || --at_slowest_ > 0) return;
    slowest_ = *std::min_element(clocks_.begin(), clocks_.end());
    at_slowest_ = static_cast<int>(std::count(clocks_.begin(), clocks_.end(), slowest_));
  }
  // The number of clocks by which the worker exceeds the bound; negative or 0 within the bound.
  int beyond_bound(int worker) const { return clocks_[at(worker)] - slowest_ - bound_; }
  // The extra clocks of a worker beyond the bound. Only the fastest worker gets any, and it is
  // never more than bound_ + range_ clocks ahead of the slowest.
  int extra_of(int worker) const {
    const auto [slowest, fastest] = std::minmax_element(clocks_.begin(), clocks_.end());
    if (clocks_[at(worker)] < *fastest) return 0;
    const int most = range_ - beyond_bound(worker) + 1;
    const PushTimes& others = times_[static_cast<std::size_t>(slowest - clocks_.begin())];
    return most > 0 ? best_extra(times_[at(worker)], others, most) : 0;
  }

  int bound_, range_;  // clocks ahead of the slowest; number of further clocks if the bound adapts
  std::vector<int> clocks_;       // by worker: number of its pushes that were applied
  int slowest_ = 0;               // the smallest clock
  int at_slowest_;                // number of workers that have the smallest clock
  std::vector<PushTimes> times_;  // by worker; empty if the bound is fixed
  std::vector<int> extra_;        // by worker: unused extra clocks; empty if the bound is fixed
};

}  // namespace

// Counted from the present, the fastest worker's push number `extra` arrives at last + extra *
// interval, and the slowest worker's push number `clock` at its last + clock * interval. The pair
// that is closest in time has the shortest wait; among equal pairs, the smallest number of extra
// clocks is chosen.
int best_extra(const PushTimes& fastest, const PushTimes& slowest, int most) {
  int best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (int extra = 0; extra <= most; ++extra) {
    const double arrival = fastest.last + extra * fastest.interval;
    for (int clock = 1; clock <= most + 1; ++clock) {
      const double apart = std::abs(slowest.last + clock * slowest.interval - arrival);
      if (apart < least) {
        least = apart;
        best = extra;
      }
    }
  }
  return best;
}

PsRule stale_synchronous(int bound, int highest) {
  const int range = highest > 0 ? highest - bound : 0;
  return [=](int workers) { return std::make_unique<StaleSynchronous>(workers, bound, range); };
}

}  // namespace lockstep
