// Step times of a log: the steady part, and its anomalies. Used by `diagnose` and `import-metrics`
// after training_log().
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "training_logs/training_log.hpp"

namespace lockstep {

// Seconds of the steps up to each entry.
struct StepTime {
  std::int64_t first = 0, last = 0;  // steps that it is the mean of
  double seconds = 0;
};

struct SteadySteps {
  std::vector<StepTime> all;             // warm-up left out
  std::int64_t warm_up = 0;              // steps left out at the beginning
  double median = 0, low = 0, high = 0;  // seconds; 5 % and 95 % of the entries
  double allocated = 0, reserved = 0;    // bytes, the largest; 0 = not said
  std::string source;                    // "its times", "its rates", "its clock", "its summary"
};

// `tokens` and `samples` of one step over all GPUs turn rates into times; 0 = not known. Throws
// ConfigError if the log contains no time.
SteadySteps steady_steps(const TrainingLog& log, double tokens, double samples, std::int64_t gpus);

// Sentences on slow steps, periods, drift and time between steps.
std::vector<std::string> what_stands_out(const SteadySteps& steps);

// The prediction for the same training.
struct PredictedStep {
  double seconds = 0, low = 0, high = 0;  // with its 90 % interval
  double allocated = 0, reserved = 0;     // bytes
};

// Sentences on the differences, largest first: "step +18 %: ...".
std::vector<std::string> what_differs(const SteadySteps& steps, const PredictedStep& predicted);

}  // namespace lockstep
