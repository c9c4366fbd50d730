// The candidates of a recommendation, each as settings of a sweep. Use candidates_of() to enumerate
// them, scenario_of() to build the job of one.
#pragma once

#include "points/inputs.hpp"
#include "sweep/recommend.hpp"
#include "sweep/setting.hpp"

namespace lockstep {

// A file's scenario under different settings. If a file lists platforms, the first one counts,
// unless a setting gives another.
class Variants {
 public:
  // `changes`: settings that apply to all variants.
  explicit Variants(const std::string& file, const std::vector<std::string>& changes = {});
  // The platforms that the file lists; empty = the file names a single one.
  const std::vector<std::string>& platforms() const { return platforms_; }
  // The scenario without its measured rows, which belong to other settings.
  Scenario with(const std::vector<std::string>& settings) const;

 private:
  std::string file_;
  Node root_;
  std::vector<std::string> platforms_;
};

// The candidate's job alone.
Scenario scenario_of(const Candidate& candidate);

// The search space, before anything is judged.
struct Candidates {
  // Candidates with data parallelism alone. Candidates that differ only in the division of the
  // batch are adjacent, the largest micro-batch first.
  std::vector<Candidate> plain;
  // Candidates with a mesh, for models that state how they may be cut. If the scenario has a mesh,
  // it is the only one. Candidates that differ only in pipeline and strategy are adjacent.
  std::vector<Candidate> meshes;
  std::size_t refused = 0;  // meshes that do not divide
  // Impossible combinations by reason: a batch that does not divide, too many GPUs.
  std::map<std::string, std::size_t> left_out;
};

// All combinations of platforms, GPU counts, meshes, strategies, divisions of the batch into
// micro-batches, and activation checkpointing. Reads platforms and model into `files`. Throws
// ConfigError for an unknown platform or an impossible GPU count.
Candidates candidates_of(const Scenario& scenario, const RecommendOptions& options,
                         InputFiles& files);

// Whether two candidates differ only in the division of the batch.
bool same_but_for_micro_batch(const Candidate& a, const Candidate& b);

}  // namespace lockstep
