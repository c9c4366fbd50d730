// Carries out units of the plan, each as a process, within a budget of time.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "acceptance/plan.hpp"
#include "acceptance/progress.hpp"

namespace lockstep {

// Seconds that a call may take. What the report needs at the end is kept.
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

// Of a GPU, without any framework. Throws ConfigError where it is not built.
std::string device_probe_program();

// What the results in a folder must be of, to go on there: the name of the GPU, or of the CPU with
// the number of its cores. Throws ExitError (exit_no_device) where there is no such device.
std::string name_of_machine(const AcceptanceOptions& options);

// Runs the units that are not done, and notes in `progress` and on disk how each ended, until all
// were begun, the budget is used up, or Ctrl-C.
void run_units(const std::vector<Unit>& units, const AcceptanceOptions& options,
               const AcceptanceScope& scope, const Budget& budget, Progress& progress);

}  // namespace lockstep
