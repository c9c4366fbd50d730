// Step times of a log: the steady part, and its anomalies. Used by `diagnose` and `import-metrics`
// after training_log(). Rules and thresholds: docs/import-metrics.md, "Method".
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "training_logs/training_log.hpp"

namespace lockstep {

// Mean seconds of the steps from `first` to `last`, which is the step of a log entry.
struct StepTime {
  std::int64_t first = 0, last = 0;  // steps that it is the mean of
  double seconds = 0;
};

// The log's steady part. If the log has a summary alone, `all` is empty and the median is its mean.
struct SteadySteps {
  // Entries after the warm-up.
  std::vector<StepTime> all;
  // Steps left out at the beginning.
  std::int64_t warm_up = 0;
  // Seconds: the median over entries, and 5 % and 95 % of the entries.
  double median = 0, low = 0, high = 0;
  // Bytes, the largest of the log; 0 = not said.
  double allocated = 0, reserved = 0;
  // The origin of the times: "its times", "its rates", "its clock" or "its summary".
  std::string source;
};

// Times of the steps, without the warm-up. `tokens` and `samples` of one step over all GPUs turn
// rates into times; 0 = not known. `gpus` divides the tokens if the log has the rate of one GPU.
// Throws ConfigError if the log contains no time.
SteadySteps steady_steps(const TrainingLog& log, double tokens, double samples, std::int64_t gpus);

// Sentences on slow steps, periods and drift. Causes in the sentences are guesses.
std::vector<std::string> what_stands_out(const SteadySteps& steps);

// The prediction for the same training: seconds with the 90 % interval, and bytes.
struct PredictedStep {
  double seconds = 0, low = 0, high = 0;
  double allocated = 0, reserved = 0;
};

// Sentences on the differences, largest first: "step +18 %: ...". Values that either side lacks are
// left out.
std::vector<std::string> what_differs(const SteadySteps& steps, const PredictedStep& predicted);

}  // namespace lockstep
