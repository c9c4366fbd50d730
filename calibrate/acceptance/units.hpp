// Runs units of the plan, each as a process, within a time budget. acceptance.cpp calls it after
// the plan is made.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "acceptance/plan.hpp"
#include "acceptance/progress.hpp"

namespace lockstep {

// The time that is left for units in a call. The time for the final report is reserved.
class Budget {
 public:
  explicit Budget(double limit);  // 0 = no limit
  double left() const;
  // Whether `seconds` are so large a part of a whole call that a unit of this duration will not fit
  // into the next call either.
  bool nearly_all(double seconds) const;

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double usable_;
};

// The program that probes a GPU without any framework. Throws ConfigError if it is not built.
std::string device_probe_program();

// The machine's name: its GPU, or its CPU with the number of cores. A folder with results of a
// machine with another name cannot be continued. Throws ExitError (exit_no_device) if there is no
// such device.
std::string name_of_machine(const AcceptanceOptions& options);

// Runs the units that are not done, until all have run, the budget is used up, or Ctrl-C. After
// each unit, records its end in `progress` and on disk.
void run_units(const std::vector<Unit>& units, const AcceptanceOptions& options,
               const AcceptanceScope& scope, const Budget& budget, Progress& progress);

}  // namespace lockstep
