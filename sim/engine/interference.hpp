// Compute beside collectives: a piecewise constant speed over time per phase, and its integral
// ("work time"), in which a segment of device work has its nominal length.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "engine/ranks.hpp"

namespace lockstep {

class Interference {
 public:
  using Slowdown = std::function<double(Phase, double channels, double hbm_bytes_per_second)>;

  explicit Interference(Slowdown slowdown = {});
  bool on() const { return static_cast<bool>(slowdown_); }

  // A collective starts or stops at `time`. Times never decrease; earlier ones count from the
  // latest change.
  void start(double time, const TransferSpec& spec);
  void stop(double time, const TransferSpec& spec);

  // Work done up to `time` by a device that was never idle, and the time when so much is done, if
  // nothing changes after the latest change.
  double work_at(Phase phase, double time) const;
  double time_of(Phase phase, double work) const;
  // Counts the changes: an answer of time_of() stays right while it does not move.
  std::size_t changes() const { return changes_; }
  // Forget changes before `time`.
  void forget(double time);

 private:
  static constexpr std::size_t phases = 4;
  struct Change {
    double time = 0;
    std::array<double, phases> work{};
    std::array<double, phases> speed{1, 1, 1, 1};
  };
  void change(double time, double channels, double hbm_bytes_per_second);

  Slowdown slowdown_;
  double channels_ = 0;
  double hbm_ = 0;
  int active_ = 0;
  std::vector<Change> log_;
  std::size_t changes_ = 0;
};

}  // namespace lockstep
