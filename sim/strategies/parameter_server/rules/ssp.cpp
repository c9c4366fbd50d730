// Stale-synchronous (Ho et al. 2013; fact 83): each push is an update, and a worker is at most
// `bound` clocks ahead of the slowest. A worker's clock is the number of its pushes that have been
// applied. Dynamic (DSSP, Zhao et al. 2019): the fastest worker goes further, up to `highest`, where
// that saves waiting.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/index.hpp"
#include "strategies/parameter_server/rules/rule.hpp"

namespace lockstep {

namespace {

class StaleSynchronous : public MessageRule {
 public:
  StaleSynchronous(int workers, int bound)
      : bound_(bound), clocks_(at(workers), 0), at_slowest_(workers) {}

  void settled(int worker, double) override {
    if (clocks_[at(worker)]++ != slowest_ || --at_slowest_ > 0) return;
    slowest_ = *std::min_element(clocks_.begin(), clocks_.end());
    at_slowest_ = static_cast<int>(std::count(clocks_.begin(), clocks_.end(), slowest_));
  }
  bool may_pull(int worker) override { return may_go_on(worker); }
  bool may_go_on(int worker) const override { return beyond_bound(worker) <= 0; }

 protected:
  int beyond_bound(int worker) const { return clocks_[at(worker)] - slowest_ - bound_; }
  const std::vector<int>& clocks() const { return clocks_; }

 private:
  int bound_;
  std::vector<int> clocks_;  // by worker
  int slowest_ = 0;          // clock of the slowest workers,
  int at_slowest_;           // and how many they are
};

class DynamicStaleSynchronous final : public StaleSynchronous {
 public:
  DynamicStaleSynchronous(int workers, int bound, int highest)
      : StaleSynchronous(workers, bound),
        range_(highest - bound),
        times_(at(workers)),
        extra_(at(workers), 0) {}

  void settled(int worker, double now) override {
    StaleSynchronous::settled(worker, now);
    times_[at(worker)] = {now, now - times_[at(worker)].last};
  }
  // Algorithm 1 of the paper.
  bool may_pull(int worker) override {
    int& extra = extra_[at(worker)];
    if (extra == 0) {
      if (may_go_on(worker)) return true;
      extra = extra_of(worker);
    }
    return extra > 0 && extra-- > 0;
  }

 private:
  // The fastest worker alone goes beyond the bound.
  int extra_of(int worker) const {
    const auto [slowest, fastest] = std::minmax_element(clocks().begin(), clocks().end());
    if (clocks()[at(worker)] < *fastest) return 0;
    const int most = range_ - beyond_bound(worker) + 1;
    const PushTimes& others = times_[static_cast<std::size_t>(slowest - clocks().begin())];
    return most > 0 ? best_extra(times_[at(worker)], others, most) : 0;
  }

  int range_;
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
  return [=](int workers) -> std::unique_ptr<MessageRule> {
    if (highest == 0) return std::make_unique<StaleSynchronous>(workers, bound);
    return std::make_unique<DynamicStaleSynchronous>(workers, bound, highest);
  };
}

}  // namespace lockstep
