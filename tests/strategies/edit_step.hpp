// A job's training step, to be changed: jobs share theirs, so that the job gets a copy of its own.
#pragma once

#include <memory>

#include "strategies/strategy.hpp"

namespace lockstep {

inline TrainingStep& edit_step(Job& job) {
  auto step =
      job.step ? std::make_shared<TrainingStep>(*job.step) : std::make_shared<TrainingStep>();
  TrainingStep& edited = *step;
  job.step = std::move(step);
  return edited;
}

}  // namespace lockstep
