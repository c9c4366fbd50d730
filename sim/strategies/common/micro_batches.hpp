// Skips the simulation of repeating micro-batches: all between the first and the last of a step run
// the same program. Used by the training loop. Once they take the same time in every respect, the
// remaining ones are counted instead of simulated.
#pragma once

#include <vector>

#include "strategies/common/run_steps.hpp"
#include "strategies/common/step_parts.hpp"

namespace lockstep {

// Requires that hooks wait for all transfers of a micro-batch before its backward has ended.
class MiddleMicroBatches {
 public:
  // `provenance`: the tally of the step's issued work.
  MiddleMicroBatches(const Job& job, RankGroup& ranks, InputPipeline& input,
                     ProvenanceTally& provenance);

  // Call after each micro-batch except the last has been issued.
  Program ended(int micro);
  // Number of following micro-batches that the latest ended() counted.
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
