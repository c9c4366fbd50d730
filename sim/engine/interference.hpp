// Compute beside collectives: a piecewise constant speed over time per phase, and its integral
// ("work time"), in which a segment of device work has its nominal length.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "engine/executor.hpp"
#include "engine/range.hpp"
#include "engine/ranks.hpp"

namespace lockstep {

// A piecewise linear function: constant + rate * (position - origin) + the sum over its bends of
// their rate * max(position - origin, at). Positions count from an origin close by, or large numbers
// would cancel.
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

class Interference {
 public:
  using Slowdown = std::function<double(Phase, const Occupancy&)>;

  Interference(Slowdown slowdown, Executor& executor);
  bool on() const { return static_cast<bool>(slowdown_); }

  // A collective starts or stops at `time`. Times never decrease; earlier ones count from the
  // latest change.
  void start(double time, const TransferSpec& spec);
  void stop(double time, const TransferSpec& spec);

  // The compute stream begins work at `begin`, later or earlier than now; it ends at `end`. Of
  // several lanes: the first begin and the last end.
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

  // When a device that was never idle has done so much work, if nothing changes after the latest
  // change.
  double time_of(Phase phase, double work) const {
    const std::vector<Piece>& pieces = pieces_[static_cast<std::size_t>(phase)];
    const Piece* piece = &pieces.back();
    while (piece != pieces.data() && piece->work > work) --piece;
    return piece->time + (work - piece->work) * piece->slowness;
  }
  // Counts the changes: an answer of time_of() stays right while it does not move.
  std::size_t changes() const { return changes_; }
  // Rings at every change.
  Bell& bell() { return bell_; }
  // The same for many moments at once, all in `range`.
  Curve work_curve(Phase phase, const Range& range) const {
    return curve(phase, &Piece::time, &Piece::work, &Piece::speed, range);
  }
  Curve time_curve(Phase phase, const Range& range) const {
    return curve(phase, &Piece::work, &Piece::time, &Piece::slowness, range);
  }
  // Forget changes before `time`.
  void forget(double time);

 private:
  static constexpr std::size_t phases = 4;
  // Of constant speed, until the next one.
  struct Piece {
    double time = 0;
    double work = 0;
    double speed = 1;
    double slowness = 1;  // 1 / speed
  };
  Curve curve(Phase phase, double Piece::*position, double Piece::*value, double Piece::*rate,
              const Range& range) const;
  void change(double time, const Occupancy& taken);

  Slowdown slowdown_;
  Occupancy taken_;  // by all active collectives
  int active_ = 0;
  double computed_ = 0;      // seconds of finished work
  double computed_end_ = 0;  // of the latest that is finished
  double computing_since_ = never;
  std::array<std::vector<Piece>, phases> pieces_;
  std::size_t changes_ = 0;
  Bell bell_;
};

}  // namespace lockstep
