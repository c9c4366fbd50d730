// The HTML page of one or several scenarios: the answer in plain words, charts with their tables,
// and the inputs. `report` writes it, and the explorer shows its parts. Scripts in the page draw it
// from JSON; the page loads nothing from the network.
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
  bool calibration = false;  // used to fit a model or as an anchor, so agreement proves nothing
};

// Live bytes in one GPU's memory during a step, by moment, in the order in which the host issues
// work. A long step has only the highest of several neighbouring moments.
struct MemoryCurve {
  struct Moment {
    std::string text;  // "backward of layer4.2.conv3"
    double bytes = 0;  // largest number of live bytes at this moment
  };
  std::string strategy;
  int gpus = 1;
  std::vector<Moment> moments;
  // Live tensors at the peak: the largest ones by name, all others as one entry. Their sum is the
  // allocated peak.
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
  std::vector<MemoryCurve> memory;                // one for each strategy, on its most GPUs
  std::vector<nlohmann::ordered_json> timelines;  // json_of(StepTimeline) of the same points
  std::string description;                        // by the scenario's author; "" = none
  std::string inputs;                             // the text of the scenario's file
};

// The comparison with which the page begins. Every answered alternative has a chapter, in the same
// order.
struct ReportAlternatives {
  AlternativesRecord answered;
  std::vector<RefusedAlternative> refused;
  SortKey sorted_by = SortKey::none;
};

// One value in a box at the top of the page.
struct Highlight {
  std::string title, value, detail;
};
// The answer of a chapter or a comparison, in plain words: the fastest and the cheapest point, and
// memory. A chapter's answer also has the bottleneck, other strategies and GPU counts, and how well
// predictions of this scenario agree with measurements.
struct Answer {
  std::vector<std::string> sentences;  // most important first
  std::vector<Highlight> highlights;
};
Answer answer(const ReportChapter& chapter);
Answer answer(const ReportAlternatives& comparison);

// The chosen values as a name, such as "g5.12xlarge, global batch 256". A number has its field's
// name in front; a word does not need it.
std::string choice_text(const std::vector<Chosen>& chosen);

// The data of the page: {parts, kinds, chapters, comparison}. A chapter's `result` is the document
// that `run --json` writes. If `comparison` is null, the page only has chapters.
nlohmann::ordered_json report_json(const std::vector<ReportChapter>& chapters,
                                   const ReportAlternatives* comparison = nullptr);

// The same chapters give the same bytes. `comparison` is null unless there are several
// alternatives.
std::string render_report(const std::vector<ReportChapter>& chapters,
                          const ReportAlternatives* comparison = nullptr);

// Style and scripts for a page whose data change; showReport() in report/page.js draws the data.
extern const char* const report_style;
extern const char* const report_library;  // must come before report_script, which calls it
extern const char* const report_script;

}  // namespace lockstep
