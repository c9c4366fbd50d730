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

void Interference::forget(double time) {
  for (std::vector<Piece>& pieces : pieces_) {
    const auto later = std::partition_point(pieces.begin(), pieces.end(),
                                            [&](const Piece& piece) { return piece.time <= time; });
    if (later - pieces.begin() > 64) pieces.erase(pieces.begin(), later - 1);
  }
}

}  // namespace lockstep
