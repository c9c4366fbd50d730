// Simulates points in worker processes: the point itself, the same job without its stragglers, and
// the job with other seeds. One process does all runs of a point and averages the results of its
// seeds.
#include "points/simulate.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <thread>

#include "core/statistics.hpp"
#include "points/fork_map.hpp"
#include "results/cells.hpp"
#include "results/staleness.hpp"
#include "strategies/common/stragglers.hpp"

namespace lockstep {

namespace {

// Seconds without a report after which a simulation counts as stuck. The longest known steps belong
// to parameter servers with some hundred thousand workers and take a minute.
constexpr double most_silence = 600;

// Adds a strategy's errors to `refusals`. A strategy does not know files and other points, so this
// function adds the entry's place and the point's name.
void add_refusal(const Point& point, const std::vector<Diagnostic>& refused,
                 Diagnostics& refusals) {
  for (Diagnostic diagnostic : refused) {
    if (diagnostic.where.file.empty()) diagnostic.where = point.where;
    diagnostic.message = point_text(point.label, point.job.mesh.gpus()) + ": " + diagnostic.message;
    refusals.add(std::move(diagnostic));
  }
}

// Simulates `job` and separates the warm-up from its steady steps. Most steps of a long run are
// steady, so their mean counts for it. Slow spells (slow periods, pauses of the loader, bursts of
// neighbours) recur and so belong to the mean; a job with such spells has no warm-up.
StrategyResult simulated(const Point& point, const Job& job) {
  StrategyResult result = point.strategy->simulate(job);
  const Stragglers& stragglers = job.stragglers;
  const bool spells =
      stragglers.slow_periods || stragglers.loader_hiccups || has_bursts(stragglers);
  if (result.extrapolated || result.phases || spells) return result;
  const std::vector<double>& steps = result.step_seconds;
  if (const std::size_t cut = warm_up(steps); cut > 0) {
    result.later_step_seconds =
        mean({steps.begin() + static_cast<std::ptrdiff_t>(cut), steps.end()});
  }
  return result;
}

// Mean step of the job if its ranks differ only by their usual spread.
double step_without_stragglers(const Point& point) {
  Job job = point.job;
  job.stragglers = *point.usual;
  job.device_of_rank.clear();
  job.simulation.schedule_file.clear();
  job.simulation.engine = Engine::loop;  // SimGrid allows one simulation per process
  return mean(point.strategy->simulate(job).step_seconds);
}

// Number of simulations of the point. The scenario can set it; otherwise it is 1. Asynchronous
// workers with random steps get four simulations if they are quick, because a single run varies
// much.
std::int64_t seeds_of(const Point& point, const StrategyResult& result) {
  constexpr std::int64_t usual = 4, most_worker_steps = 3000;
  const bool drawn = random(point.job.stragglers) || has_bursts(point.job.stragglers);
  const bool few =
      result.simulated_steps * std::int64_t{point.job.mesh.gpus()} <= most_worker_steps;
  return point.seeds.value_or(result.worker_steps && drawn && few ? usual : 1);
}

// Replaces the times in `ranks` by the mean over seeds, if the list of every seed has the same
// ranks. The lists can differ because ranks share lanes (engine/ranks.hpp) and the random draws
// decide which ranks are equal; the times of the first seed then stay.
void mean_ranks(const std::vector<StrategyResult>& seeds, std::vector<RankTimes>& ranks) {
  for (const StrategyResult& simulation_of_seed : seeds) {
    const auto same = [](const RankTimes& a, const RankTimes& b) {
      return a.rank == b.rank && a.ranks == b.ranks;
    };
    if (!std::equal(ranks.begin(), ranks.end(), simulation_of_seed.ranks.begin(),
                    simulation_of_seed.ranks.end(), same))
      return;
  }
  const double share = 1 / static_cast<double>(seeds.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    for (const auto part :
         {&RankTimes::own, &RankTimes::communicating, &RankTimes::waiting, &RankTimes::steps}) {
      ranks[i].*part = 0;
      for (const StrategyResult& simulation_of_seed : seeds)
        ranks[i].*part += share * simulation_of_seed.ranks[i].*part;
    }
  }
}

// Merges the results of all seeds into `result`: concatenates steps, adds staleness histograms,
// averages other values. All seeds simulate the same number of steps.
void add_up(const std::vector<StrategyResult>& seeds, StrategyResult& result) {
  const double share = 1 / static_cast<double>(seeds.size());
  result.step_seconds.clear();
  result.first_step_seconds = result.device_busy = 0;
  double later = 0;
  bool warm_up = false;
  result.split = {};
  for (LinkTraffic& links : result.traffic) links.bytes = links.total_bytes = links.busy = 0;
  std::map<std::int64_t, std::int64_t> staleness;
  for (const StrategyResult& simulation_of_seed : seeds) {
    const std::vector<double>& steps = simulation_of_seed.step_seconds;
    result.step_seconds.insert(result.step_seconds.end(), steps.begin(), steps.end());
    result.first_step_seconds += share * simulation_of_seed.first_step_seconds;
    result.device_busy += share * simulation_of_seed.device_busy;
    later += share * simulation_of_seed.later_step_seconds.value_or(mean(steps));
    warm_up = warm_up || simulation_of_seed.later_step_seconds;
    add(result.split, simulation_of_seed.split, share);
    for (std::size_t i = 0; i < result.traffic.size(); ++i) {
      result.traffic[i].bytes += share * simulation_of_seed.traffic[i].bytes;
      result.traffic[i].total_bytes += share * simulation_of_seed.traffic[i].total_bytes;
      result.traffic[i].busy += share * simulation_of_seed.traffic[i].busy;
    }
    if (!simulation_of_seed.staleness) continue;
    for (const auto& [age, updates] : simulation_of_seed.staleness->histogram)
      staleness[age] += updates;
  }
  mean_ranks(seeds, result.ranks);
  if (warm_up) result.later_step_seconds = later;
  if (result.staleness) result.staleness = staleness_of(std::move(staleness));
}

// Simulates the point with `seeds` - 1 other seeds and merges them into `result`. All seeds run on
// the loop executor (engine/executor.hpp), because SimGrid's times differ from its times by
// rounding. If the second seed gives exactly the times of the first, nothing is random: adds a note
// that says so, and simulates no further seed.
void simulate_other_seeds(const Point& point, std::int64_t seeds, StrategyResult& result) {
  Job job = point.job;
  job.simulation.schedule_file.clear();
  job.simulation.engine = Engine::loop;  // SimGrid allows one simulation per process
  std::vector<StrategyResult> all;
  std::vector<double> steps, staleness;
  const auto add = [&](StrategyResult simulation_of_seed) {
    steps.push_back(mean(simulation_of_seed.step_seconds));
    if (simulation_of_seed.staleness) staleness.push_back(simulation_of_seed.staleness->mean);
    all.push_back(std::move(simulation_of_seed));
  };
  add(result.engine == Engine::loop ? result : simulated(point, job));
  for (std::int64_t i = 1; i < seeds; ++i) {
    ++job.simulation.seed;
    add(simulated(point, job));
    const bool draws = steps.front() != steps.back() ||
                       (!staleness.empty() && staleness.front() != staleness.back());
    if (i > 1 || draws) continue;
    result.notes.push_back("nothing is drawn here: all seeds give the same");
    return;
  }
  add_up(all, result);
  result.step_of_seed = std::move(steps);
  result.staleness_of_seed = std::move(staleness);
}

// Sets the memory of each stage, and the memory of the stage that needs most.
void add_memory(const Point& point, const Job& job, StrategyResult& result) {
  const std::vector<MemoryUse> stages = point.strategy->stage_memory(job);
  for (std::size_t i = 0; i < result.stages.size(); ++i) result.stages[i].memory = stages.at(i);
  result.memory = fullest(stages);
}

// Additional simulations of a point: none, or other seeds and the run without stragglers.
enum class RunsBeside { nothing, other_runs };

// Runs one piece of work per point in child processes and reads the answers. Collects the refusals
// of all points and throws them together.
std::vector<Outcome> outcomes_of(const std::vector<Point>& points, const RunOptions& options,
                                 RunsBeside beside) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  ForkOptions fork{.workers = options.workers > 0 ? options.workers : cores,
                   .most_silence = most_silence};
  RunProgress progress{.all = points.size()};
  if (options.progress) {
    fork.on_done = [&](std::size_t done) {
      progress = {.done = done, .all = points.size()};
      options.progress(progress);
    };
    fork.on_progress = [&](std::size_t point, double fraction) {
      progress.point = point_text(points[point].label, points[point].job.mesh.gpus());
      progress.fraction = fraction;
      options.progress(progress);
    };
  }
  const auto work = [&](std::size_t i, const Report& report) -> PoolAnswer {
    try {
      Job job = points[i].job;
      job.simulation.progress = report;
      StrategyResult result = simulated(points[i], job);
      add_memory(points[i], job, result);
      if (beside == RunsBeside::other_runs) {
        if (points[i].usual) result.step_without_stragglers = step_without_stragglers(points[i]);
        const std::int64_t seeds = seeds_of(points[i], result);
        if (seeds > 1) simulate_other_seeds(points[i], seeds, result);
      }
      // A process that has run SimGrid must end: it cannot hold a second world.
      return {to_wire(result), result.engine == Engine::simgrid};
    } catch (const ConfigError& error) {
      return {refusal_to_wire(error), true};
    }
  };
  const auto answers = fork_map(points.size(), fork, work);
  std::vector<Outcome> results;
  Diagnostics refusals;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const Point& point = points[i];
    if (!answers[i].ok) {
      results.push_back({{}, answers[i].output});
      continue;
    }
    std::vector<Diagnostic> refused;
    results.push_back({from_wire(answers[i].output, refused), std::nullopt});
    add_refusal(point, refused, refusals);
  }
  refusals.throw_if_any();
  return results;
}

}  // namespace

std::vector<Outcome> simulate_each(const std::vector<Point>& points, const RunOptions& options) {
  return outcomes_of(points, options, RunsBeside::other_runs);
}

std::vector<StrategyResult> simulate(const std::vector<Point>& points, const RunOptions& options) {
  std::vector<StrategyResult> results;
  for (Outcome& outcome : outcomes_of(points, options, RunsBeside::nothing)) {
    const Point& point = points[results.size()];
    if (outcome.failure) {
      throw std::runtime_error(point_text(point.label, point.job.mesh.gpus()) + ": " +
                               *outcome.failure);
    }
    results.push_back(std::move(outcome.result));
  }
  return results;
}

std::vector<MemoryUse> memory_of(const std::vector<Point>& points) {
  std::vector<MemoryUse> found;
  Diagnostics refusals;
  for (const Point& point : points) {
    try {
      found.push_back(point.strategy->memory(point.job));
    } catch (const ConfigError& error) {
      add_refusal(point, error.diagnostics(), refusals);
    }
  }
  refusals.throw_if_any();
  return found;
}

}  // namespace lockstep
