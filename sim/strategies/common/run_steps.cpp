// Runs the steps of all stages until they are steady, and sums their parts. Steps are steady if
// three periods agree to 1e-9. The first step never counts, because DDP and FSDP do different work
// in it. Means are taken over the steady state if it is reached, otherwise over all steps after the
// first.
#include "strategies/common/run_steps.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <numeric>

#include "core/statistics.hpp"
#include "costs/interference.hpp"
#include "memory/step_memory.hpp"
#include "results/staleness.hpp"
#include "results/step_parts.hpp"
#include "strategies/common/context.hpp"

namespace lockstep {

namespace {

// Whether two steps are equal in length and in every part.
bool agree(const StepRecord& a, const StepRecord& b) {
  const double tolerance = agreement * b.seconds;
  for (const auto part : step_parts) {
    if (std::abs(a.split.*part - b.split.*part) > tolerance) return false;
  }
  return std::abs(a.seconds - b.seconds) <= tolerance;
}

// Whether the data loader needs more time for a step than the device. Such a loader is ahead after
// a long first step, so the device first makes equal steps and waits for input only later.
bool loader_falls_behind(const Job& job, double step) {
  return job.data_loading_seconds * job.accumulation > step * (1 + agreement);
}

// Whether the last three periods agree step by step. False unless the steps after the first are
// whole periods.
bool steady(const std::vector<StepRecord>& steps, std::size_t period) {
  if (steps.size() < 1 + agreeing_steps * period || (steps.size() - 1) % period != 0) return false;
  for (std::size_t i = steps.size() - (agreeing_steps - 1) * period; i < steps.size(); ++i) {
    if (!agree(steps[i - period], steps[i])) return false;
  }
  return true;
}

// Mean seconds of the `period` steps from `first` on.
double mean_of(const std::vector<StepRecord>& steps, std::size_t first, std::size_t period) {
  double sum = 0;
  for (std::size_t i = first; i < first + period; ++i) sum += steps[i].seconds;
  return sum / static_cast<double>(period);
}

// Whether the latest period took every stage and every host as long as the mean of all stages.
// After a long first step, a host may be ahead of its device, or a stage ahead of its neighbours.
// If such a host is slower than its device, it loses time against the device (`lost`, in seconds),
// and steps will not stay equal.
bool all_keep_pace(const TrainingWorld& training, double step, std::size_t period) {
  for (const StageRanks& stage : training.stages) {
    const std::vector<StepRecord>& steps = stage.ranks.steps();
    const std::size_t first = steps.size() - period;
    if (std::abs(mean_of(steps, first, period) - step) > agreement * step) return false;
    for (std::size_t lane = 0; lane < steps.back().lanes.host.size(); ++lane) {
      double lost = 0;
      for (std::size_t i = first; i < steps.size(); ++i) {
        lost += steps[i].lanes.host[lane] - steps[i].lanes.seconds[lane];
      }
      if (lost > agreement * step * static_cast<double>(period)) return false;
    }
  }
  return true;
}

// The traffic of the mean step, from the links' counts at two times that are `steps` steps and
// `seconds` seconds apart.
std::vector<LinkTraffic> per_step(const std::vector<LinkTotals>& before,
                                  const std::vector<LinkTotals>& after, double steps,
                                  double seconds) {
  std::vector<LinkTraffic> result;
  for (std::size_t i = 0; i < after.size(); ++i) {
    LinkTraffic traffic;
    traffic.link_class = after[i].link_class;
    traffic.bytes = (after[i].bytes - before[i].bytes) / steps;
    traffic.total_bytes = (after[i].total_bytes - before[i].total_bytes) / steps;
    traffic.busy = std::min(1.0, (after[i].busy_seconds - before[i].busy_seconds) / seconds);
    result.push_back(traffic);
  }
  return result;
}

// Mean times of every lane of all stages, over the steps from `from` on.
std::vector<RankTimes> times_of_ranks(TrainingWorld& world, std::size_t from) {
  std::vector<RankTimes> all;
  for (StageRanks& stage : world.stages) {
    const std::vector<StepRecord>& steps = stage.ranks.steps();
    std::vector<RankTimes> lanes(world.speeds.ranks_per_lane().size());
    const double count = static_cast<double>(steps.size() - from);
    for (std::size_t i = from; i < steps.size(); ++i) {
      for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
        const double communicating = steps[i].lanes.communicating[lane];
        const double waiting = steps[i].lanes.waiting[lane];
        lanes[lane].own += (steps[i].lanes.seconds[lane] - communicating - waiting) / count;
        lanes[lane].communicating += communicating / count;
        lanes[lane].waiting += waiting / count;
      }
    }
    for (RankTimes times : ascending(std::move(lanes), world.speeds.lane_of_rank())) {
      times.rank += stage.stage * world.job.mesh.stage_gpus();
      all.push_back(times);
    }
  }
  return all;
}

// The steps of a job. Step n is the mean of step n of all stages. All stages have equally many
// ranks, so it is also the mean over ranks.
class JobSteps {
 public:
  explicit JobSteps(TrainingWorld& world) : world_(world) {}

