// A sweep: simulates the points of a grid in worker processes and stores one row for each. Call
// plan_sweep(), then run_sweep(); mpi.hpp distributes the same work over several machines.
#pragma once

#include <atomic>
#include <functional>

#include "points/inputs.hpp"
#include "points/pool.hpp"
#include "points/simulate.hpp"
#include "sweep/row.hpp"
#include "sweep/rows_file.hpp"

namespace lockstep {

// Largest number of rows of one sweep; each row costs a simulation and a line of a file.
inline constexpr std::size_t most_rows = 100'000'000;

// Limits and callbacks of a sweep; 0 = no limit.
struct SweepOptions {
  int workers = 0;          // child processes; 0 = one per core
  double most_seconds = 0;  // limit for one point
  double most_bytes = 0;    // limit for one child process
  // Called several times a second with three numbers of rows: complete now, all, and complete at
  // the start.
  std::function<void(std::size_t done, std::size_t all, std::size_t before)> progress{};
  const std::atomic<bool>* stop = nullptr;  // becomes true when the sweep should stop soon
};

// Chooses the points to simulate, and fits the factors of the scenario's anchor. `sample` is the
// number of points to draw with `seed`; 0 = all. Throws ConfigError if the anchor contradicts the
// settings, or if there are more than `most_rows` rows.
// REQUIRES: `grid` outlives the plan.
SweepPlan plan_sweep(const Grid& grid, const std::string& scenario_file, std::size_t sample,
                     std::uint64_t seed, const RunOptions& options);

// The rows of shard `k` of `n`, with k from 0: row k and every n-th row after it.
std::vector<std::size_t> shard_rows(const SweepPlan& plan, std::size_t k, std::size_t n);

// The work of a child process: simulates the point of a row number and returns the row.
// REQUIRES: `plan` outlives the result.
PoolWork row_maker(const SweepPlan& plan, const InputFiles& files);
// The limits of the pool of child processes.
PoolOptions pool_options(const SweepOptions& options);
// The row for a pool's result: the returned row, or a row with the reason of the failure.
std::string row_of(const SweepPlan& plan, const PoolResult& result);

// Simulates all rows that `rows` lacks and appends them. Returns false if the user stopped the
// sweep before its end.
bool run_sweep(const SweepPlan& plan, const InputFiles& files, RowsFile& rows,
               const SweepOptions& options);

}  // namespace lockstep
