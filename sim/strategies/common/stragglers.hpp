// The slow-down factor of every rank in every step, and the remaining rate of links, from the
// options of straggler_options.hpp. Factors are drawn from keyed random numbers, so that no draw
// depends on the order of events. Synchronous strategies read them through RankSpeeds, which also
// divides the ranks into lanes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/executor.hpp"
#include "strategies/common/lane_classes.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

// Standard deviation of the times of equal accelerators for the same step: fixed differences of 1
// to 2 % and 2 % from step to step (fact 152; eight GPUs of a node differ by 5 % and more, fact
// 136). Ranks that wait for all others run at the pace of each step's slowest rank.
inline constexpr double usual_spread = 0.025;

// Whether the job has stragglers beyond the fixed spread of equal ranks (per_rank).
bool any(const Stragglers& stragglers);
// Whether any draw differs from step to step. Each rank then needs a lane of its own.
bool random(const Stragglers& stragglers);
// Whether any neighbor sends in bursts, which are drawn.
bool has_bursts(const Stragglers& stragglers);
// Whether a link's rate changes during the run: bursts, or links that become slow.
bool changes(const Stragglers& stragglers);
// Whether all steps are alike, so that repeating steps need not be simulated.
inline bool alike_steps(const Stragglers& stragglers) {
  return !random(stragglers) && !changes(stragglers);
}
// Factor on the device time of a rank in a step from jitter and slow periods; its fixed factor is
// not included. 1 = nominal.
double varying_factor(const Stragglers& stragglers, std::uint64_t seed, int rank, int step);
// Delay of the rank's batch-th micro-batch in seconds.
double hiccup(const LoaderHiccups& hiccups, std::uint64_t seed, int rank, int batch);
// A moment for which a link's rate is asked.
struct LinkMoment {
  double time = 0;  // seconds of simulated time
  // By entry of Stragglers::neighbours: a neighbor with bursts sends one at present.
  std::vector<bool> sending{};
};
// Remaining share of the rate of a link at a place: a node; for uplinks a leaf switch. 0 to 1.
double speed_left(const Stragglers& stragglers, const FabricSpec& fabric, LinkClass link, int place,
                  const LinkMoment& moment);
// Remaining share of the slowest link of this class among the job's nodes.
double least_speed_left(const Job& job, LinkClass link, const LinkMoment& moment);

// Bursts of a neighbor, with exponential pauses between them.
struct Bursts {
  double lasts = 0, every = 0;  // seconds; `every` is a mean
  std::uint64_t seed = 0;
  int neighbour = 0;
  double pause(int before) const;  // seconds of the pause before burst number `before`
};
// The bursts of Stragglers::neighbours[neighbour]; absent if it always sends.
std::optional<Bursts> bursts_of(const Job& job, std::size_t neighbour);
// Calls change(true) when a burst begins and change(false) when it ends, until `over` rings.
Program play_bursts(Bell& over, Bursts bursts, std::function<void(bool)> change);

// The speeds of a job's ranks, and the division of a stage's ranks into lanes. All stages of a
// pipeline have the same lanes: a lane's ranks are equal in every stage.
class RankSpeeds {
 public:
  // If nothing is random, equal ranks with equal groups on every axis share a lane
  // (lane_classes.hpp); otherwise each rank has a lane. `axes`: the group of each rank of a stage.
  explicit RankSpeeds(const Job& job, std::span<const RankGroups> axes = {});

  const std::vector<double>& ranks_per_lane() const { return ranks_per_lane_; }
  const std::vector<int>& lane_of_rank() const { return lane_of_rank_; }
  // The kind of device of each lane, as in Job::device_of_rank.
  const std::vector<int>& device_of_lane(int stage = 0) const { return of(stage).device_of_lane; }
  // The factor of every lane without jitter and slow periods.
  const std::vector<double>& fixed(int stage = 0) const { return of(stage).fixed; }
  bool random() const { return lockstep::random(drawn_); }
  // The factor of every lane in step `step`, 1 = nominal.
  std::vector<double> factors(int step, int stage = 0) const;

 private:
  struct Stage {
    std::vector<int> device_of_lane;
    std::vector<double> fixed;  // per lane
  };
  const Stage& of(int stage) const { return stages_[static_cast<std::size_t>(stage)]; }

  Stragglers drawn_;
  std::uint64_t seed_ = 0;
  std::vector<double> ranks_per_lane_;
  std::vector<int> lane_of_rank_;
  std::vector<Stage> stages_;
};

// One draw of the jitter's law: a factor on the device time of the rank in the step.
double draw(const Jitter& jitter, std::uint64_t seed, int rank, int step);

}  // namespace lockstep