  // All steps that every stage has finished so far.
  const std::vector<StepRecord>& all() {
    if (world_.stages.size() == 1) return world_.stages.front().ranks.steps();
    const double share = 1.0 / static_cast<double>(world_.stages.size());
    std::size_t count = world_.stages.front().ranks.steps().size();
    for (StageRanks& stage : world_.stages) count = std::min(count, stage.ranks.steps().size());
    while (steps_.size() < count) {
      StepRecord mean;
      for (StageRanks& stage : world_.stages) {
        const StepRecord& own = stage.ranks.steps()[steps_.size()];
        mean.seconds += share * own.seconds;
        mean.interference += share * own.interference;
        add(mean.split, own.split, share);
      }
      steps_.push_back(std::move(mean));
    }
    return steps_;
  }

 private:
  TrainingWorld& world_;
  std::vector<StepRecord> steps_;
};

// Issues the steps of one stage, one after the other.
class StageDriver {
 public:
  StageDriver(TrainingWorld& world, std::size_t stage) : ranks_(world.stages[stage].ranks) {}

  // Issues a step. Returns when the engine has computed this step (`to_its_end`), or only the step
  // before it. `loads`: the job has a data loader that may limit the speed.

  Program step(int step, Program one_step, bool to_its_end, bool loads) {
    co_await one_step;
    const Event end = ranks_.record();
    ranks_.end_step();
    co_await ranks_.await_step(to_its_end ? step : step - 1);
    // The host runs at most about one step ahead, because the launch queue holds about a thousand
    // kernels. Therefore it requests input at most one step ahead.
    if (step > 0 && loads) co_await ranks_.host_wait(before_);
    before_ = end;
  }

 private:
  RankGroup& ranks_;
  Event before_;  // end of the step before this one, on each lane's device
};

// By stage: the mean split of its steps from `from` to `to` (excluded).
std::vector<StageRecord> records_of(TrainingWorld& training, std::size_t from, std::size_t to) {
  std::vector<StageRecord> records;
  for (StageRanks& stage : training.stages) {
    StageRecord& record = records.emplace_back();
    record.stage = stage.stage;
    for (std::size_t i = from; i < to; ++i) {
      add(record.split, stage.ranks.steps()[i].split, 1 / static_cast<double>(to - from));
    }
  }
  return records;
}

struct TakenSteps {
  // First step that counts: the first of the steady state, otherwise the second step.
  std::size_t from = 1;
  double later = 0;  // seconds of all steps after the first together
};

// Fills the result's times of the job, of its stages and of its ranks. `steps` are the job's.
TakenSteps take_steps(TrainingWorld& training, const std::vector<StepRecord>& steps,
                      bool extrapolated, std::size_t period, StrategyResult& result) {
  TakenSteps taken;
  result.extrapolated = extrapolated;
  result.simulated_steps = static_cast<int>(steps.size());
  result.first_step_seconds = steps.front().seconds;
  for (std::size_t i = 1; i < steps.size(); ++i) taken.later += steps[i].seconds;
  // Steps before the steady state do not count.
  if (extrapolated) taken.from = steps.size() - agreeing_steps * period;
  const double count = static_cast<double>(steps.size() - taken.from);
  for (std::size_t i = taken.from; i < steps.size(); ++i) {
    if ((i - taken.from) % period == 0) result.step_seconds.push_back(mean_of(steps, i, period));
    add(result.split, steps[i].split, 1 / count);
  }
  if (training.stages.size() > 1) result.stages = records_of(training, taken.from, steps.size());
  result.ranks = times_of_ranks(training, taken.from);
  result.device_busy = busy_seconds(result.split, result.step_seconds);
  return taken;
}

// run_steps() for schedules that never drain (PipeDream): each stage issues its steps by itself.
// When steps repeat, every stage still continues to the last step that any stage has begun, because
// stages wait for each other's messages.
void run_endless(TrainingWorld& training,
                 const std::function<Program(std::size_t stage, int step)>& one_step,
                 StrategyResult& result) {
  const Job& job = training.job;
  World& world = training.world;
  const bool loads = job.data_loading_seconds > 0 || job.stragglers.loader_hiccups;
  const bool may_repeat = !training.speeds.random() && !changes(job.stragglers);
  JobSteps job_steps(training);
  std::vector<std::vector<LinkTotals>> after;  // traffic after each step of the first stage
  bool extrapolated = false;
  int until = job.simulation.steps, begun = 0;
  // The program of a stage. `until` is the last step to issue; it is lowered when steps repeat.
  const auto on_its_own = [&](std::size_t number) -> Program {
    StageRanks& stage = training.stages[number];
    StageDriver driver(training, number);
    for (int step = 0; step <= until; ++step) {
      begun = std::max(begun, step);
      stage.ranks.set_factors(training.speeds.factors(step, stage.stage));
      co_await driver.step(step, one_step(number, step), false, loads);
      if (number == 0) {
        after.push_back(world.traffic());
        if (job.simulation.progress) {
          job.simulation.progress(static_cast<double>(step) / job.simulation.steps);
        }
      }
      const std::vector<StepRecord>& steps = job_steps.all();
      if (extrapolated || !may_repeat || !steady(steps, 1)) continue;
      const double latest = steps.back().seconds;
      extrapolated = all_keep_pace(training, latest, 1) && !loader_falls_behind(job, latest);
      if (extrapolated) until = begun;
    }
    co_await stage.ranks.await_step(until);
  };
  for (std::size_t stage = 0; stage < training.stages.size(); ++stage) {
    world.spawn("stage", on_its_own(stage));
  }
  world.run();
  const std::size_t from = take_steps(training, job_steps.all(), extrapolated, 1, result).from;
  const auto count = static_cast<double>(after.size() - from);
  result.traffic =
      per_step(after[from - 1], after.back(), count, count * mean(result.step_seconds));
}

}  // namespace

