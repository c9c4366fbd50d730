// One HTML page of several scenarios: the answer in plain words, charts with their tables behind
// them, and the inputs. Self-contained: it loads nothing when it is looked at.
#pragma once

#include <string>
#include <vector>

#include "results/record.hpp"

namespace lockstep {

// What somebody measured of a point.
struct MeasuredPoint {
  std::string strategy;
  int gpus = 1;
  double step_seconds = 0;
  std::string source;
  bool calibration = false;  // used to fit a model, or as an anchor: agreement proves nothing
};

struct ReportChapter {
  ResultRecord record;
  std::vector<MeasuredPoint> measured;
  std::string description;  // by the scenario's author; "" = none
  std::string inputs;       // the scenario file as it stands
};

// Deterministic: same chapters, same bytes.
std::string render_report(const std::vector<ReportChapter>& chapters);

}  // namespace lockstep
