// Skips the simulation of micro-batches that repeat. All micro-batches between the first and the
// last of a step run the same program. If three in a row agree in every lane and in every part of
// the step, and if neither a host nor the loader is slower than the device, the following ones are
// counted, not simulated. The last micro-batch is always simulated. Used by the training loop.
#pragma once

#include <vector>

#include "strategies/common/run_steps.hpp"
#include "strategies/common/step_parts.hpp"

namespace lockstep {

// REQUIRES: hooks wait for all transfers of a micro-batch before its backward ends
// (TrainingHooks::outlasts_micro_batches() is false).
class MiddleMicroBatches {
 public:
  // `provenance` is the tally of the work that the step issues.
  MiddleMicroBatches(const Job& job, RankGroup& ranks, InputPipeline& input,
                     ProvenanceTally& provenance);

  // Must be called after each micro-batch but the last has been issued. `micro` counts from 0 in
  // each step.
  Program ended(int micro);
  // Number of micro-batches that the latest ended() has counted. The caller must skip them.
  int counted() const { return counted_; }

 private:
  // Whether the latest finished micro-batches agree, and the following ones will be equal to them.
  bool steady(int micro) const;
  const Mark& mark(int micro) const {
    return ranks_.marked(marks_[static_cast<std::size_t>(micro)]);
  }

  const Job& job_;
  RankGroup& ranks_;
  InputPipeline& input_;
  ProvenanceTally& provenance_;
  bool possible_;           // the job has enough micro-batches, no observer and no changes
  std::vector<int> marks_;  // by micro-batch of this step: the mark at its end
  std::vector<ProvenanceTally> tallies_;  // by micro-batch: the step's tally at its end
  int counted_ = 0;
};

}  // namespace lockstep