// The first rank of a lane determines the lane's `rank` and position; further ranks are only
// counted.
std::vector<RankTimes> ascending(std::vector<RankTimes> lanes,
                                 const std::vector<int>& lane_of_rank) {
  std::vector<RankTimes> result;
  for (RankTimes& lane : lanes) lane.ranks = 0;
  std::vector<std::size_t> order;
  for (std::size_t rank = 0; rank < lane_of_rank.size(); ++rank) {
    const auto lane = static_cast<std::size_t>(lane_of_rank[rank]);
    if (lanes[lane].ranks++ > 0) continue;
    lanes[lane].rank = static_cast<int>(rank);
    order.push_back(lane);
  }
  for (const std::size_t lane : order) result.push_back(lanes[lane]);
  return result;
}

void ProvenanceTally::add(Provenance provenance, double seconds) {
  switch (provenance) {
    case Provenance::measured:
      seconds_.measured += seconds;
      break;
    case Provenance::interpolated:
      seconds_.interpolated += seconds;
      break;
    case Provenance::modelled:
      seconds_.modelled += seconds;
      break;
  }
}

void ProvenanceTally::add(const ProvenanceTally& other, double times) {
  seconds_.measured += times * other.seconds_.measured;
  seconds_.interpolated += times * other.seconds_.interpolated;
  seconds_.modelled += times * other.seconds_.modelled;
}

ProvenanceShare ProvenanceTally::share() const {
  const double all = seconds_.measured + seconds_.interpolated + seconds_.modelled;
  if (all <= 0) return {};
  return {seconds_.measured / all, seconds_.interpolated / all, seconds_.modelled / all};
}

double busy_seconds(const StepSplit& split, const std::vector<double>& step_seconds) {
  double busy = 0;
  for (const StepPart& part : named_parts) {
    const bool working = part.kind == PartKind::compute || part.kind == PartKind::upkeep;
    if (working) busy += split.*part.seconds;
  }
  return std::min(busy, mean(step_seconds));
}

MemoryUse memory_use(const StepMemory& memory, const Device& device) {
  return {memory.allocated, memory.reserved, memory.device,      memory.moment,
          memory.retries,   memory.at_peak,  device.memory_bytes};
}

// Name and layer are set for observers and for the layout of exchanges.
StepCosts step_costs(const Job& job) {
  StepCosts result;
  double busy = 0;
  for (std::size_t i = 0; i < job.step->layers.size(); ++i) {
    LayerCost cost = job.costs->layer(*job.step, i);
    cost.name = job.step->layers[i].name;
    cost.layer = &job.step->layers[i];
    busy += cost.forward.busy + cost.backward.busy;
    result.arithmetic += cost.arithmetic;
    result.streaming += cost.streaming;
    result.layers.push_back(cost);
  }
  if (busy > 0) {
    result.arithmetic /= busy;
    result.streaming /= busy;
  }
  return result;
}

