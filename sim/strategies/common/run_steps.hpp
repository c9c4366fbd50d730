// Simulates one step after the other and summarises them; also the questions that every strategy
// asks about a job. Called by the training loop.
#pragma once

#include <functional>

#include "engine/world.hpp"
#include "strategies/common/network.hpp"
#include "strategies/common/stragglers.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

struct StepMemory;
class TrainingWorld;

// The steady state is reached after so many consecutive steps that agree in length and in every
// part.
inline constexpr int agreeing_steps = 3;
inline constexpr double agreement = 1e-9;  // relative to the step

// The provenance of device and communication seconds of one step.
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

// Seconds per mean step in which a device is busy, never more than the step: the parts of a split
// add up to the step except for rounding.
double busy_seconds(const StepSplit& split, const std::vector<double>& step_seconds);

// The times of lanes, in the order of each lane's first rank.
std::vector<RankTimes> ascending(std::vector<RankTimes> lanes,
                                 const std::vector<int>& lane_of_rank);

MemoryUse memory_use(const StepMemory& memory, const Device& device);

// The prices of one micro-batch's layers, and the sums of them.
struct StepCosts {
  std::vector<LayerCost> layers;
  // Shares of the layers' device time by bottleneck; the rest are floors of launches.
  double arithmetic = 0, streaming = 0;
};
StepCosts step_costs(const Job& job);

// The slow-down of compute by collectives on the job's device (for RankGroupSpec); empty if the job
// wants no interference or has one rank.
std::function<double(Phase, const Occupancy&)> interference_of(const Job& job,
                                                               const StepCosts& costs);
// Whether one thread of each rank both issues and computes (RankGroupSpec::one_thread).
bool one_thread(const Job& job);

// The executor of the job: the requested one. By default SimGrid, if transfers may meet on a link
// and are few enough to stay fast; otherwise the loop. `steady`: every step after the first few is
// alike.
Engine choose_engine(const Job& job, bool transfers_meet, double transfers_per_step, bool steady);

// Spawns the driver of the stages, whose programs are `one_step(stage, 0)`, `one_step(stage, 1)`,
// ... (without end_step()), runs the world and fills times, split, traffic and `extrapolated` of
// the result. The programs repeat themselves after `period` steps, from step 1 on. Simulates the
// first step and then at most job.steps more, in whole periods: when nothing is random it stops as
// soon as three periods in a row agree, step by step. A step is the mean of all stages.
void run_steps(TrainingWorld& world, int period,
               const std::function<Program(std::size_t stage, int step)>& one_step,
               StrategyResult& result);

// The same for stages that are ranks, each at its own pace. A step is as many steps of ranks as
// there are ranks, from any of them; `after_step` is awaited at the end of a rank's step, in
// simulated time.
void run_apart(TrainingWorld& world,
               const std::function<Program(std::size_t rank, int step)>& one_step,
               const std::function<Program(int rank, int step)>& after_step,
               StrategyResult& result);

}  // namespace lockstep
