// Stale-synchronous (Ho et al. 2013; fact 83): each push is an update, and a worker is at most
// `bound` clocks ahead of the slowest. A worker's clock is the number of its pushes that have been
// applied. Dynamic (DSSP, Zhao et al. 2019): the fastest worker goes further, up to `highest`,
// where that saves waiting.
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
  // Algorithm 1 of DSSP, where the bound adapts.
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
    if (clocks_[at(worker)]++ != slowest_ || --at_slowest_ > 0) return;
    slowest_ = *std::min_element(clocks_.begin(), clocks_.end());
    at_slowest_ = static_cast<int>(std::count(clocks_.begin(), clocks_.end(), slowest_));
  }
  int beyond_bound(int worker) const { return clocks_[at(worker)] - slowest_ - bound_; }
  // The fastest worker alone goes beyond the bound.
  int extra_of(int worker) const {
    const auto [slowest, fastest] = std::minmax_element(clocks_.begin(), clocks_.end());
    if (clocks_[at(worker)] < *fastest) return 0;
    const int most = range_ - beyond_bound(worker) + 1;
    const PushTimes& others = times_[static_cast<std::size_t>(slowest - clocks_.begin())];
    return most > 0 ? best_extra(times_[at(worker)], others, most) : 0;
  }

  int bound_, range_;  // clocks ahead of the slowest, and how many more where the bound adapts
  std::vector<int> clocks_;       // by worker
  int slowest_ = 0;               // clock of the slowest workers,
  int at_slowest_;                // and how many they are
  std::vector<PushTimes> times_;  // by worker
  std::vector<int> extra_;        // clocks that each may still go beyond the bound
};

}  // namespace

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
