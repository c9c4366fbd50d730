// The candidates of a recommendation. A candidate is one way to run the training, with the settings
// by which `lockstep sweep` simulates the same job. candidates_of() enumerates the candidates, and
// scenario_of() builds the job of one.
#pragma once

#include "points/inputs.hpp"
#include "sweep/recommend.hpp"
#include "sweep/setting.hpp"

namespace lockstep {

// A file's scenario with different settings. If the file lists platforms, the first one counts
// unless a setting gives another.
class Variants {
 public:
  // `changes` are settings that apply to all variants.
  explicit Variants(const std::string& file, const std::vector<std::string>& changes = {});
  // The platforms that the file lists; empty if it names a single one.
  const std::vector<std::string>& platforms() const { return platforms_; }
  // The scenario with these settings; only the first value of each counts. Leaves out `measured:`
  // and `anchor:`, because they belong to the unchanged scenario. Throws ConfigError if the result
  // is no valid scenario.
  Scenario with(const std::vector<std::string>& settings) const;

 private:
  std::string file_;
  Node root_;
  std::vector<std::string> platforms_;
};

// The scenario of the candidate's job only.
Scenario scenario_of(const Candidate& candidate);

// The search space before any candidate is judged.
struct Candidates {
  // Candidates with data parallelism only. Candidates that differ only in the division of the batch
  // are adjacent, the largest micro-batch first. Empty if the scenario gives a mesh.
  std::vector<Candidate> plain;
  // Candidates with a mesh, if the model states how it may be divided among GPUs. If the scenario
  // gives a mesh, only this one is tried. Candidates that differ only in pipeline and micro-batch
  // are adjacent.
  std::vector<Candidate> meshes;
  std::size_t refused = 0;  // combinations that do not divide the model, the GPUs or the batch
  // Platforms and GPU counts without candidates, by reason: the batch does not divide, or there are
  // too many GPUs.
  std::map<std::string, std::size_t> left_out;
};

// All possible combinations of platforms, GPU counts, meshes, strategies, divisions of the batch
// into micro-batches, and activation checkpointing. Reads platforms and model into `files`. Throws
// ConfigError if a platform is unknown or a GPU count invalid; a count that only exceeds a platform
// or does not divide the batch is in `left_out`.
Candidates candidates_of(const Scenario& scenario, const RecommendOptions& options,
                         InputFiles& files);

// Whether two candidates differ only in the division of the batch.
bool same_but_for_micro_batch(const Candidate& a, const Candidate& b);

}  // namespace lockstep
