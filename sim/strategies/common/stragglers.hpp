// The slow-down factor of every rank in every step, and the remaining rate of links, computed from
// the options of straggler_options.hpp. Factors come from keyed random numbers, so that no draw
// depends on the order of events. Synchronous strategies read the factors through RankSpeeds, which
// also divides the ranks into lanes (engine/ranks.hpp).
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

// Standard deviation of the times that equal accelerators take for the same step: fixed differences
// of 1 to 2 %, and 2 % from step to step (fact 152; eight GPUs of a node differ by 5 % and more,
// fact 136). If all ranks wait for each other, each step takes as long as its slowest rank.
inline constexpr double usual_spread = 0.025;

// Whether the job has any stragglers besides the fixed spread of equal ranks (per_rank).
bool any(const Stragglers& stragglers);
// Whether any drawn value of a rank differs from step to step: jitter, slow periods, late batches.
// If so, each rank needs its own lane.
bool random(const Stragglers& stragglers);
// Whether any neighbour (another job) sends in bursts, which are drawn.
bool has_bursts(const Stragglers& stragglers);
// Whether the rate of any link changes during the run, because of bursts or links that become slow.
bool changes(const Stragglers& stragglers);
// Whether all steps are equal, so that repeating steps need not be simulated.
inline bool alike_steps(const Stragglers& stragglers) {
  return !random(stragglers) && !changes(stragglers);
}
// Factor on the device time of a rank in a step, from jitter and slow periods; 1 = nominal. The
// rank's fixed factor is not included.
double varying_factor(const Stragglers& stragglers, std::uint64_t seed, int rank, int step);
// Delay, in seconds, of the micro-batch number `batch` of the rank.
double hiccup(const LoaderHiccups& hiccups, std::uint64_t seed, int rank, int batch);
// A moment of the simulation that determines the rates of links.
struct LinkMoment {
  double time = 0;  // seconds of simulated time
  // By entry of Stragglers::neighbours: whether a neighbour with bursts sends a burst at this
  // moment.
  std::vector<bool> sending{};
};
// Remaining share, 0 to 1, of a link's rate at a place. The place is a node, or for uplinks a leaf
// switch.
double speed_left(const Stragglers& stragglers, const FabricSpec& fabric, LinkClass link, int place,
                  const LinkMoment& moment);
// Remaining share of the rate of the slowest link of this class among the job's nodes.
double least_speed_left(const Job& job, LinkClass link, const LinkMoment& moment);

// The bursts of a neighbour, with exponentially distributed pauses between them.
struct Bursts {
  double lasts = 0, every = 0;  // seconds; `every` is a mean
  std::uint64_t seed = 0;
  int neighbour = 0;
  double pause(int before) const;  // seconds of the pause before burst number `before`
};
// The bursts of Stragglers::neighbours[neighbour]; absent if that neighbour always sends.
std::optional<Bursts> bursts_of(const Job& job, std::size_t neighbour);
// Calls change(true) when a burst begins and change(false) when it ends, until `over` rings.
Program play_bursts(Bell& over, Bursts bursts, std::function<void(bool)> change);

// The speeds of a job's ranks, and the division of a stage's ranks into lanes. All stages of a
// pipeline have the same lanes: a lane's ranks are equal in every stage.
class RankSpeeds {
 public:
  // If nothing is random, equal ranks with equal groups on every axis share a lane
  // (lane_classes.hpp). Otherwise each rank has its own lane. Each of the `axes` has the group of
  // each rank of a stage.
  explicit RankSpeeds(const Job& job, std::span<const RankGroups> axes = {});

  const std::vector<double>& ranks_per_lane() const { return ranks_per_lane_; }
  const std::vector<int>& lane_of_rank() const { return lane_of_rank_; }
  // The kind of device of each lane, as in Job::device_of_rank.
  const std::vector<int>& device_of_lane(int stage = 0) const { return of(stage).device_of_lane; }
  // The fixed factor of every lane, without jitter and slow periods.
  const std::vector<double>& fixed(int stage = 0) const { return of(stage).fixed; }
  bool random() const { return lockstep::random(drawn_); }
  // The factor of every lane in step `step`; 1 = nominal.
  std::vector<double> factors(int step, int stage = 0) const;

 private:
  struct Stage {
    std::vector<int> device_of_lane;
    std::vector<double> fixed;  // by lane
  };
  const Stage& of(int stage) const { return stages_[static_cast<std::size_t>(stage)]; }

  Stragglers drawn_;
  std::uint64_t seed_ = 0;
  std::vector<double> ranks_per_lane_;
  std::vector<int> lane_of_rank_;
  std::vector<Stage> stages_;
};

// One draw from the distribution of the jitter: a factor on the rank's device time in the step.
double draw(const Jitter& jitter, std::uint64_t seed, int rank, int step);

}  // namespace lockstep
