// One simulated step after the other, and what they add up to; and what every strategy asks of a
// job.
#pragma once

#include <functional>

#include "engine/world.hpp"
#include "strategies/common/network.hpp"
#include "strategies/common/stragglers.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

struct StepMemory;
class TrainingWorld;

// So many steps in a row that agree so closely, in length and in every part, are the steady state.
inline constexpr int agreeing_steps = 3;
inline constexpr double agreement = 1e-9;  // relative to the step

// Where device and communication seconds of one step come from.
class ProvenanceTally {
 public:
  void add(Provenance provenance, double seconds);
  void add(const QueuedWork& work, double times = 1) { add(work.provenance, times * work.busy); }
  void add(const PricedTransfer& transfer, double times = 1) {
    add(transfer.provenance, times * transfer.seconds);
  }
  void add(const ProvenanceTally& other, double times = 1);
  ProvenanceShare share() const;

 private:
  ProvenanceShare seconds_;
};

// How long a device is busy in the mean step, and never longer than that: the parts of a split add
// up to the step but for rounding.
double busy_seconds(const StepSplit& split, const std::vector<double>& step_seconds);

// The times of lanes in the order of the first rank that each stands for.
std::vector<RankTimes> ascending(std::vector<RankTimes> lanes,
                                 const std::vector<int>& lane_of_rank);

MemoryUse memory_use(const StepMemory& memory, const Device& device);

// The prices of one micro-batch's layers and what follows from all of them together.
struct StepCosts {
  std::vector<LayerCost> layers;
  // Shares of the layers' device time by what limits it; the rest are floors of launches.
  double arithmetic = 0, streaming = 0;
};
StepCosts step_costs(const Job& job);

// How collectives slow down compute on the job's device (for RankGroupSpec); empty when the job
// wants no interference or has one rank.
std::function<double(Phase, const Occupancy&)> interference_of(const Job& job,
                                                               const StepCosts& costs);
// Whether the job's ranks compute with the thread that issues the work (RankGroupSpec::one_thread).
bool one_thread(const Job& job);

// What carries the job out: what it asks for, and by itself SimGrid where transfers may meet on a
// link and are so few that it stays fast. `steady`: at the latest after some steps nothing changes
// any more.
Engine choose_engine(const Job& job, bool transfers_meet, double transfers_per_step, bool steady);

// Spawns the driver of the stages, whose programs are `one_step(stage, 0)`, `one_step(stage, 1)`, ...
// (without end_step()), runs the world and fills times, split, traffic and `extrapolated` of the result.
// The programs repeat themselves after `period` steps, from step 1 on. Simulates the first step and then
// at most job.steps more, in whole periods: when nothing is random it stops as soon as three periods
// in a row agree, step by step. A step is the mean of all stages.
void run_steps(TrainingWorld& world, int period,
               const std::function<Program(std::size_t stage, int step)>& one_step,
               StrategyResult& result);

// The same of stages that are ranks, each at its own pace. A step is as many steps of theirs as there are
// ranks, whoever made them; `after_step` is awaited at the end of a rank's, in simulated time.
void run_apart(TrainingWorld& world,
               const std::function<Program(std::size_t rank, int step)>& one_step,
               const std::function<Program(int rank, int step)>& after_step,
               StrategyResult& result);

}  // namespace lockstep
