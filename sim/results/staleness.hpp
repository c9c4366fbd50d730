// Statistics of asynchronous updates: the staleness of the parameters on which pushed gradients
// were computed, and how the steps divide among workers. Used by the strategies with asynchronous
// workers.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "results/record.hpp"

namespace lockstep {

// Statistics of a histogram: staleness (the updates that the server applied between a worker's pull
// and its push) -> number of pushes. A percentile is the smallest staleness that at least that
// share of the pushes does not exceed.
Staleness staleness_of(std::map<std::int64_t, std::int64_t> histogram);

// Mean, median, 99th percentile and maximum for a table.
std::vector<std::string> staleness_cells(const Staleness& staleness);

// `histogram`: number of steps -> number of workers that made so many.
WorkerSteps worker_steps_of(std::map<std::int64_t, std::int64_t> histogram);

// "8 of 16 workers do 99 % of the steps", if some worker makes less than a quarter of an even
// share; otherwise "". It counts the workers that make at least half of an even share. The data of
// the others hardly contribute, so time and price do not describe a run with all workers.
std::string uneven_workers(const WorkerSteps& steps);

}  // namespace lockstep
