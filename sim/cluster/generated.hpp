// A list of jobs drawn at random.
#pragma once

#include <vector>

#include "cluster/cluster_file.hpp"

namespace lockstep {

// In the order of their submission. The draws of a job depend on the seed and its number only.
std::vector<JobSpec> generated_jobs(const GeneratedSpec& spec);

}  // namespace lockstep
