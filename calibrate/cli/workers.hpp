// The tasks of a rank, by name (`lockstep-calibrate worker NAME ...`). Each returns the exit code.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

using Words = std::vector<std::string>;

// rank, ranks, store file, own address, result file, collectives, sizes, seconds per point. Rank 0
// writes a line of JSON per point into the result file.
int collectives_worker(const Words& arguments);
// A LayersJob (layers.hpp).
int layers_worker(const Words& arguments);
// The file of a ReplayJob (convergence/job.hpp); writes the result, JSON, to standard output.
int replay_worker(const Words& arguments);

}  // namespace lockstep
