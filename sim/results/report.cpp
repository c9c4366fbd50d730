// See report.hpp. The page is report/page.html; a chart is a row in report_figures.cpp, with its
// table, and a function in report/page.js that draws it.
#include "results/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "report_files.hpp"
#include "results/cells.hpp"
#include "results/json_fields.hpp"
#include "results/report_answer.hpp"
#include "results/report_comparison.hpp"
#include "results/report_figures.hpp"
#include "results/report_panels.hpp"
#include "results/tables.hpp"

namespace lockstep {

namespace {

using Align = Table::Align;
using Json = nlohmann::ordered_json;

// {{name}} in `page` becomes the text of that name.
std::string filled(const std::string& page,
                   const std::vector<std::pair<std::string, std::string>>& texts) {
  std::string out;
  std::size_t at = 0;
  while (true) {
    const std::size_t open = page.find("{{", at);
    if (open == std::string::npos) return out + page.substr(at);
    const std::size_t close = page.find("}}", open);
    const std::string name = page.substr(open + 2, close - open - 2);
    const auto found = std::find_if(texts.begin(), texts.end(),
                                    [&](const auto& text) { return text.first == name; });
    out += page.substr(at, open - at) + found->second;
    at = close + 2;
  }
}

// A page ends a script at the first "</script", also within the script's own texts.
std::string script_text(const Json& json) {
  std::string safe;
  for (const char c : json.dump(-1, ' ', false, Json::error_handler_t::replace)) {
    safe += c == '<' ? std::string("\\u003c") : std::string(1, c);
  }
  return safe;
}

std::string remarks_html(const ResultRecord& record) {
  std::string items;
  const auto add = [&](const std::string& text) { items += "<li>" + html_text(text) + "</li>\n"; };
  for (const Prediction& p : record.predictions) {
    const std::string point = point_text(p.strategy, p.gpus);
    add(point + ": " + p.bottleneck);
    for (const std::string& note : p.notes) add(point + ": " + note);
    if (!p.out_of_memory) continue;
    for (const std::string& change : p.out_of_memory->suggestions) {
      add(point + " would fit with: " + change);
    }
  }
  for (const std::string& warning : record.warnings) add(warning);
  for (const std::string& line : origins(record)) add(line);
  for (const Failure& failure : record.failures) {
    add(point_text(failure.strategy, failure.gpus) + ": no prediction: " + failure.reason);
  }
  return "<ul class=remarks>\n" + items + "</ul>\n";
}

std::string measured_html(const ReportChapter& chapter) {
  Table table({{"strategy", Align::left},
               {"GPUs"},
               {"predicted step"},
               {"measured step"},
               {"error"},
               {"used for", Align::left},
               {"source", Align::left}});
  for (const Agreement& one : agreements(chapter)) {
    table.add_row({one.predicted->strategy, std::to_string(one.predicted->gpus),
                   seconds_text(one.predicted->step_seconds),
                   seconds_text(one.measured->step_seconds),
                   fmt::format("{:+.1f} %", 100 * one.error),
                   one.measured->calibration ? "calibration" : "test", one.measured->source});
  }
  if (table.empty()) return "";
  return panel_html(
      "Predicted and measured",
      "<div class=scroll tabindex=0>" + table.html("Steps that were measured") + "</div>\n");
}

// Of each prediction what it spent, and which are on the fronts.
Json training_of(const std::vector<Prediction>& predictions) {
  Json spent = Json::array();
  for (const Prediction& p : predictions) {
    const TrainingSpent one = spent_on_training(p);
    spent.push_back({{"seconds", one.seconds}, {"dollars", one.dollars}});
  }
  return {{"spent", std::move(spent)},
          {"fronts",
           {{"seconds", accuracy_front(predictions, &TrainingSpent::seconds)},
            {"dollars", accuracy_front(predictions, &TrainingSpent::dollars)}}}};
}

Json data_of(const ReportChapter& chapter) {
  Json measured = Json::array();
  for (const MeasuredPoint& point : chapter.measured) {
    measured.push_back({{"strategy", point.strategy},
                        {"gpus", point.gpus},
                        {"step_seconds", point.step_seconds},
                        {"source", point.source}});
  }
  Json memory = Json::array();
  for (const MemoryCurve& curve : chapter.memory) {
    Json moments = Json::array(), bytes = Json::array();
    for (const MemoryCurve::Moment& moment : curve.moments) {
      moments.push_back(moment.text);
      bytes.push_back(moment.bytes);
    }
    memory.push_back({{"strategy", curve.strategy},
                      {"gpus", curve.gpus},
                      {"moments", std::move(moments)},
                      {"bytes", std::move(bytes)}});
  }
  Json timelines = Json::array();
  for (const StepTimeline& timeline : chapter.timelines) timelines.push_back(json_of(timeline));
  return {{"result", json_of(chapter.record)},
          {"memory", std::move(memory)},
          {"timelines", std::move(timelines)},
          {"measured", std::move(measured)},
          {"front", pareto_front(chapter.record.predictions)},
          {"training", training_of(chapter.record.predictions)}};
}

Json data_of(const std::vector<ReportChapter>& chapters) {
  Json data{{"parts", Json::array()}, {"kinds", Json::array()}, {"chapters", Json::array()}};
  for (const StepPart& part : named_parts) {
    data["parts"].push_back({{"name", part.name}, {"heading", part.phrase}});
  }
  for (std::size_t i = 0; i < slice_kinds.size(); ++i) {
    data["kinds"].push_back({{"colour", slice_kinds[i].colour},
                             {"heading", slice_kinds[i].heading},
                             {"waits", is_wait(static_cast<SliceKind>(i))}});
  }
  for (const ReportChapter& chapter : chapters) data["chapters"].push_back(data_of(chapter));
  return data;
}

}  // namespace

std::string report_article(const ReportChapter& chapter, std::size_t number) {
  const ResultRecord& record = chapter.record;
  std::string out = fmt::format(
      "<article class=chapter id=\"chapter-{}\">\n<h1>{}</h1>\n<p class=subject>{}{}</p>\n", number,
      html_text(record.scenario), html_text(subject_text(record)),
      chapter.description.empty() ? "" : "<br>" + html_text(chapter.description));
  out += answer_html(answer(chapter)) + "<div class=grid>\n";
  if (!record.predictions.empty()) {
    out +=
        panel_html("All points", "<div class=scroll tabindex=0>" +
                                     summary_table(record).html("Every strategy and GPU count") +
                                     "</div>\n<p>" + html_text(missing_price(record)) + "</p>\n");
  }
  for (const Chart& chart : charts_of(chapter)) {
    out += chart_html(chart, std::to_string(number));
    if (std::string_view(chart.name) == "step") out += timelines_html(chapter, number);
    if (std::string_view(chart.name) == "memory_over_step") out += peak_html(chapter);
  }
  out += measured_html(chapter);
  out += panel_html("What limits each point, and remarks", remarks_html(record));
  out += panel_html("Inputs",
                    fmt::format("<p><code>{}</code>, seed {}.</p>\n<details><summary>The "
                                "scenario file</summary><pre tabindex=0>{}</pre></details>\n",
                                html_text(record.file), record.seed, html_text(chapter.inputs)));
  return out + "</div>\n</article>\n";
}

std::string report_data(const std::vector<ReportChapter>& chapters) {
  return script_text(data_of(chapters));
}

std::string render_report(const std::vector<ReportChapter>& chapters,
                          const ReportAlternatives* comparison) {
  std::string links, articles;
  Json data = data_of(chapters);
  if (comparison != nullptr) {
    links = "<li><a href=\"#comparison\">All compared</a></li>\n";
    articles = comparison_html(*comparison);
    data["comparison"] = comparison_data(*comparison);
  }
  for (std::size_t i = 0; i < chapters.size(); ++i) {
    links += fmt::format("<li><a href=\"#chapter-{}\">{}</a></li>\n", i,
                         html_text(chapters[i].record.scenario));
    articles += report_article(chapters[i], i);
  }
  const std::string navigation =
      chapters.size() > 1 || comparison != nullptr
          ? "<nav aria-label=\"Scenarios\"><ul>\n" + links + "</ul></nav>\n"
          : "";
  return filled(report_page, {{"title", html_text(chapters.front().record.scenario)},
                              {"style", report_style},
                              {"navigation", navigation},
                              {"chapters", articles},
                              {"version", LOCKSTEP_VERSION},
                              {"data", script_text(data)},
                              {"library", report_library},
                              {"timeline", report_timeline},
                              {"script", report_script}});
}

}  // namespace lockstep
