// The report of an acceptance: compares predictions with real training, and median errors with
// bars. It exists as Markdown for people and as JSON for programs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "acceptance/plan.hpp"
#include "acceptance/predictions.hpp"
#include "acceptance/progress.hpp"

namespace lockstep {

struct Findings {
  std::vector<Unit> plan;  // the whole plan, including units that were not chosen
  bool on_gpu = false;
  Progress progress;
  std::map<std::string, RealRun> real;  // by unit
  Predictions predicted;
  Profile profile;                          // has no device if no profile was written
  std::map<std::string, std::string> logs;  // last line of each failed unit's log
};

std::string acceptance_report(const Findings& findings);  // Markdown
std::string acceptance_json(const Findings& findings);

}  // namespace lockstep
