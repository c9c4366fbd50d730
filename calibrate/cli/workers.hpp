// The tasks of a rank, which `lockstep-calibrate worker NAME ...` runs by name. Each returns the
// exit code.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

using Words = std::vector<std::string>;

// Arguments: rank, ranks, store file, own address, result file, collectives, sizes, seconds per
// point, and "on-this-host" if ranks share a host. Rank 0 writes one line of JSON per point to the
// result file.
int collectives_worker(const Words& arguments);
// Argument: a LayersJob (layers.hpp) as JSON.
int layers_worker(const Words& arguments);
// Argument: the file of a ReplayJob (convergence/job.hpp). Writes the result as JSON to standard
// output.
int replay_worker(const Words& arguments);

}  // namespace lockstep
