// A training's log and the scenario that describes the training: the steady steps of the log, and
// the prediction for the same strategy and GPU count. `import-metrics` and `diagnose` share it.
#pragma once

#include <optional>
#include <string>

#include "cli/commands.hpp"
#include "cli/config_options.hpp"
#include "cli/verb.hpp"
#include "training_logs/diagnosis.hpp"

namespace lockstep {

// The options of both verbs.
struct LogQuestion {
  std::string log, scenario;  // files; "" = no scenario
  ConfigSource from;          // a config in place of the scenario
  std::string strategy;       // label of a strategy; "" if the scenario has only one
  CommonOptions common;
};

// Adds LOG, --scenario, --from, --strategy, --set, --json.
void add_log_options(CLI::App& verb, LogQuestion& question);

// A log, and the prediction for it.
struct LoggedRun {
  TrainingLog log;
  SteadySteps steps;
  std::int64_t gpus = 0;                   // 0 = neither the log nor the scenario states it
  std::string strategy;                    // label of the predicted strategy
  std::optional<PredictedStep> predicted;  // only with a scenario or a config
};

// Reads the log, and predicts the scenario's step if a scenario or a config is given. The option
// --gpus replaces the log's number of GPUs. Throws ConfigError if one of the files is wrong, or
// unless exactly one point has the strategy and the number of GPUs.
LoggedRun logged_run(LogQuestion& question);

// For example "470 ms a step: median of 8 entries, steps 3 to 10, by its rates; 5 % to 95 %: 465 ms
// .. 490 ms".
std::string steps_text(const LoggedRun& run);
// The same and all other results, for --json.
nlohmann::ordered_json steps_json(const LoggedRun& run);

}  // namespace lockstep
