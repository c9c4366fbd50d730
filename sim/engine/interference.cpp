#include "engine/interference.hpp"

#include <algorithm>

namespace lockstep {

Interference::Interference(Slowdown slowdown) : slowdown_(std::move(slowdown)) {
  log_.push_back({});
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
  Change next;
  next.time = std::max(time, log_.back().time);
  for (std::size_t p = 0; p < phases; ++p) {
    const Phase phase = static_cast<Phase>(p);
    next.work[p] = log_.back().work[p] + (next.time - log_.back().time) * log_.back().speed[p];
    next.speed[p] = active_ == 0 ? 1.0 : 1.0 / std::max(1.0, slowdown_(phase, channels_, hbm_));
  }
  log_.push_back(next);
  ++changes_;
}

double Interference::work_at(Phase phase, double time) const {
  const auto p = static_cast<std::size_t>(phase);
  std::size_t i = log_.size() - 1;
  while (i > 0 && log_[i].time > time) --i;
  return log_[i].work[p] + (time - log_[i].time) * log_[i].speed[p];
}

double Interference::time_of(Phase phase, double work) const {
  const auto p = static_cast<std::size_t>(phase);
  std::size_t i = log_.size() - 1;
  while (i > 0 && log_[i].work[p] > work) --i;
  return log_[i].time + (work - log_[i].work[p]) / log_[i].speed[p];
}

void Interference::forget(double time) {
  const auto later = std::partition_point(log_.begin(), log_.end(),
                                          [&](const Change& c) { return c.time <= time; });
  if (later - log_.begin() > 64) log_.erase(log_.begin(), later - 1);
}

}  // namespace lockstep
