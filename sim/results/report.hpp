// One HTML page of several scenarios: the answer in plain words, charts with their tables behind
// them, and the inputs. Self-contained: it loads nothing when it is looked at.
#pragma once

#include <string>
#include <vector>

#include "results/alternatives.hpp"
#include "results/record.hpp"
#include "results/step_timeline.hpp"

namespace lockstep {

// What somebody measured of a point.
struct MeasuredPoint {
  std::string strategy;
  int gpus = 1;
  double step_seconds = 0;
  std::string source;
  bool calibration = false;  // used to fit a model, or as an anchor: agreement proves nothing
};

// What lives in one GPU's memory over a step, at the moments of the host's order.
struct MemoryCurve {
  struct Moment {
    std::string text;  // "backward of layer4.2.conv3"
    double bytes = 0;  // the most that lived then
  };
  std::string strategy;
  int gpus = 1;
  std::vector<Moment> moments;
  // What lives at the peak: the largest by name, the rest together; their sum is the allocated peak.
  struct Tensors {
    std::string name;  // "output of layer1.0.conv2"
    std::string kind;  // "activations"
    int count = 0;
    double bytes = 0;
  };
  std::vector<Tensors> at_peak;
  std::string peak_moment;
};

struct ReportChapter {
  ResultRecord record;
  std::vector<MeasuredPoint> measured;
  std::vector<MemoryCurve> memory;      // of each strategy on its most GPUs
  std::vector<StepTimeline> timelines;  // of the same
  std::string description;              // by the scenario's author; "" = none
  std::string inputs;                   // the scenario file as it stands
};

// Of alternatives, which the page begins with.
struct ReportAlternatives {
  AlternativesRecord answered;
  std::vector<RefusedAlternative> refused;
  SortKey sorted_by = SortKey::none;
};

// Deterministic: same chapters, same bytes. `comparison` where there are several alternatives.
std::string render_report(const std::vector<ReportChapter>& chapters,
                          const ReportAlternatives* comparison = nullptr);

// The pieces of the page, for a page that changes: a chapter's HTML, what the charts of all chapters
// draw (JSON), and the style, script and library that show them.
std::string report_article(const ReportChapter& chapter, std::size_t number);
std::string report_data(const std::vector<ReportChapter>& chapters);
extern const char* const report_style;
extern const char* const report_timeline;  // before the script, which calls it
extern const char* const report_script;
extern const char* const report_library;

}  // namespace lockstep
