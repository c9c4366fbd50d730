// Summarises the reports of the ranks as the record of the run. `lockstep train` calls it after all
// ranks have ended.
#pragma once

#include <string>
#include <vector>

#include "results/real_run.hpp"
#include "runs/train_options.hpp"

namespace lockstep {

// `network` ("loopback" or a rate) becomes part of the record's platform. Throws std::runtime_error
// if synchronous ranks ended with different parameters.
RealRecord summarise_run(const TrainOptions& options, const std::string& network,
                         const std::vector<RankReport>& reports);

// Seconds of each step. For synchronous strategies, a step lasts from the latest end of the step
// before to its own latest end over the ranks. For asynchronous strategies, there is one value for
// every update after the first `ranks`: the time in which the server applied the last `ranks`
// updates. For diloco and fedavg, there is one value for each round, the mean seconds of a step.
std::vector<double> step_seconds(const TrainOptions& options,
                                 const std::vector<RankReport>& reports);

// Mean seconds in which the server applies as many updates as there are workers. Updates come in
// bunches that repeat with the slowest worker's steps. So the measured time runs from the first to
// the last update of the worker with the fewest updates; an end in the middle of a bunch would
// cause an error of up to a round.
double mean_round_seconds(const std::vector<ServerUpdate>& updates, int workers);

}  // namespace lockstep
