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

// All combinations of platforms, GPU counts, strategies, divisions of the batch into micro-batches,
// and activation checkpointing. Those that differ in the division only follow each other, the
// largest micro-batch first. What cannot be (a batch that does not divide, too many GPUs) is
// counted in `left_out`. Throws ConfigError when a platform or GPU count is none.
std::vector<Candidate> candidates_of(const Scenario& scenario, const RecommendOptions& options,
                                     InputFiles& files,
                                     std::map<std::string, std::size_t>& left_out);

// Whether they differ in the division of the batch only.
bool same_but_for_micro_batch(const Candidate& a, const Candidate& b);

}  // namespace lockstep
