// Runs units of the plan, each as a process, within a budget of time. Called after the plan is
// made.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "acceptance/plan.hpp"
#include "acceptance/progress.hpp"

namespace lockstep {

// Seconds that a call may take. The seconds that the final report needs are reserved.
class Budget {
 public:
  explicit Budget(double limit);  // 0 = no limit
  double left() const;
  // Whether `seconds` are so much of a whole call that the next one is not enough either.
  bool nearly_all(double seconds) const;

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double usable_;
};

// The program that probes a GPU without any framework. Throws ConfigError if it is not built.
std::string device_probe_program();

// The machine's name: its GPU, or its CPU with the number of cores. A folder's results must carry
// this name to be continued. Throws ExitError (exit_no_device) if there is no such device.
std::string name_of_machine(const AcceptanceOptions& options);

// Runs the units that are not done, and notes in `progress` and on disk how each ended, until all
// were begun, the budget is used up, or Ctrl-C.
void run_units(const std::vector<Unit>& units, const AcceptanceOptions& options,
               const AcceptanceScope& scope, const Budget& budget, Progress& progress);

}  // namespace lockstep
