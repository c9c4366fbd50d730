// Integrates piecewise constant speeds to find the end of work that collectives slow down. If all
// lanes have the same collectives beside them, two piecewise linear functions serve all lanes: the
// work done by a time, and its inverse. A lane that begins at t and has w seconds of work ends at
//   end = time(work(t) + w)
// Otherwise each lane passes through the windows of its own groups.
#include "engine/interference.hpp"

#include <algorithm>
#include <utility>

namespace lockstep {

// Starts with the first slope and adds the change of slope of every bend, without branches.
// Simulations with thousands of jittered lanes spend half of their time in such loops.
LOCKSTEP_WIDE_VECTORS
void Curve::at(std::span<const double> positions, std::span<double> values) const {
  // Several at once, because a single one would wait for each addition.
  constexpr std::size_t vectors = 4;
  std::size_t lane = 0;
  for (; lane + vectors * wide_lanes <= positions.size(); lane += vectors * wide_lanes) {
    Wide position[vectors], value[vectors];
    for (std::size_t k = 0; k < vectors; ++k) {
      position[k] = wide(&positions[lane])[k] - origin;
      value[k] = constant + position[k] * rate;
    }
    for (const Bend& bend : bends) {
      const Wide at = Wide{} + bend.at;
      for (std::size_t k = 0; k < vectors; ++k) {
        value[k] += (position[k] > at ? position[k] : at) * bend.rate;
      }
    }
    for (std::size_t k = 0; k < vectors; ++k) wide(&values[lane])[k] = value[k];
  }
  for (; lane < positions.size(); ++lane) {
    const double position = positions[lane] - origin;
    double value = constant + position * rate;
    for (const Bend& bend : bends) value += std::max(position, bend.at) * bend.rate;
    values[lane] = value;
  }
}

Interference::Interference(Slowdown slowdown, std::size_t lanes, Executor& executor)
    : slowdown_(std::move(slowdown)), lanes_(lanes), kinds_(1), mixtures_(1), bell_(executor) {
  mixtures_[0].slowness.fill(1);
}

void Interference::runs_beside(const CollectiveWindows& collectives) {
  beside_.push_back(&collectives);
  together_ = together_ && collectives.together();
  next_.assign(beside_.size() * (together_ ? 1 : lanes_), 0);
  walk_.resize(beside_.size());
}

double Interference::beside(Phase phase, const TransferSpec& spec) const {
  if (!on()) return 1;
  return std::max(1.0, slowdown_(phase, {spec.channels, spec.hbm_bytes_per_second, spec.cores,
                                         spec.compute_speed}));
}

int Interference::kind_of(const TransferSpec& spec) {
  const Occupancy taken{spec.channels, spec.hbm_bytes_per_second, spec.cores, spec.compute_speed};
  const auto known = std::find(kinds_.begin(), kinds_.end(), taken) - kinds_.begin();
  if (known == std::ssize(kinds_)) kinds_.push_back(taken);
  return static_cast<int>(known);
}

// Makes the mixture that has one more collective of `kind` than `mixture`: resources add up, speeds
// multiply.
int Interference::mix(int mixture, int kind) {
  const auto from = static_cast<std::size_t>(mixture), of = static_cast<std::size_t>(kind);
  if (mixtures_[from].with.size() <= of) mixtures_[from].with.resize(kinds_.size(), -1);
  const int made = mixtures_[from].with[of] = static_cast<int>(mixtures_.size());
  const Occupancy& a = mixtures_[from].taken;
  const Occupancy& b = kinds_[of];
  mixtures_.push_back({{a.channels + b.channels, a.hbm_bytes_per_second + b.hbm_bytes_per_second,
                        a.cores + b.cores, a.compute_speed * b.compute_speed}});
  return made;
}

double Interference::slowness(Phase phase, int mixture) {
  Mixture& now = mixtures_[static_cast<std::size_t>(mixture)];
  double& known = now.slowness[static_cast<std::size_t>(phase)];
  if (known == 0) known = std::max(1.0, slowdown_(phase, now.taken));
  return known;
}

void Interference::look_from(double time) {
  active_.clear();
  for (std::size_t i = 0; i < beside_.size(); ++i) {
    if (beside_[i]->reaches(time)) active_.push_back(i);
  }
}

// The slowness of one lane at `time`. next[i] is the number of a collective of communicator i, at
// or before the first one that is not over at `time`. The call advances next[i] to the first one
// that is not over, so that a series of calls with rising times visits each window once.
Interference::Moment Interference::at(Phase phase, std::size_t lane, double time,
                                      std::size_t* next) {
  Moment moment;
  int mixture = 0;
  for (const std::size_t i : active_) {
    const CollectiveWindows& collectives = *beside_[i];
    const std::size_t groups = collectives.groups(), count = collectives.count();
    const std::size_t first = collectives.first();
    std::size_t serial = std::max(next[i], first);
    const Window* window =
        collectives.of_group(collectives.group_of(lane)) + (serial - first) * groups;
    while (serial < count && window->end <= time) {
      ++serial;
      window += groups;
    }
    next[i] = serial;
    if (serial == count) continue;
    if (window->start > time) {
      moment.until = std::min(moment.until, window->start);
    } else {
      moment.until = std::min(moment.until, window->end);
      mixture = with(mixture, collectives.collective(serial).kind);
    }
  }
  moment.slowness = slowness(phase, mixture);
  return moment;
}

// The end of `seconds` of work that begins at `from` with the slowness of `now`. Advances from one
// change of speed to the next.
double Interference::walk(Phase phase, std::size_t lane, double from, double seconds, Moment now,
                          const std::size_t* next) {
  std::copy_n(next, walk_.size(), walk_.data());
  while (from + seconds * now.slowness > now.until) {
    seconds -= (now.until - from) / now.slowness;
    from = now.until;
    now = at(phase, lane, from, walk_.data());
  }
  return from + seconds * now.slowness;
}

double Interference::end_of_work(Phase phase, std::size_t lane, double from, double seconds) {
  look_from(from);
  std::vector<std::size_t> next(next_of(lane), next_of(lane) + walk_.size());
  const Moment now = at(phase, lane, from, next.data());
  return walk(phase, lane, from, seconds, now, next.data());
}

double Interference::work(Phase phase, std::span<const double> begins, const Range& range,
                          double busy, const LaneFactors& factors, std::span<double> ends) {
  look_from(range.smallest);
  if (together_) {
    // Positions become work done; each lane's work is added; the sums become positions.
    lay_out(phase, range, busy * factors.largest);
    curve(&Piece::time, &Piece::work, &Piece::speed, range).at(begins, ends);
    const Range done = add_scaled(ends, busy, factors.lanes);
    curve(&Piece::work, &Piece::time, &Piece::slowness, done).at(ends, ends);
    return time_of(done.largest);
  }
  double last = 0;
  for (std::size_t lane = 0; lane < lanes_; ++lane) {
    const double from = begins[lane], seconds = busy * factors.lanes[lane];
    std::size_t* next = next_of(lane);
    const Moment now = at(phase, lane, from, next);
    const double end = from + seconds * now.slowness;
    ends[lane] = end <= now.until ? end : walk(phase, lane, from, seconds, now, next);
    last = std::max(last, ends[lane]);
  }
  return last;
}

// Makes the pieces from the first lane's position until the last lane has done `longest` seconds of
// work.
void Interference::lay_out(Phase phase, const Range& range, double longest) {
  pieces_.clear();
  const double begin = range.smallest;
  Moment now = at(phase, 0, begin, next_.data());
  walk_ = next_;
  double time = begin, work = 0;
  while (true) {
    pieces_.push_back({time, work, 1 / now.slowness, now.slowness});
    if (now.until == never) return;
    if (now.until > range.largest) {
      const double enough = work_at(range.largest) + longest;
      if (work + (now.until - time) / now.slowness > enough) return;
    }
    work += (now.until - time) / now.slowness;
    time = now.until;
    now = at(phase, 0, time, walk_.data());
  }
}

double Interference::work_at(double time) const {
  const Piece* piece = &pieces_.back();
  while (piece != pieces_.data() && piece->time > time) --piece;
  return piece->work + (time - piece->time) * piece->speed;
}

double Interference::time_of(double work) const {
  const Piece* piece = &pieces_.back();
  while (piece != pieces_.data() && piece->work > work) --piece;
  return piece->time + (work - piece->work) * piece->slowness;
}

// A bend is a place where the rate changes. Curve adds each bend's max(position, at) * rate, which
// is at * rate before the bend, so the constant is reduced by that value.
Curve Interference::curve(double Piece::*position, double Piece::*value, double Piece::*rate,
                          const Range& range) const {
  Curve result;
  result.origin = pieces_[0].*position;
  result.constant = pieces_[0].*value;
  result.rate = pieces_[0].*rate;
  double before = result.rate;
  for (std::size_t i = 1; i < pieces_.size() && pieces_[i].*position < range.largest; ++i) {
    const double at = pieces_[i].*position - result.origin;
    const double bend = pieces_[i].*rate - std::exchange(before, pieces_[i].*rate);
    if (bend == 0) continue;
    result.bends.push_back({at, bend});
    result.constant -= at * bend;
  }
  return result;
}

}  // namespace lockstep
