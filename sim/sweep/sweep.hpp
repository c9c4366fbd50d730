// A sweep: simulates the points of a grid on worker processes and keeps one row of each. Call
// plan_sweep(), then run_sweep(); sweep/mpi.hpp spreads the same work over several machines.
#pragma once

#include <atomic>
#include <functional>

#include "points/inputs.hpp"
#include "points/pool.hpp"
#include "points/simulate.hpp"
#include "sweep/row.hpp"
#include "sweep/rows_file.hpp"

namespace lockstep {

// Largest number of rows of one sweep; each row is a simulation and a line of a file.
inline constexpr std::size_t most_rows = 100'000'000;

// Limits and callbacks of a sweep; 0 = no limit.
struct SweepOptions {
  int workers = 0;          // child processes; 0 = one per core
  double most_seconds = 0;  // for one point
  double most_bytes = 0;    // for one child process
  // Called several times a second with the number of complete rows, of all rows, and of rows that
  // were complete at the start.
  std::function<void(std::size_t done, std::size_t all, std::size_t before)> progress{};
  const std::atomic<bool>* stop = nullptr;  // becomes true when the sweep should stop soon
};

// Chooses the points to simulate, and fits the factors of the scenario's anchor. `sample`: number
// of points to draw with `seed`; 0 = all. Throws ConfigError if the anchor contradicts the
// settings, or for more than `most_rows` rows.
// REQUIRES: `grid` outlives the plan.
SweepPlan plan_sweep(const Grid& grid, const std::string& scenario_file, std::size_t sample,
                     std::uint64_t seed, const RunOptions& options);

// The rows of shard `k` of `n`, with k from 0: every n-th row from the k-th on.
std::vector<std::size_t> shard_rows(const SweepPlan& plan, std::size_t k, std::size_t n);

// The work of a child process: makes the row of a point from its number. `plan` must outlive the
// result.
PoolWork row_maker(const SweepPlan& plan, const InputFiles& files);
// The limits of the pool of child processes.
PoolOptions pool_options(const SweepOptions& options);
// The row of a pool's result: the returned row, or a row with the reason of the failure.
std::string row_of(const SweepPlan& plan, const PoolResult& result);

// Simulates all rows that `rows` lacks and appends them. Returns false if the sweep was stopped
// before its end.
bool run_sweep(const SweepPlan& plan, const InputFiles& files, RowsFile& rows,
               const SweepOptions& options);

}  // namespace lockstep
