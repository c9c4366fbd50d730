// Plans the points of a sweep and sends their numbers to worker processes. Each process caches
// parsed files and computed steps between its points, because neighbouring points share them.
#include "sweep/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "points/pool_worker.hpp"
#include "points/predict.hpp"
#include "questions/anchor.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

namespace {

// Seconds without progress after which a simulation counts as stuck, as in `run`.
constexpr double most_silence = 600;
// Seconds between two syncs to the disk. A power failure loses at most the rows of this time.
constexpr double between_syncs = 1;

// All errors of a combination on one line. Leaves out their locations, which are in a text that no
// user wrote.
std::string reason_of(const ConfigError& error) {
  std::string reason;
  for (const Diagnostic& diagnostic : error.diagnostics()) {
    if (!reason.empty()) reason += "; ";
    if (!diagnostic.field.empty()) reason += diagnostic.field + ": ";
    reason += diagnostic.message;
  }
  return reason;
}

}  // namespace

SweepPlan plan_sweep(const Grid& grid, const std::string& scenario_file, std::size_t sample_size,
                     std::uint64_t seed, const RunOptions& options) {
  SweepPlan plan;
  plan.grid = &grid;
  plan.digest = grid.digest();
  const PointIndex rows =
      sample_size > 0 ? std::min<PointIndex>(sample_size, grid.size()) : grid.size();
  if (rows > most_rows) {
    throw file_error("", sample_size > 0 ? "--sample" : "--set",
                     fmt::format("{} points are more than can be simulated, {}", rows, most_rows),
                     "draw N points with --sample N, or set fewer values");
  }
  if (sample_size > 0) {
    plan.points = sample(grid.size(), sample_size, seed);
    plan.digest += fmt::format("-{}-{}", sample_size, seed);
  } else {
    plan.points.resize(grid.size());
    for (PointIndex i = 0; i < grid.size(); ++i) plan.points[i] = i;
  }
  if (!Node::parse_file(scenario_file).find("anchor")) return plan;
  // An anchor's factors belong to the hardware, model and strategies that it was measured with.
  // Settings of other fields are allowed.
  for (const Setting& setting : grid.settings()) {
    for (const char* field : {"model", "model_parameters", "platform", "profile", "strategies"}) {
      if (setting.steps.front().key != field) continue;
      if (setting.path != field && std::string(field) == "strategies") continue;
      throw setting_error(setting, 1, "the scenario's anchor was measured with the file's own",
                          "sweep another field, or take `anchor:` out of the file");
    }
  }
  plan.scales = anchor_scales(read_scenario(scenario_file), options);
  return plan;
}

std::vector<std::size_t> shard_rows(const SweepPlan& plan, std::size_t k, std::size_t n) {
  std::vector<std::size_t> rows;
  for (std::size_t row = k; row < plan.points.size(); row += n) rows.push_back(row);
  return rows;
}

PoolWork row_maker(const SweepPlan& plan, const InputFiles& files) {
  // Each child process fills its own copy.
  struct Shared {
    InputFiles files;
    Workloads workloads;
  };
  auto shared = std::make_shared<Shared>(Shared{files, {}});
  return [&plan, shared](std::size_t number, const Report& report) -> PoolAnswer {
    const PointIndex index = plan.points[number];
    try {
      const Scenario scenario = plan.grid->scenario(index);
      std::vector<CostScale> scales;
      if (!plan.scales.empty()) scales = {plan.scales[plan.grid->entry(index)]};
      const Point point =
          expand(scenario, shared->files.of(scenario), shared->workloads, scales).front();
      Job job = point.job;
      job.simulation.progress = report;
      StrategyResult result = point.strategy->simulate(job);
      result.memory = point.strategy->memory(job);
      return {answer_row(plan, number, summarise_point(scenario, point, result)),
              result.engine == Engine::simgrid};
    } catch (const ConfigError& error) {
      return {no_answer_row(plan, number, RowKind::refused, reason_of(error))};
    }
  };
}

PoolOptions pool_options(const SweepOptions& options) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return {.workers = options.workers > 0 ? options.workers : cores,
          .most_silence = most_silence,
          .most_seconds = options.most_seconds,
          .most_bytes = options.most_bytes};
}

std::string row_of(const SweepPlan& plan, const PoolResult& result) {
  if (result.ok) return result.text;
  return no_answer_row(plan, result.index, RowKind::failed, result.text);
}

bool run_sweep(const SweepPlan& plan, const InputFiles& files, RowsFile& rows,
               const SweepOptions& options) {
  const std::vector<std::size_t> todo = rows.missing();
  const std::size_t all = rows.size(), before = all - todo.size();
  Pool pool(pool_options(options), row_maker(plan, files));
  pool.add(todo);
  // Append rows as they arrive, until all rows are complete or the user stops the sweep.
  double synced = steady_seconds();
  while (pool.unanswered() > 0) {
    if (options.stop != nullptr && *options.stop) {
      rows.sync();
      return false;
    }
    for (const PoolResult& result : pool.collect(0.2)) {
      rows.append(result.index, row_of(plan, result));
    }
    if (options.progress) options.progress(all - pool.unanswered(), all, before);
    if (steady_seconds() - synced > between_syncs) {
      rows.sync();
      synced = steady_seconds();
    }
  }
  return true;
}

}  // namespace lockstep
