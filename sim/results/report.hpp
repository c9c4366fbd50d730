// One HTML page of several scenarios: the answer in plain words, charts with their tables, and the
// inputs. Used by `report` and by the explorer. The page draws itself from JSON and loads nothing
// from elsewhere.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "results/alternatives.hpp"
#include "results/record.hpp"

namespace lockstep {

// A measured step of a point.
struct MeasuredPoint {
  std::string strategy;
  int gpus = 1;
  double step_seconds = 0;
  std::string source;
  bool calibration = false;  // used to fit a model, or as an anchor: agreement proves nothing
};

// Live bytes in one GPU's memory over a step, by moment, in the host's order.
struct MemoryCurve {
  struct Moment {
    std::string text;  // "backward of layer4.2.conv3"
    double bytes = 0;  // largest number of live bytes at this moment
  };
  std::string strategy;
  int gpus = 1;
  std::vector<Moment> moments;
  // Live tensors at the peak: the largest by name, the rest together; their sum is the allocated
  // peak.
  struct Tensors {
    std::string name;  // "output of layer1.0.conv2"
    std::string kind;  // "activations"
    int count = 0;
    double bytes = 0;
  };
  std::vector<Tensors> at_peak;
  std::string peak_moment;
};

// One scenario's part of the page.
struct ReportChapter {
  ResultRecord record;
  std::vector<MeasuredPoint> measured;
  std::vector<MemoryCurve> memory;                // of each strategy on its most GPUs
  std::vector<nlohmann::ordered_json> timelines;  // of the same, json_of(StepTimeline)
  std::string description;                        // by the scenario's author; "" = none
  std::string inputs;                             // the scenario file as it stands
};

// The comparison that the page begins with. Every answered alternative has a chapter, in this
// order.
struct ReportAlternatives {
  AlternativesRecord answered;
  std::vector<RefusedAlternative> refused;
  SortKey sorted_by = SortKey::none;
};

// A figure in a box at the top of the page.
struct Highlight {
  std::string title, value, detail;
};
// The answer of a chapter or a comparison, in plain words: the fastest and the cheapest point, the
// bottleneck, memory, and the agreement of this scenario's predictions with measurements.
struct Answer {
  std::vector<std::string> sentences;  // most important first
  std::vector<Highlight> highlights;
};
Answer answer(const ReportChapter& chapter);
Answer answer(const ReportAlternatives& comparison);

// The chosen values as a name: "g5.12xlarge, global batch 256". A word needs no heading, a number
// does.
std::string choice_text(const std::vector<Chosen>& chosen);

// The data of the page: {parts, kinds, chapters, comparison}. A chapter's `result` is the document
// that `run --json` writes. `comparison` may be null; the page then has chapters only.
nlohmann::ordered_json report_json(const std::vector<ReportChapter>& chapters,
                                   const ReportAlternatives* comparison = nullptr);

// Deterministic: same chapters, same bytes. `comparison`: only with several alternatives.
std::string render_report(const std::vector<ReportChapter>& chapters,
                          const ReportAlternatives* comparison = nullptr);

// Style and scripts that draw the data, for a page that changes (report/page.js: showReport()).
extern const char* const report_style;
extern const char* const report_library;  // before the script, which calls it
extern const char* const report_script;

}  // namespace lockstep
