// `lockstep acceptance`: measures a machine within minutes, trains cases there that were not
// calibrated, and reports the errors of the predictions: docs/gpu-acceptance.md. Called by the verb
// alone.
#pragma once

#include <string>
#include <vector>

#include "core/fields.hpp"

namespace lockstep {

enum class Stage { probes, models, validate, ranks, report };
template <>
struct EnumNames<Stage> {
  static constexpr std::array names{"probes", "models", "validate", "ranks", "report"};
};

struct AcceptanceOptions {
  std::string device = "cuda:0";
  std::string folder;                                   // of all results
  std::vector<std::string> stages, models, precisions;  // empty = all
  bool quick = false;
  bool again = false;     // drop earlier results of the chosen units
  bool list = false;      // only list the units that would run
  bool json = false;      // the figures instead of the report
  double time_limit = 0;  // seconds until everything must be over; 0 = none
  double unit_limit = 0;  // seconds for one unit; 0 = as plan.cpp has it

  bool on_gpu() const { return device != "cpu"; }
};

// Exit codes beside the usual ones.
constexpr int exit_call_again = 3;  // the time is used up
constexpr int exit_no_device = 77;

int acceptance_command(const AcceptanceOptions& options);

}  // namespace lockstep
