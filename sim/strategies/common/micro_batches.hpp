// The micro-batches between the first and the last of a step run the same program. Once they take the
// same time in every respect, those that are left are counted instead of simulated.
#pragma once

#include <vector>

#include "strategies/common/run_steps.hpp"
#include "strategies/common/step_parts.hpp"

namespace lockstep {

// Needs hooks that leave no transfer of a micro-batch unwaited for when its backward has ended.
class MiddleMicroBatches {
 public:
  // `provenance`: of what the step has issued.
  MiddleMicroBatches(const Job& job, RankGroup& ranks, InputPipeline& input,
                     ProvenanceTally& provenance);

  // After each micro-batch but the last has been issued.
  Program ended(int micro);
  // How many of the next were counted at the latest end.
  int counted() const { return counted_; }

 private:
  bool steady(int micro) const;
  const Mark& mark(int micro) const {
    return ranks_.marked(marks_[static_cast<std::size_t>(micro)]);
  }

  const Job& job_;
  RankGroup& ranks_;
  InputPipeline& input_;
  ProvenanceTally& provenance_;
  bool possible_;
  std::vector<int> marks_;                // of this step's micro-batches
  std::vector<ProvenanceTally> tallies_;  // the step's, then
  int counted_ = 0;
};

}  // namespace lockstep
