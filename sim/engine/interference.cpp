#include "engine/interference.hpp"

#include <algorithm>

namespace lockstep {

Interference::Interference(Slowdown slowdown) : slowdown_(std::move(slowdown)) {
  for (std::vector<Piece>& pieces : pieces_) pieces.push_back({});
}

void Interference::start(double time, const TransferSpec& spec) {
  ++active_;
  change(time, channels_ + spec.channels, hbm_ + spec.hbm_bytes_per_second);
}

void Interference::stop(double time, const TransferSpec& spec) {
  --active_;
  // No rounding rests of sums while nothing runs.
  change(time, active_ == 0 ? 0 : channels_ - spec.channels,
         active_ == 0 ? 0 : hbm_ - spec.hbm_bytes_per_second);
}

void Interference::change(double time, double channels, double hbm_bytes_per_second) {
  channels_ = channels;
  hbm_ = hbm_bytes_per_second;
  for (std::size_t p = 0; p < phases; ++p) {
    const Piece& last = pieces_[p].back();
    Piece next;
    next.time = std::max(time, last.time);
    next.work = last.work + (next.time - last.time) * last.speed;
    if (active_ > 0) {
      next.slowness = std::max(1.0, slowdown_(static_cast<Phase>(p), channels_, hbm_));
      next.speed = 1 / next.slowness;
    }
    pieces_[p].push_back(next);
  }
  ++changes_;
}

// Both add up, piece by piece, what of the piece each moment has behind it: no branches, one pass
// per piece since `first`, and those are few.
void Interference::work_at(Phase phase, double first, const std::vector<double>& times,
                           std::vector<double>& works) const {
  const std::vector<Piece>& pieces = pieces_[static_cast<std::size_t>(phase)];
  std::size_t i = pieces.size() - 1;
  while (i > 0 && pieces[i].time > first) --i;
  works.assign(times.size(), pieces[i].work);
  for (; i < pieces.size(); ++i) {
    const double begin = pieces[i].time;
    const double length = i + 1 < pieces.size() ? pieces[i + 1].time - begin : 1e300;
    const double speed = pieces[i].speed;
    for (std::size_t lane = 0; lane < times.size(); ++lane) {
      const double passed = times[lane] - begin;
      const double inside = passed < length ? passed : length;
      works[lane] += (inside > 0 ? inside : 0) * speed;
    }
  }
}

void Interference::time_of(Phase phase, double first, const std::vector<double>& works,
                           std::vector<double>& times) const {
  const std::vector<Piece>& pieces = pieces_[static_cast<std::size_t>(phase)];
  std::size_t i = pieces.size() - 1;
  while (i > 0 && pieces[i].work > first) --i;
  times.assign(works.size(), pieces[i].time);
  for (; i < pieces.size(); ++i) {
    const double begin = pieces[i].work;
    const double length = i + 1 < pieces.size() ? pieces[i + 1].work - begin : 1e300;
    const double slowness = pieces[i].slowness;
    for (std::size_t lane = 0; lane < works.size(); ++lane) {
      const double done = works[lane] - begin;
      const double inside = done < length ? done : length;
      times[lane] += (inside > 0 ? inside : 0) * slowness;
    }
  }
}

void Interference::forget(double time) {
  for (std::vector<Piece>& pieces : pieces_) {
    const auto later = std::partition_point(pieces.begin(), pieces.end(),
                                            [&](const Piece& piece) { return piece.time <= time; });
    if (later - pieces.begin() > 64) pieces.erase(pieces.begin(), later - 1);
  }
}

}  // namespace lockstep
