#include "engine/interference.hpp"

#include <algorithm>

namespace lockstep {

namespace {

constexpr double endless = 1e300;

}  // namespace

// Adds up what each position has behind it: no branches, one pass per stretch that `range` meets,
// and nothing to clamp if it meets only one.
LOCKSTEP_WIDE_VECTORS
void Curve::at(std::span<const double> positions, const Range& range,
               std::span<double> values) const {
  std::size_t i = stretches.size() - 1;
  while (i > 0 && stretches[i].begin > range.smallest) --i;
  const std::size_t lanes = positions.size();
  const double base = stretches[i].value;
  const auto last = [&](std::size_t at) {
    return at + 1 == stretches.size() || stretches[at + 1].begin >= range.largest;
  };
  if (last(i) && stretches[i].begin <= range.smallest) {
    const double begin = stretches[i].begin, rate = stretches[i].rate;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      values[lane] = base + (positions[lane] - begin) * rate;
    }
    return;
  }
  std::fill(values.begin(), values.end(), base);
  for (bool done = false; !done; ++i) {
    done = last(i);
    const double begin = stretches[i].begin, length = stretches[i].length, rate = stretches[i].rate;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const double passed = positions[lane] - begin;
      const double inside = passed < length ? passed : length;
      values[lane] += (inside > 0 ? inside : 0) * rate;
    }
  }
}

Interference::Interference(Slowdown slowdown) : slowdown_(std::move(slowdown)) {
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
  double sum = pieces[i].*value;
  for (; i < pieces.size(); ++i) {
    const double begin = pieces[i].*position;
    const double length = i + 1 < pieces.size() ? pieces[i + 1].*position - begin : endless;
    if (!result.stretches.empty() && begin >= range.largest) break;
    if (length <= 0) continue;
    result.stretches.push_back({begin, length, pieces[i].*rate, sum});
    sum += length * (pieces[i].*rate);
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
