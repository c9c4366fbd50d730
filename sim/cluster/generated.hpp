// Generates a list of jobs by keyed random draws. question.cpp calls it if a cluster's scenario
// describes its jobs by rates (`generated:`) instead of a list or a trace.
#pragma once

#include <vector>

#include "cluster/cluster_file.hpp"

namespace lockstep {

// Returns `spec.count` jobs in the order of their submission. The draws of a job depend only on the
// seed and on its number, which is also its name ("1", "2", ...).
// REQUIRES: `spec.mix` is not empty, and each of its entries has at least one GPU count.
std::vector<JobSpec> generated_jobs(const GeneratedSpec& spec);

}  // namespace lockstep
