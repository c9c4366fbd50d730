// Summarizes the ranks' reports as the record of the run. Call it after all ranks have ended.
#pragma once

#include <string>
#include <vector>

#include "results/real_run.hpp"
#include "runs/train_options.hpp"

namespace lockstep {

// `network`: where it ran, "loopback" or a rate, for the record's platform. Throws
// std::runtime_error when synchronous ranks ended with different parameters.
RealRecord summarise_run(const TrainOptions& options, const std::string& network,
                         const std::vector<RankReport>& reports);

// Seconds of each step: of all ranks together for synchronous strategies (from one step's latest
// end to the next's); for asynchronous ones the time in which the server applied one update per
// worker, at every update from the first full round on. Where ranks meet now and then: the mean
// step of each round; with drawn workers of as many rounds as give each of all workers one.
std::vector<double> step_seconds(const TrainOptions& options,
                                 const std::vector<RankReport>& reports);

// Mean time of one update per worker (`updates`: at least two). Updates come in bunches that repeat
// with the slowest worker's steps. The measured time runs from a worker's first update to its last,
// because a window that ends in the middle of a bunch is off by up to a round.
double mean_round_seconds(const std::vector<ServerUpdate>& updates, int workers);

}  // namespace lockstep
