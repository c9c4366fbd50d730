// Who is slow, when: the slow-down factor of every rank in every step, drawn from keyed random
// numbers, so that no draw depends on the order in which things happen.
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

// Standard deviation of what accelerators of one kind take for the same step: fixed differences of 1
// to 2 % and 2 % from step to step (fact 152; eight GPUs of a node differ by 5 % and more, fact
// 136). Who waits for all ranks goes at the pace of the slowest of a step, whoever that is.
inline constexpr double usual_spread = 0.025;

// Whether anything is slower, now and then at least, than what ranks of one kind always differ by.
bool any(const Stragglers& stragglers);
// Whether something is drawn that differs from step to step.
bool random(const Stragglers& stragglers);
// Whether neighbours send in bursts, which are drawn.
bool has_bursts(const Stragglers& stragglers);
// Whether something happens at a given time of the simulation.
bool changes(const Stragglers& stragglers);
// Whether every step is like the one before.
inline bool alike_steps(const Stragglers& stragglers) {
  return !random(stragglers) && !changes(stragglers);
}
// Slow-down of a rank in a step besides its fixed one: jitter and slow periods.
double varying_factor(const Stragglers& stragglers, std::uint64_t seed, int rank, int step);
// How late the rank's batch-th micro-batch is, in seconds.
double hiccup(const LoaderHiccups& hiccups, std::uint64_t seed, int rank, int batch);
// What happens on links at a moment.
struct LinkMoment {
  double time = 0;
  std::vector<bool> sending{};  // by Stragglers::neighbours, of those that send in bursts
};
// Share of its rate that is left of a node's link (of an uplink: of a leaf switch's).
double speed_left(const Stragglers& stragglers, const FabricSpec& fabric, LinkClass link, int place,
                  const LinkMoment& moment);
// Of the slowest among all that the ranks' nodes have.
double least_speed_left(const Job& job, LinkClass link, const LinkMoment& moment);

// Bursts of a neighbour: pauses between them are drawn, exponential ones.
struct Bursts {
  double lasts = 0, every = 0;  // seconds; `every` is a mean
  std::uint64_t seed = 0;
  int neighbour = 0;
  double pause(int before) const;  // seconds, before the burst of that number
};
// Of Stragglers::neighbours[neighbour]; none where it always sends.
std::optional<Bursts> bursts_of(const Job& job, std::size_t neighbour);
// Is told when each of them begins (true) and ends, until the bell rings.
Program play_bursts(Bell& over, Bursts bursts, std::function<void(bool)> change);

// The speeds of a job's ranks. All stages of a pipeline have the same lanes: a lane's ranks have alike
// neighbours in every stage.
class RankSpeeds {
 public:
  // Where nothing is random, equal ranks whose groups on every axis are alike share a lane. `axes`: groups
  // of a stage's ranks.
  explicit RankSpeeds(const Job& job, std::span<const RankGroups> axes = {});

  const std::vector<double>& ranks_per_lane() const { return ranks_per_lane_; }
  const std::vector<int>& lane_of_rank() const { return lane_of_rank_; }
  // Job::device_of_rank, by lane.
  const std::vector<int>& device_of_lane(int stage = 0) const { return of(stage).device_of_lane; }
  // What stays the same in every step, by lane.
  const std::vector<double>& fixed(int stage = 0) const { return of(stage).fixed; }
  bool random() const { return lockstep::random(drawn_); }
  // Of every lane in step `step`, 1 = nominal.
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

// One draw of the jitter's law.
double draw(const Jitter& jitter, std::uint64_t seed, int rank, int step);

}  // namespace lockstep
