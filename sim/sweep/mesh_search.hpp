// A search over thousands of candidates with a mesh. Lower bounds rule out most candidates; the
// others are simulated in ascending order of their bounds, until no bound is below the best result
// or a platform's GPU count has its largest number of simulations.
#pragma once

#include <vector>

#include "sweep/judge.hpp"

namespace lockstep {

// The outcome of the search.
struct JudgedMeshes {
  std::vector<Judgement> judged;  // in the order of the candidates
  MeshCounts counts;
};

// Judges candidates with a mesh. `plain` are the candidates without a mesh, which are already
// judged. A mesh is not simulated if its own bounds exceed the memory, the deadline or the budget.
// It is not simulated either if its bound shows that it cannot be 1 % faster than the best
// candidate so far that meets the limits, with or without a mesh, on as many GPUs of the same
// platform (with RankBy::memory: that it needs more memory). At most 24 meshes are simulated for
// each GPU count of a platform.
JudgedMeshes judge_meshes(const InputFiles& files, const std::vector<Candidate>& meshes,
                          const std::vector<Candidate>& plain,
                          const std::vector<Judgement>& plain_judged,
                          const RecommendOptions& options);

}  // namespace lockstep
