#include "engine/interference.hpp"

#include <algorithm>
#include <utility>

namespace lockstep {

// Follows the first stretch and adds what every later one changes, without branches. Half of a
// simulation's time with thousands of jittered lanes is spent in such loops.
LOCKSTEP_WIDE_VECTORS
void Curve::at(std::span<const double> positions, std::span<double> values) const {
  constexpr std::size_t vectors = 4;  // side by side: one would wait for each addition
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

Interference::Interference(Slowdown slowdown, Executor& executor)
    : slowdown_(std::move(slowdown)), bell_(executor) {
  for (std::vector<Piece>& pieces : pieces_) pieces.push_back({});
}

void Interference::start(double time, const TransferSpec& spec) {
  ++active_;
  change(time,
         {taken_.channels + spec.channels, taken_.hbm_bytes_per_second + spec.hbm_bytes_per_second,
          taken_.cores + spec.cores, taken_.compute_speed * spec.compute_speed});
}

void Interference::stop(double time, const TransferSpec& spec) {
  --active_;
  Occupancy rest;  // no rounding rests of sums while nothing runs
  if (active_ > 0) {
    rest = {taken_.channels - spec.channels,
            taken_.hbm_bytes_per_second - spec.hbm_bytes_per_second,
            std::max(0.0, taken_.cores - spec.cores),
            std::min(1.0, taken_.compute_speed / spec.compute_speed)};
  }
  change(time, rest);
}

void Interference::change(double time, const Occupancy& taken) {
  taken_ = taken;
  for (std::size_t p = 0; p < phases; ++p) {
    const Piece& last = pieces_[p].back();
    Piece next;
    next.time = std::max(time, last.time);
    next.work = last.work + (next.time - last.time) * last.speed;
    if (active_ > 0) {
      next.slowness = std::max(1.0, slowdown_(static_cast<Phase>(p), taken_));
      next.speed = 1 / next.slowness;
    }
    pieces_[p].push_back(next);
  }
  ++changes_;
  bell_.ring();
}

Curve Interference::curve(Phase phase, double Piece::*position, double Piece::*value,
                          double Piece::*rate, const Range& range) const {
  const std::vector<Piece>& pieces = pieces_[static_cast<std::size_t>(phase)];
  std::size_t i = pieces.size() - 1;
  while (i > 0 && pieces[i].*position > range.smallest) --i;
  Curve result;
  result.origin = pieces[i].*position;
  result.constant = pieces[i].*value;
  result.rate = pieces[i].*rate;
  for (double before = result.rate; ++i < pieces.size() && pieces[i].*position < range.largest;) {
    const double at = pieces[i].*position - result.origin;
    const double bend = pieces[i].*rate - std::exchange(before, pieces[i].*rate);
    result.bends.push_back({at, bend});
    result.constant -= at * bend;
  }
  return result;
}

void Interference::forget(double time) {
  for (std::vector<Piece>& pieces : pieces_) {
    const auto later = std::partition_point(pieces.begin(), pieces.end(),
                                            [&](const Piece& piece) { return piece.time <= time; });
    if (later - pieces.begin() > 64) pieces.erase(pieces.begin(), later - 1);
  }
}

}  // namespace lockstep