std::function<double(Phase, const Occupancy&)> interference_of(const Job& job,
                                                               const StepCosts& costs) {
  if (!job.simulation.interference || job.mesh.gpus() == 1) return {};
  if (one_thread(job)) {
    return [cores = cores_per_rank(job.machine, job.mesh.gpus())](Phase, const Occupancy& taken) {
      return 1 / (share_cores(cores, taken.cores).compute * taken.compute_speed);
    };
  }
  return [device = job.machine.device, arithmetic = costs.arithmetic, streaming = costs.streaming](
             Phase phase, const Occupancy& taken) {
    const bool layers = phase == Phase::forward || phase == Phase::backward;
    // Memory bandwidth is the only limit of updates and copies.
    return slowdown(device, layers ? arithmetic : 0, layers ? streaming : 1,
                    static_cast<int>(taken.channels), taken.hbm_bytes_per_second);
  };
}

Engine choose_engine(const Job& job, bool transfers_meet, double transfers_per_step, bool steady) {
  if (job.simulation.engine != Engine::automatic) return job.simulation.engine;
  // SimGrid needs about 20 us of real time for each transfer, so a run with `few` transfers takes
  // about 20 ms. If many transfers run at the same time, each takes longer.
  constexpr double few = 1000;
  const double steps =
      1 + (steady ? std::min(job.simulation.steps, agreeing_steps) : job.simulation.steps);
  return transfers_meet && transfers_per_step * steps <= few ? Engine::simgrid : Engine::loop;
}

bool one_thread(const Job& job) {
  return job.machine.device.architecture == Architecture::cpu;
}

void run_steps(TrainingWorld& training, int period,
               const std::function<Program(std::size_t stage, int step)>& one_step,
               StrategyResult& result) {
  const Job& job = training.job;
  if (training.stages.size() > 1 && !drains(job.parallel.pipeline.schedule)) {
    return run_endless(training, one_step, result);
  }
  World& world = training.world;
  std::vector<LinkTotals> after_first, after_last;
  bool extrapolated = false;
  const bool loads = job.data_loading_seconds > 0 || job.stragglers.loader_hiccups;
  const int last = (job.simulation.steps + period - 1) / period * period;
  const auto repeats = static_cast<std::size_t>(period);
  const std::size_t stages = training.stages.size();
  JobSteps job_steps(training);
  std::deque<StageDriver> drivers;
  for (std::size_t stage = 0; stage < stages; ++stage) drivers.emplace_back(training, stage);
  // If there are several stages, a step is one program for each stage, and the driver waits for
  // all.
  Bell ended(world.executor());
  std::size_t left = 0;  // number of stages whose step has not ended
  const auto counted = [&](std::size_t stage, int step) -> Program {
    co_await drivers[stage].step(step, one_step(stage, step), true, loads);
    if (--left == 0) ended.ring();
  };
  // Issues step after step, with each step's factors, until all are simulated or steps repeat.
  const auto driver = [&]() -> Program {
    for (int step = 0; step <= last; ++step) {
      for (StageRanks& stage : training.stages) {
        stage.ranks.set_factors(training.speeds.factors(step, stage.stage));
      }
      if (stages == 1) {
        // The driver issues a step when the last step but one has ended, so the host runs at most
        // one step ahead of the device. At the end of a period of several steps, the driver waits
        // for the step itself, so that only whole periods are compared.
        const bool here = step == 0 || (period > 1 && step % period == 0);
        co_await drivers.front().step(step, one_step(0, step), here, loads);
      } else {
        left = stages;
        for (std::size_t stage = 0; stage < stages; ++stage) {
          world.spawn("stage", counted(stage, step));
        }
        while (left > 0) co_await ended.rung();
      }
      if (job.simulation.progress) job.simulation.progress(static_cast<double>(step) / last);
      if (step == 0) after_first = world.traffic();
      const std::vector<StepRecord>& steps = job_steps.all();
      if (!training.speeds.random() && !changes(job.stragglers) && step < last &&
          steady(steps, repeats)) {
        const double latest = mean_of(steps, steps.size() - repeats, repeats);
        extrapolated =
            !loader_falls_behind(job, latest) && all_keep_pace(training, latest, repeats);
      }
      if (extrapolated) {
        if (stages == 1) co_await training.stages.front().ranks.await_step(step);
        break;
      }
      if (step == last && stages == 1) co_await training.stages.front().ranks.await_step(step);
    }
    // Transfers that still run belong to a step that is not simulated.
    after_last = world.traffic();
  };
  world.spawn("driver", driver());
  world.run();
  const double seconds = take_steps(training, job_steps.all(), extrapolated, repeats, result).later;
  if (seconds > 0) {
    const auto later = static_cast<double>(result.simulated_steps) - 1;
    result.traffic = per_step(after_first, after_last, later, seconds);
  }
}

