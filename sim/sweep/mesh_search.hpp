// Candidates with a mesh, thousands of them: bounds rule out most, and the others are simulated best bound first until
// no bound is below the best.
#pragma once

#include <vector>

#include "sweep/judge.hpp"

namespace lockstep {

struct JudgedMeshes {
  std::vector<Judgement> judged;  // in the order of the candidates
  MeshCounts counts;
};

// `plain`: candidates without a mesh, as judged. A mesh whose bound shows that it cannot be 1 % faster than
// the best of them and of the meshes on as many GPUs of the same platform is not simulated (with --by memory:
// one that needs more memory for certain).
JudgedMeshes judge_meshes(const InputFiles& files, const std::vector<Candidate>& meshes,
                          const std::vector<Candidate>& plain,
                          const std::vector<Judgement>& plain_judged,
                          const RecommendOptions& options);

}  // namespace lockstep
