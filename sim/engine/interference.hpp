// The speed of compute while collectives run. Each lane's speed is piecewise constant over time and
// follows from the windows (engine/windows.hpp) of its own groups' collectives. Used by the compute
// stream of a RankGroup that has a slowdown (RankGroupSpec::slowdown), and by its communicators for
// collectives that compute slows down.
//
//   collectives      |==== A ====|    |== C ==|
//                         |== B ==|
//   speed       1    | .9 |.7 | .8| 1 |  .9   | 1
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

// A piecewise linear function of position: constant + rate * (position - origin) + the sum over its
// bends of bend.rate * max(position - origin, bend.at). Positions are measured from an origin close
// by, because the differences of large numbers would lose digits.
struct Curve {
  struct Bend {
    double at = 0;
    double rate = 0;  // the slope rises by this much at `at`
  };
  double origin = 0;
  double constant = 0;
  double rate = 0;
  std::vector<Bend> bends;

  // Sets `values` to the function's values at the positions.
  void at(std::span<const double> positions, std::span<double> values) const;
};

// Slow-down factors of all lanes (1 = nominal), and the aggregates that loops over lanes need.
struct LaneFactors {
  std::vector<double> lanes;
  double smallest = 1, largest = 1;
  double over_ranks = 1;  // sum of factor times ranks
};

// The speed of compute over time, for all lanes of one rank group.
class Interference {
 public:
  // Factor (>= 1) on the time of work of a phase while collectives occupy these resources
  // (RankGroupSpec::slowdown).
  using Slowdown = std::function<double(Phase, const Occupancy&)>;

  Interference(Slowdown slowdown, std::size_t lanes, Executor& executor);
  bool on() const { return static_cast<bool>(slowdown_); }  // whether the group has a slowdown
  // Factor on the time of work while only this transfer runs beside the work.
  double beside(Phase phase, const TransferSpec& spec) const;

  // Registers collectives that run beside the lanes' compute.
  void runs_beside(const CollectiveWindows& collectives);
  // A number for the resources that a transfer takes from compute. Transfers that take the same
  // have the same number; number 0 means that a transfer takes nothing.
  int kind_of(const TransferSpec& spec);

  // Must be called after windows were added or a window's end became known. Rings the bell.
  void change() {
    ++changes_;
    bell_.ring();
  }
  // Number of calls of change(). A result of work() is valid while this number stays the same.
  std::size_t changes() const { return changes_; }
  Bell& bell() { return bell_; }
  // carries() must be called when a collective with an unknown end starts, and has_carried() when
  // it ends.
  void carries() { ++carried_; }
  void has_carried() { --carried_; }
  // Whether all windows that can overlap work before the present are known.
  bool settled() const { return carried_ == 0; }

  // Computes the lanes' positions after work, from their positions `begins`, which lie in `range`.
  // Without collectives, the work takes `busy` seconds times the lane's factor. Sets `ends` and
  // returns the latest end.
  // REQUIRES: no position is before the lane's position in an earlier call.
  double work(Phase phase, std::span<const double> begins, const Range& range, double busy,
              const LaneFactors& factors, std::span<double> ends);
  // The end of `seconds` of work in one lane that begins at `from`.
  // REQUIRES: `from` is not before the lane's position in the latest work().
  double end_of_work(Phase phase, std::size_t lane, double from, double seconds);

  // Count the seconds in which the compute stream works. Work begins at `begin`, which may lie in
  // the past or the future, and ends at `end`. If there are several lanes, pass the first begin and
  // the last end.
  void compute_begins(double begin) { computing_since_ = std::max(begin, computed_end_); }
  void compute_ends(double end) {
    computed_ = computed_until(end);
    computed_end_ = std::max(computed_end_, end);
    computing_since_ = never;
  }
  // Seconds up to `time` (the present) in which the compute stream worked.
  double computed_until(double time) const {
    return computed_ + std::max(0.0, time - computing_since_);
  }

 private:
  static constexpr std::size_t phases = 4;
  // A set of collectives that run at the same time. Mixture 0 is the empty set.
  struct Mixture {
    Occupancy taken;
    std::array<double, phases> slowness{};  // by phase; 0 = not computed yet
    // By kind: the mixture that has one more collective of that kind; -1 = not made yet.
    std::vector<int> with{};
  };
  // A period of constant speed, which lasts until the next piece begins.
  struct Piece {
    double time = 0;  // its begin
    double work = 0;  // seconds of work done since the first piece began
    double speed = 1;
    double slowness = 1;  // 1 / speed
  };
  // The slowness at a moment, and the time at which it changes.
  struct Moment {
    double slowness = 1;
    double until = never;
  };
  // Selects the communicators that have windows which end after `time`. Until the next call, at()
  // must not be called for an earlier time.
  void look_from(double time);
  Moment at(Phase phase, std::size_t lane, double time, std::size_t* next);
  double walk(Phase phase, std::size_t lane, double from, double seconds, Moment now,
              const std::size_t* next);
  // The mixture that has one more collective of the kind than `mixture`.
  int with(int mixture, int kind) {
    const std::vector<int>& known = mixtures_[static_cast<std::size_t>(mixture)].with;
    const auto of = static_cast<std::size_t>(kind);
    return of < known.size() && known[of] >= 0 ? known[of] : mix(mixture, kind);
  }
  int mix(int mixture, int kind);
  // The slow-down of a phase beside a mixture; computed once for each phase.
  double slowness(Phase phase, int mixture);
  // Fills `pieces_` for all positions in `range` and `longest` seconds of work after them.
  void lay_out(Phase phase, const Range& range, double longest);
  // Two functions along the pieces: the work done by a time, and the time by which work is done.
  double work_at(double time) const;
  double time_of(double work) const;
  // One of these two functions as a Curve for positions in `range`.
  Curve curve(double Piece::*position, double Piece::*value, double Piece::*rate,
              const Range& range) const;
  std::size_t* next_of(std::size_t lane) {
    return next_.data() + (together_ ? 0 : lane * beside_.size());
  }

  Slowdown slowdown_;
  std::size_t lanes_;
  std::vector<const CollectiveWindows*> beside_;
  bool together_ = true;  // all communicators have one group: all lanes have the same windows
  // By lane (one for all if together_) and communicator: the first collective that has not ended by
  // the lane's position in the latest work().
  std::vector<std::size_t> next_;
  std::vector<std::size_t> walk_;    // scratch copy of one lane's next_, advanced by walk()
  std::vector<std::size_t> active_;  // communicators chosen by look_from()
  std::vector<Occupancy> kinds_;     // by the numbers that kind_of() returns
  std::vector<Mixture> mixtures_;
  std::vector<Piece> pieces_;  // of the latest work(), if together_
  std::size_t changes_ = 0;
  int carried_ = 0;                 // number of running collectives with unknown ends
  double computed_ = 0;             // seconds of finished work
  double computed_end_ = 0;         // end of the latest finished work
  double computing_since_ = never;  // begin of the work in progress
  Bell bell_;
};

}  // namespace lockstep
