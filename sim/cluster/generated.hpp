// A list of jobs drawn at random. Used if a cluster's scenario describes jobs by rates instead of a
// list or a trace.
#pragma once

#include <vector>

#include "cluster/cluster_file.hpp"

namespace lockstep {

// In the order of their submission. The draws of a job depend only on the seed and its number.
std::vector<JobSpec> generated_jobs(const GeneratedSpec& spec);

}  // namespace lockstep