namespace {

// Adds the times of one of `all` ranks, over its steps from `from` on, scaled to the mean step of
// `step` seconds. A slow rank may make less than one step in this time.
void add_rank(const RankGroup& ranks, std::size_t from, double step, int rank, int all,
              StrategyResult& result) {
  RankTimes& times = result.ranks.emplace_back();
  double seconds = 0;
  StepSplit split;
  for (std::size_t i = from; i < ranks.steps().size(); ++i) {
    const StepRecord& record = ranks.steps()[i];
    seconds += record.seconds;
    add(split, record.split, 1);
    times.communicating += record.lanes.communicating[0];
    times.waiting += record.lanes.waiting[0];
  }
  const double share = step / seconds;
  add(result.split, split, share / all);
  times.rank = rank;
  times.steps = share * static_cast<double>(ranks.steps().size() - from);
  times.communicating *= share;
  times.waiting *= share;
  times.own = step - times.communicating - times.waiting;
}

}  // namespace

void run_apart(TrainingWorld& training,
               const std::function<Program(std::size_t rank, int step)>& one_step,
               const std::function<Program(int rank, int step)>& after_step,
               StrategyResult& result) {
  World& world = training.world;
  const Job& job = training.job;
  const std::size_t all = training.stages.size();
  const std::size_t wanted = all * (static_cast<std::size_t>(job.simulation.steps) + 1);
  std::size_t done = 0;      // number of steps that ranks have made together
  std::vector<double> ends;  // the times at which the ranks together had made `all` more steps
  // By rank: steps begun so far; steps begun at ends.front().
  std::vector<int> begun(all, 0), begun_first(all, 0);
  std::vector<LinkTotals> after_first, after_last;
  const bool loads = job.data_loading_seconds > 0 || job.stragglers.loader_hiccups;
  // Counts a step of a rank. Whenever the ranks have made `all` more steps, stores the time and
  // traffic.
  const auto count = [&] {
    ++done;
    if (job.simulation.progress && done <= wanted) {
      job.simulation.progress(static_cast<double>(done) / static_cast<double>(wanted));
    }
    if (done % all != 0 || done > wanted) return;
    ends.push_back(world.now());
    if (done == all) begun_first = begun;
    (done == all ? after_first : after_last) = world.traffic();
  };
  // The program of a rank. The engine computes steps ahead of simulated time, so the rank sleeps
  // until its step has ended before the step counts.
  const auto live = [&](std::size_t rank) -> Program {
    RankGroup& ranks = training.stages[rank].ranks;
    StageDriver driver(training, rank);
    double end = 0;
    for (int step = 0; done < wanted; ++step) {
      ++begun[rank];
      ranks.set_factors(training.speeds.factors(step, static_cast<int>(rank)));
      co_await driver.step(step, one_step(rank, step), true, loads);
      end += ranks.steps().back().seconds;
      co_await world.executor().sleep_until(end);
      count();
      co_await after_step(static_cast<int>(rank), step);
    }
  };
  for (std::size_t rank = 0; rank < all; ++rank) world.spawn("rank", live(rank));
  world.run();

  // The result covers the time from the first to the last entry of `ends`. A rank that makes no
  // step in this time is represented by its latest step.
  result.simulated_steps = static_cast<int>(ends.size());
  result.first_step_seconds = ends.front();
  for (std::size_t i = 1; i < ends.size(); ++i) {
    result.step_seconds.push_back(ends[i] - ends[i - 1]);
  }
  const double seconds = ends.back() - ends.front();
  const double steps = static_cast<double>(ends.size()) - 1;
  std::map<std::int64_t, std::int64_t> worker_steps;
  for (std::size_t rank = 0; rank < all; ++rank) {
    const RankGroup& ranks = training.stages[rank].ranks;
    const auto first = static_cast<std::size_t>(begun_first[rank]);
    add_rank(ranks, std::min(first, ranks.steps().size() - 1), seconds / steps,
             static_cast<int>(rank), static_cast<int>(all), result);
    ++worker_steps[begun[rank] - begun_first[rank]];
  }
  result.worker_steps = worker_steps_of(std::move(worker_steps));
  result.device_busy = busy_seconds(result.split, result.step_seconds);
  result.traffic = per_step(after_first, after_last, steps, seconds);
}

}  // namespace lockstep
