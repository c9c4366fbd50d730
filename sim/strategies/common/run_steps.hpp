// Simulates one step after the other until steps repeat, and summarises them. The training loop
// calls run_steps() or run_apart(). The file also has functions that every strategy needs: the
// costs of a step, interference, provenance, the choice of the executor.
#pragma once

#include <functional>

#include "engine/world.hpp"
#include "strategies/common/network.hpp"
#include "strategies/common/stragglers.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

struct StepMemory;
class TrainingWorld;

// Number of consecutive steps (or periods) that must agree in length and in every part before the
// steady state is reached.
inline constexpr int agreeing_steps = 3;
inline constexpr double agreement = 1e-9;  // largest difference, relative to the step

// Sums device and communication seconds by provenance: measured, interpolated, modelled.
class ProvenanceTally {
 public:
  void add(Provenance provenance, double seconds);
  void add(const QueuedWork& work, double times = 1) { add(work.provenance, times * work.busy); }
  void add(const PricedTransfer& transfer, double times = 1) {
    add(transfer.provenance, times * transfer.seconds);
  }
  void add(const ProvenanceTally& other, double times = 1);
  // Each sum divided by the total; all 0 if nothing was added.
  ProvenanceShare share() const;

 private:
  ProvenanceShare seconds_;
};

// Seconds of a mean step in which a device is busy: the sum of the split's busy parts. At most the
// mean of `step_seconds`, which the sum could exceed by rounding.
double busy_seconds(const StepSplit& split, const std::vector<double>& step_seconds);

// Completes the times of lanes with each lane's number of ranks, in the order of the lanes' first
// ranks.
std::vector<RankTimes> ascending(std::vector<RankTimes> lanes,
                                 const std::vector<int>& lane_of_rank);

// The memory of a step as the result record has it, with the device's capacity.
MemoryUse memory_use(const StepMemory& memory, const Device& device);

// The costs of the layers of one micro-batch.
struct StepCosts {
  std::vector<LayerCost> layers;
  // Shares, 0 to 1, of the layers' device time that arithmetic and memory bandwidth limit. The rest
  // is kernels that take the shortest time of a launch.
  double arithmetic = 0, streaming = 0;
};
StepCosts step_costs(const Job& job);

// Factor, at least 1, on the time of compute while collectives run on the job's device
// (RankGroupSpec::slowdown). Empty if the job has `interference: false` or a single rank.
std::function<double(Phase, const Occupancy&)> interference_of(const Job& job,
                                                               const StepCosts& costs);
// Whether one thread of each rank both issues and computes (RankGroupSpec::one_thread).
bool one_thread(const Job& job);

// The executor of the job: the one that the scenario names. With `auto`, it is SimGrid if transfers
// may meet on a link and a run has at most 1,000 transfers, otherwise the loop. `steady` means that
// the run ends after the first few steps, because they are equal.
Engine choose_engine(const Job& job, bool transfers_meet, double transfers_per_step, bool steady);

// Runs the steps of all stages. Fills times, split, traffic and `extrapolated` of the result.
// `one_step(stage, step)` is the program of one step of a stage; it must not call end_step(). From
// step 1 on, the programs repeat after every `period` steps.
//
// Simulates step 0 and then Simulation::steps more, rounded up to whole periods. The run ends
// earlier if three periods in a row agree, step by step, but only if nothing is random, nothing
// changes at a given time, and no host, loader or stage is still ahead since the long first step.
// The reported step is the mean over all stages. If the schedule never drains, stages have no
// common end of a step, and their period is 1.
void run_steps(TrainingWorld& world, int period,
               const std::function<Program(std::size_t stage, int step)>& one_step,
               StrategyResult& result);

// Runs ranks that have no common step, for example gossip in pairs. Each stage of the world is one
// rank. Whenever all ranks together have made as many more steps as there are ranks, one step of
// the result is complete, no matter which ranks made them. `after_step` is awaited at the end of
// each rank's step, in simulated time.
void run_apart(TrainingWorld& world,
               const std::function<Program(std::size_t rank, int step)>& one_step,
               const std::function<Program(int rank, int step)>& after_step,
               StrategyResult& result);

}  // namespace lockstep
