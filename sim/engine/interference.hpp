// Compute beside collectives: each lane's speed is piecewise constant over time, and follows from
// the windows of its own groups' collectives. Used by compute streams of a RankGroup with a
// slowdown.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "engine/executor.hpp"
#include "engine/range.hpp"
#include "engine/ranks.hpp"
#include "engine/windows.hpp"

namespace lockstep {

// A piecewise linear function: constant + rate * (position - origin) + the sum over its bends of
// their rate * max(position - origin, at). Positions count from an origin close by, or large
// numbers would cancel.
struct Curve {
  struct Bend {
    double at = 0;
    double rate = 0;  // by which it rises faster from there on
  };
  double origin = 0;
  double constant = 0;
  double rate = 0;
  std::vector<Bend> bends;

  void at(std::span<const double> positions, std::span<double> values) const;
};

// Slow-down factors of all lanes, and the aggregates that loops over lanes need.
struct LaneFactors {
  std::vector<double> lanes;
  double smallest = 1, largest = 1;
  double over_ranks = 1;  // summed over ranks
};

class Interference {
 public:
  using Slowdown = std::function<double(Phase, const Occupancy&)>;

  Interference(Slowdown slowdown, std::size_t lanes, Executor& executor);
  bool on() const { return static_cast<bool>(slowdown_); }
  // How much longer work takes while this transfer alone runs beside it.
  double beside(Phase phase, const TransferSpec& spec) const;

  // Registers collectives that run beside the lanes' compute.
  void runs_beside(const CollectiveWindows& collectives);
  // An id for the share of compute that a transfer takes; equal shares have equal ids, and 0 takes
  // nothing.
  int kind_of(const TransferSpec& spec);

  // Must be called after windows were added or a window has got its end.
  void change() {
    ++changes_;
    bell_.ring();
  }
  std::size_t changes() const { return changes_; }
  Bell& bell() { return bell_; }
  // Must be called when a collective with an unknown end starts; the next function when it ends.
  void carries() { ++carried_; }
  void has_carried() { --carried_; }
  // Whether all windows are known that can overlap work before the present.
  bool settled() const { return carried_ == 0; }

  // Computes the lanes' positions after work from their positions `begins` in `range`. The work
  // takes `busy` seconds alone, times each lane's factor. Positions of one call are never before
  // those of an earlier one. Returns the last of `ends`.
  double work(Phase phase, std::span<const double> begins, const Range& range, double busy,
              const LaneFactors& factors, std::span<double> ends);
  // The end of `seconds` of work in one lane. `from` must not be before the lane's position in the
  // latest work().
  double end_of_work(Phase phase, std::size_t lane, double from, double seconds);

  // The compute stream begins work at `begin`, which may be past or future; the work ends at `end`.
  // For several lanes: the first begin and the last end.
  void compute_begins(double begin) { computing_since_ = std::max(begin, computed_end_); }
  void compute_ends(double end) {
    computed_ = computed_until(end);
    computed_end_ = std::max(computed_end_, end);
    computing_since_ = never;
  }
  // Seconds up to `time` (now) in which the compute stream worked.
  double computed_until(double time) const {
    return computed_ + std::max(0.0, time - computing_since_);
  }

 private:
  static constexpr std::size_t phases = 4;
  // Collectives that run at the same time. 0: none.
  struct Mixture {
    Occupancy taken;
    std::array<double, phases> slowness{};  // 0: not asked for yet
    std::vector<int> with{};                // by kind: this and one more of it; -1: not made yet
  };
  // A stretch of constant speed, until the next one.
  struct Piece {
    double time = 0;
    double work = 0;  // done since the first piece began
    double speed = 1;
    double slowness = 1;  // 1 / speed
  };
  // The slowness at a moment, and when it changes.
  struct Moment {
    double slowness = 1;
    double until = never;
  };
  void look_from(double time);  // at() is asked about no earlier moment until the next call
  Moment at(Phase phase, std::size_t lane, double time, std::size_t* next);
  double walk(Phase phase, std::size_t lane, double from, double seconds, Moment now,
              const std::size_t* next);
  int with(int mixture, int kind) {
    const std::vector<int>& known = mixtures_[static_cast<std::size_t>(mixture)].with;
    const auto of = static_cast<std::size_t>(kind);
    return of < known.size() && known[of] >= 0 ? known[of] : mix(mixture, kind);
  }
  int mix(int mixture, int kind);
  double slowness(Phase phase, int mixture);
  void lay_out(Phase phase, const Range& range, double longest);
  double work_at(double time) const;
  double time_of(double work) const;
  Curve curve(double Piece::*position, double Piece::*value, double Piece::*rate,
              const Range& range) const;
  std::size_t* next_of(std::size_t lane) {
    return next_.data() + (together_ ? 0 : lane * beside_.size());
  }

  Slowdown slowdown_;
  std::size_t lanes_;
  std::vector<const CollectiveWindows*> beside_;
  bool together_ = true;  // one group everywhere: all lanes have the same collectives beside them
  // By lane (one for all where together) and communicator: the first collective that is not over
  // where the lane was at the latest work().
  std::vector<std::size_t> next_;
  std::vector<std::size_t> walk_;    // a copy of a lane's, which goes on
  std::vector<std::size_t> active_;  // of beside_: some of their windows are not over
  std::vector<Occupancy> kinds_;
  std::vector<Mixture> mixtures_;
  std::vector<Piece> pieces_;  // of the latest work(), where together
  std::size_t changes_ = 0;
  int carried_ = 0;
  double computed_ = 0;      // seconds of finished work
  double computed_end_ = 0;  // of the latest that is finished
  double computing_since_ = never;
  Bell bell_;
};

}  // namespace lockstep
