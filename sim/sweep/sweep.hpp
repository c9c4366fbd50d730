// Simulates the points of a sweep on worker processes and keeps a row of each. Call plan_sweep(),
// then run_sweep().
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

struct SweepOptions {
  int workers = 0;          // 0 = one per core
  double most_seconds = 0;  // of one point; 0 = any
  double most_bytes = 0;    // of one worker; 0 = any
  // Called several times a second with the number of complete rows, of all rows, and of rows that
  // were complete at the start.
  std::function<void(std::size_t done, std::size_t all, std::size_t before)> progress{};
  const std::atomic<bool>* stop = nullptr;  // set = come to an end soon
};

// The points to simulate, and the factors of the scenario's anchor. `sample`: number of points
// drawn with `seed`; 0 = all. Throws ConfigError if the anchor contradicts the settings, or if
// there are more than `most_rows` rows.
SweepPlan plan_sweep(const Grid& grid, const std::string& scenario_file, std::size_t sample,
                     std::uint64_t seed, const RunOptions& options);

// The rows of shard `k` of `n`: every n-th, from the k-th on.
std::vector<std::size_t> shard_rows(const SweepPlan& plan, std::size_t k, std::size_t n);

// The task of a worker process: makes the row of a point from its number.
PoolWork row_maker(const SweepPlan& plan, const InputFiles& files);
PoolOptions pool_options(const SweepOptions& options);
// The row of a result, or of the reason why there is none.
std::string row_of(const SweepPlan& plan, const PoolResult& result);

// Simulates all rows that the file lacks. Returns whether the sweep is complete.
bool run_sweep(const SweepPlan& plan, const InputFiles& files, RowsFile& rows,
               const SweepOptions& options);

}  // namespace lockstep
