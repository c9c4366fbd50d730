// The report of an acceptance: predictions beside real training, against the bars. Write it as
// Markdown for people and as JSON for programs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "acceptance/plan.hpp"
#include "acceptance/predictions.hpp"
#include "acceptance/progress.hpp"

namespace lockstep {

struct Findings {
  std::vector<Unit> plan;  // the whole plan, chosen or not
  bool on_gpu = false;
  Progress progress;
  std::map<std::string, RealRun> real;  // by unit
  Predictions predicted;
  Profile profile;                          // without a device: none was written
  std::map<std::string, std::string> logs;  // last line of each failed unit's log
};

std::string acceptance_report(const Findings& findings);  // Markdown
std::string acceptance_json(const Findings& findings);

}  // namespace lockstep
