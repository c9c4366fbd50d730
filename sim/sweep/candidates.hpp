// The candidates of a recommendation, as settings of a sweep.
#pragma once

#include "points/inputs.hpp"
#include "sweep/recommend.hpp"
#include "sweep/setting.hpp"

namespace lockstep {

// A file's scenario under settings. A file that lists platforms is about the first of them, unless a
// setting says another.
class Variants {
 public:
  // `changes`: settings of all.
  explicit Variants(const std::string& file, const std::vector<std::string>& changes = {});
  const std::vector<std::string>& platforms() const { return platforms_; }  // those that it lists
  // Without what was measured: it is of other settings.
  Scenario with(const std::vector<std::string>& settings) const;

 private:
  std::string file_;
  Node root_;
  std::vector<std::string> platforms_;
};

// The candidate's job alone.
Scenario scenario_of(const Candidate& candidate);

struct Candidates {
  // Data parallelism alone. Those that differ in the division of the batch only follow each other, the largest
  // micro-batch first.
  std::vector<Candidate> plain;
  // With a mesh: of models that say how they may be cut. A scenario's own mesh is the only one. Those that differ in
  // pipeline and strategy only follow each other.
  std::vector<Candidate> meshes;
  std::size_t refused = 0;  // meshes that do not divide
  std::map<std::string, std::size_t>
      left_out;  // what cannot be: a batch that does not divide, too many GPUs
};

// All combinations of platforms, GPU counts, meshes, strategies, divisions of the batch into micro-batches,
// and activation checkpointing. Throws ConfigError when a platform or GPU count is none.
Candidates candidates_of(const Scenario& scenario, const RecommendOptions& options,
                         InputFiles& files);

// Whether they differ in the division of the batch only.
bool same_but_for_micro_batch(const Candidate& a, const Candidate& b);

}  // namespace lockstep
