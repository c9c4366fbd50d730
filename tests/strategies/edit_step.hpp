// Gives a job a training step of its own. Call it before a test changes the step, because copies of
// a job share their step.
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
