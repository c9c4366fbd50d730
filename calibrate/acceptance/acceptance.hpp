// The command `lockstep acceptance`: measures a machine within minutes, trains cases on it that
// were not calibrated, and reports the errors of their predictions (docs/gpu-acceptance.md).
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
  std::string folder;                                   // folder of all results
  std::vector<std::string> stages, models, precisions;  // empty = all
  bool quick = false;
  bool again = false;     // drop earlier results of the chosen units
  bool list = false;      // only list the units that would run
  bool json = false;      // print the report's JSON instead of its text
  double time_limit = 0;  // seconds after which the call must end; 0 = no limit
  double unit_limit = 0;  // largest seconds of one unit; 0 = AcceptanceScope::unit_limit

  bool on_gpu() const { return device != "cpu"; }
};

// Exit codes in addition to the usual ones.
constexpr int exit_call_again = 3;  // the time is used up, and units are left
constexpr int exit_no_device = 77;

int acceptance_command(const AcceptanceOptions& options);

}  // namespace lockstep
