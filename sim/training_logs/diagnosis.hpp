// Finds the steady part of a log's step times, and its anomalies. `diagnose` and `import-metrics`
// use it after training_log(). docs/import-metrics.md ("Method") has the rules and thresholds.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "training_logs/training_log.hpp"

namespace lockstep {

// Mean seconds of a step over the steps `first` to `last`; `last` is the step of a log entry.
struct StepTime {
  std::int64_t first = 0, last = 0;  // inclusive
  double seconds = 0;
};

// The log's steady part. If the log has only a summary, `all` is empty, and `median`, `low` and
// `high` are the summary's mean.
struct SteadySteps {
  // Entries after the warm-up.
  std::vector<StepTime> all;
  // Last step of the warm-up, which is left out; 0 = none is left out.
  std::int64_t warm_up = 0;
  // Seconds: the median over entries, and the quantiles at 5 % and 95 %.
  double median = 0, low = 0, high = 0;
  // The largest bytes in the log; 0 = the log has none.
  double allocated = 0, reserved = 0;
  // The origin of the times: "its times", "its rates", "its clock" or "its summary".
  std::string source;
};

// Computes the times of the steps after the warm-up. `tokens` and `samples`, the totals of one step
// over all GPUs, convert rates to times; 0 = not known. If `samples` is 0, the log's own number
// counts, if it states one. `gpus` is needed if the log's rate is that of one GPU. Throws
// ConfigError if no step times follow from the log.
SteadySteps steady_steps(const TrainingLog& log, double tokens, double samples, std::int64_t gpus);

// Sentences on warm-up, slow steps, their period, and drift. Causes in the sentences are guesses.
std::vector<std::string> what_stands_out(const SteadySteps& steps);

// The prediction for the same training: seconds of a step with the 90 % interval, and bytes.
struct PredictedStep {
  double seconds = 0, low = 0, high = 0;
  double allocated = 0, reserved = 0;
};

// Sentences on the differences, the largest first: "step +18 %: ...". A value that the log or the
// prediction lacks is left out.
std::vector<std::string> what_differs(const SteadySteps& steps, const PredictedStep& predicted);

}  // namespace lockstep
