// Builds the report's page. C++ writes all data as one JSON text into report/page.html; the scripts
// beside it draw the charts (report/charts.js, timeline.js). The page also contains the plain-text
// report for readers without scripts.
#include "results/report.hpp"

#include <algorithm>
#include <utility>

#include "report_files.hpp"
#include "results/json_fields.hpp"
#include "results/render.hpp"
#include "results/step_timeline.hpp"
#include "results/tables.hpp"

namespace lockstep {

namespace {

using Json = nlohmann::ordered_json;

// Replaces each {{name}} in the template by the text of that name.
// REQUIRES: every name has a text.
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

// JSON inside a script element. The browser ends the element at the first "</script", even within a
// string, so every '<' is escaped.
std::string script_text(const Json& json) {
  std::string safe;
  for (const char c : json.dump(-1, ' ', false, Json::error_handler_t::replace)) {
    safe += c == '<' ? std::string("\\u003c") : std::string(1, c);
  }
  return safe;
}

Json json_of(const Answer& answer) {
  Json highlights = Json::array();
  for (const auto& [title, value, detail] : answer.highlights) {
    highlights.push_back({{"title", title}, {"value", value}, {"detail", detail}});
  }
  return {{"sentences", answer.sentences}, {"highlights", std::move(highlights)}};
}

// The structure from which text.js draws tables.
Json json_of(const Table& table) {
  Json columns = Json::array();
  for (const Table::Column& column : table.columns()) {
    columns.push_back({{"title", column.title}, {"left", column.align == Table::Align::left}});
  }
  return {{"columns", std::move(columns)}, {"rows", table.rows()}};
}

Json json_of(const MeasuredPoint& point) {
  return {{"strategy", point.strategy},
          {"gpus", point.gpus},
          {"step_seconds", point.step_seconds},
          {"source", point.source},
          {"calibration", point.calibration}};
}

Json json_of(const MemoryCurve& curve) {
  Json moments = Json::array(), bytes = Json::array(), at_peak = Json::array();
  for (const MemoryCurve::Moment& moment : curve.moments) {
    moments.push_back(moment.text);
    bytes.push_back(moment.bytes);
  }
  for (const auto& [name, kind, count, size] : curve.at_peak) {
    at_peak.push_back({{"name", name}, {"kind", kind}, {"count", count}, {"bytes", size}});
  }
  return {{"strategy", curve.strategy},       {"gpus", curve.gpus},
          {"moments", std::move(moments)},    {"bytes", std::move(bytes)},
          {"peak_moment", curve.peak_moment}, {"at_peak", std::move(at_peak)}};
}

Json json_of(const ReportChapter& chapter) {
  const ResultRecord& record = chapter.record;
  // Sentences and tables are made here, so that the page shows the same as the terminal.
  Json fits = Json::array(), measured = Json::array(), memory = Json::array();
  for (const Prediction& p : record.predictions) fits.push_back(fits_text(p));
  for (const MeasuredPoint& point : chapter.measured) measured.push_back(json_of(point));
  for (const MemoryCurve& curve : chapter.memory) memory.push_back(json_of(curve));
  return {{"result", json_of(record)},
          {"subject", subject_text(record)},
          {"description", chapter.description},
          {"answer", json_of(answer(chapter))},
          {"missing_price", missing_price(record)},
          {"origins", origins(record)},
          {"fits", std::move(fits)},
          // The tables of the terminal.
          {"tables",
           {{"summary", json_of(summary_table(record))},
            {"step", json_of(split_table(record))},
            {"exposed", json_of(exposed_table(record))},
            {"stages", json_of(stages_table(record))},
            {"traffic", json_of(traffic_table(record))},
            {"staleness", json_of(staleness_table(record))},
            {"accuracy", json_of(accuracy_table(record))}}},
          {"measured", std::move(measured)},
          {"memory", std::move(memory)},
          {"timelines", chapter.timelines},
          {"file", record.file},
          {"inputs", chapter.inputs}};
}

const char* order_text(SortKey key) {
  switch (key) {
    case SortKey::none:
      return "As written.";
    case SortKey::time:
      return "The fastest first; points that do not fit last.";
    case SortKey::cost:
      return "The cheapest first; points that do not fit last.";
    case SortKey::memory:
      return "The least memory first; points that do not fit last.";
    case SortKey::energy:
      return "The least energy first; points that do not fit last.";
    case SortKey::throughput:
      return "The highest throughput first; points that do not fit last.";
  }
  return "";
}

// The comparison names chapters by index; the numbers are in the chapters.
Json json_of(const ReportAlternatives& comparison) {
  const std::vector<AlternativeResult>& answered = comparison.answered.alternatives;
  const auto values_of = [](const std::vector<Chosen>& chosen) {
    Json values = Json::array();
    for (const Chosen& choice : chosen) values.push_back(choice.value);
    return values;
  };
  Json headings = Json::array(), alternatives = Json::array(), refused = Json::array();
  for (const Chosen& choice : answered.front().chosen) headings.push_back(heading_of(choice));
  for (const auto& [chosen, record] : answered) {
    alternatives.push_back({{"name", choice_text(chosen)}, {"values", values_of(chosen)}});
  }
  for (const auto& [chosen, reason] : comparison.refused) {
    refused.push_back({{"values", values_of(chosen)}, {"reason", reason}});
  }
  return {{"answer", json_of(answer(comparison))},
          {"order_text", order_text(comparison.sorted_by)},
          {"headings", std::move(headings)},
          {"alternatives", std::move(alternatives)},
          {"order", json_of(comparison.answered.order)},
          {"refused", std::move(refused)}};
}

}  // namespace

Json report_json(const std::vector<ReportChapter>& chapters, const ReportAlternatives* comparison) {
  // Names and colours that all chapters share.
  Json parts = Json::array(), kinds = Json::array(), list = Json::array();
  for (const StepPart& part : named_parts) {
    parts.push_back({{"name", part.name}, {"heading", part.phrase}});
  }
  for (std::size_t i = 0; i < slice_kinds.size(); ++i) {
    kinds.push_back({{"colour", slice_kinds[i].colour},
                     {"heading", slice_kinds[i].heading},
                     {"waits", is_wait(static_cast<SliceKind>(i))}});
  }
  for (const ReportChapter& chapter : chapters) list.push_back(json_of(chapter));
  Json data{
      {"parts", std::move(parts)}, {"kinds", std::move(kinds)}, {"chapters", std::move(list)}};
  if (comparison != nullptr) data["comparison"] = json_of(*comparison);
  return data;
}

std::string render_report(const std::vector<ReportChapter>& chapters,
                          const ReportAlternatives* comparison) {
  std::string text = comparison != nullptr ? render_text(comparison->answered) + "\n\n" : "";
  for (const ReportChapter& chapter : chapters) text += render_text(chapter.record) + "\n\n";
  return filled(report_page, {{"title", html_text(chapters.front().record.scenario)},
                              {"style", report_style},
                              {"text", html_text(text)},
                              {"version", LOCKSTEP_VERSION},
                              {"data", script_text(report_json(chapters, comparison))},
                              {"library", report_library},
                              {"script", report_script}});
}

}  // namespace lockstep
