// Simulates the points of a sweep on worker processes and keeps a row of each.
#pragma once

#include <atomic>
#include <functional>

#include "points/inputs.hpp"
#include "points/pool.hpp"
#include "points/simulate.hpp"
#include "sweep/row.hpp"
#include "sweep/rows_file.hpp"

namespace lockstep {

// Of one sweep: each is a simulation, and a line of a file.
inline constexpr std::size_t most_rows = 100'000'000;

struct SweepOptions {
  int workers = 0;          // 0 = one per core
  double most_seconds = 0;  // of one point; 0 = any
  double most_bytes = 0;    // of one worker; 0 = any
  // Hears several times a second how many rows are done, of how many, and how many were before.
  std::function<void(std::size_t done, std::size_t all, std::size_t before)> progress{};
  const std::atomic<bool>* stop = nullptr;  // set = come to an end soon
};

// Which points, and the factors of the scenario's anchor. `sample`: so many drawn with `seed`, or 0
// = all. Throws ConfigError when the anchor does not go with what is set, and when there are more
// than `most_rows`.
SweepPlan plan_sweep(const Grid& grid, const std::string& scenario_file, std::size_t sample,
                     std::uint64_t seed, const RunOptions& options);

// The rows of shard `k` of `n`: every n-th, from the k-th on.
std::vector<std::size_t> shard_rows(const SweepPlan& plan, std::size_t k, std::size_t n);

// What a worker process does: the row of a point by its number.
PoolWork row_maker(const SweepPlan& plan, const InputFiles& files);
PoolOptions pool_options(const SweepOptions& options);
// The row of a result, which may be why there is none.
std::string row_of(const SweepPlan& plan, const PoolResult& result);

// All rows that the file misses. Returns whether it came to the end.
bool run_sweep(const SweepPlan& plan, const InputFiles& files, RowsFile& rows,
               const SweepOptions& options);

}  // namespace lockstep
