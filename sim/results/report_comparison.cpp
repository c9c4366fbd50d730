// See report_comparison.hpp.
#include "results/report_comparison.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "results/cells.hpp"
#include "results/report_answer.hpp"
#include "results/report_figures.hpp"
#include "results/report_panels.hpp"
#include "results/tables.hpp"

namespace lockstep {

namespace {

using Align = Table::Align;
using Json = nlohmann::ordered_json;

constexpr std::size_t most_bars = 40;

// "g5.12xlarge, global batch 256": a word speaks for itself, a number does not.
std::string name_of(const std::vector<Chosen>& chosen) {
  std::vector<std::string> words, numbers;
  for (const Chosen& choice : chosen) {
    const bool number = choice.value.find_first_not_of("0123456789.e+-") == std::string::npos;
    (number ? numbers : words)
        .push_back(number ? heading_of(choice) + " " + choice.value : choice.value);
  }
  words.insert(words.end(), numbers.begin(), numbers.end());
  return fmt::format("{}", fmt::join(words, ", "));
}

// "fsdp, g5.12xlarge, 256", beside a bar.
std::string label_of(const std::string& strategy, const std::vector<Chosen>& chosen) {
  std::string label = strategy;
  for (const Chosen& choice : chosen) label += ", " + choice.value;
  return label;
}

const std::vector<Chosen>& chosen_of(const AlternativesRecord& record, std::size_t row) {
  return record.alternatives[static_cast<std::size_t>(record.order[row].alternative)].chosen;
}

// The rows as the predictions of one scenario, whose strategies say which alternative they are of.
ResultRecord named_rows(const AlternativesRecord& record) {
  ResultRecord named;
  named.predictions = rows_of(record);
  for (std::size_t i = 0; i < named.predictions.size(); ++i) {
    std::string& strategy = named.predictions[i].strategy;
    strategy = fmt::format("{}, {}", name_of(chosen_of(record, i)), strategy);
  }
  return named;
}

// What rows compare by: the whole run, or one sample.
double seconds_of(const Prediction& p, bool whole) {
  return whole ? p.total_seconds : 1 / p.samples_per_second;
}
Interval interval_of(const Prediction& p, bool whole) {
  const double factor = seconds_of(p, whole) / p.step_seconds;
  return {factor * p.step_interval.low, factor * p.step_interval.high};
}
std::string interval_text(const Interval& interval, const char* between) {
  return fmt::format("{} {} {}", seconds_text(interval.low), between, seconds_text(interval.high));
}

// Every row there is: predictions, points without an answer, alternatives that cannot be.
Table rows_table(const ReportAlternatives& comparison, const std::vector<Prediction>& rows) {
  const AlternativesRecord& record = comparison.answered;
  const auto any = [&](auto has) { return std::any_of(rows.begin(), rows.end(), has); };
  const bool runs = any([](const Prediction& p) { return p.total_seconds > 0; });
  const bool priced = any([](const Prediction& p) { return p.dollars > 0; });
  const bool samples =
      rows.empty() || any([](const Prediction& p) { return !(p.tokens_per_second > 0); });
  std::vector<Table::Column> columns{{"row"}};
  for (const Chosen& choice : record.alternatives.front().chosen) {
    columns.push_back({heading_of(choice), Align::left});
  }
  columns.push_back({"strategy", Align::left});
  columns.push_back({"GPUs"});
  columns.push_back({"fits", Align::left});
  for (const char* title : {"step", "90 % interval"}) columns.push_back({title});
  if (runs) columns.push_back({"total"});
  columns.push_back({samples ? "samples/s" : "tokens/s"});
  if (priced) columns.push_back({"cost"});
  columns.push_back({"memory"});
  columns.push_back({"but", Align::left});

  Table table(columns);
  const auto add = [&](const std::vector<Chosen>& chosen, const std::vector<std::string>& point,
                       const std::string& last) {
    std::vector<std::string> cells{std::to_string(table.rows().size() + 1)};
    for (const Chosen& choice : chosen) cells.push_back(choice.value);
    cells.insert(cells.end(), point.begin(), point.end());
    cells.resize(columns.size() - 1, "-");
    cells.push_back(last);
    table.add_row(std::move(cells));
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Prediction& p = rows[i];
    const std::string fits = fits_text(p);  // "yes", or "NO, 3 GiB short"
    const std::size_t comma = fits.find(", ");
    std::vector<std::string> cells{p.strategy, std::to_string(p.gpus), fits.substr(0, comma),
                                   seconds_text(p.step_seconds),
                                   interval_text(p.step_interval, "..")};
    if (runs) cells.push_back(p.total_seconds > 0 ? seconds_text(p.total_seconds) : "-");
    cells.push_back(rate_text(samples ? p.samples_per_second : p.tokens_per_second));
    if (priced) cells.push_back(dollars_or_dash(p.dollars));
    cells.push_back(bytes_text(p.memory.device));
    add(chosen_of(record, i), cells, comma == std::string::npos ? "" : fits.substr(comma + 2));
  }
  for (const AlternativeResult& alternative : record.alternatives) {
    for (const Failure& failure : alternative.record.failures) {
      add(alternative.chosen, {failure.strategy, std::to_string(failure.gpus), "no answer"},
          failure.reason);
    }
  }
  for (const RefusedAlternative& refused : comparison.refused) {
    add(refused.chosen, {"-", "-", "cannot be"}, refused.reason);
  }
  return table;
}

Chart time_chart(const std::vector<Prediction>& named) {
  const bool whole = whole_runs(named);
  Table table({{"row"},
               {"alternative", Align::left},
               {"GPUs"},
               {whole ? "whole run" : "one sample"},
               {"90 % interval"}});
  for (std::size_t i = 0; i < named.size(); ++i) {
    const Prediction& p = named[i];
    table.add_row({std::to_string(i + 1), p.strategy, std::to_string(p.gpus),
                   p.out_of_memory ? "does not fit" : seconds_text(seconds_of(p, whole)),
                   p.out_of_memory ? "-" : interval_text(interval_of(p, whole), "..")});
  }
  std::string caption = whole ? "The whole run of each row" : "Time of one sample, of each row";
  if (named.size() > most_bars) caption = fmt::format("{} (the first {})", caption, most_bars);
  return {"alternatives", whole ? "Time of the whole run" : "Time of one sample",
          caption + "; lines are 90 % intervals. What does not fit has no bar.", std::move(table),
          true};
}

Answer answer(const ReportAlternatives& comparison, const std::vector<Prediction>& named) {
  Answer told;
  const bool whole = whole_runs(named);
  const auto best = [&](SortKey key) -> const Prediction* {
    const std::optional<std::size_t> row = best_of(named, key);
    return row ? &named[*row] : nullptr;
  };
  const Prediction* fastest = best(SortKey::time);
  if (fastest != nullptr) {
    const std::string time = seconds_text(seconds_of(*fastest, whole));
    told.sentences.push_back(fmt::format("{} is fastest: {} takes {} (90 % interval {}).",
                                         point_text(fastest->strategy, fastest->gpus),
                                         whole ? "the whole run" : "one sample", time,
                                         interval_text(interval_of(*fastest, whole), "to")));
    told.highlights.push_back({"Fastest", time, point_text(fastest->strategy, fastest->gpus)});
  } else {
    told.sentences.emplace_back(named.empty() ? "There is no prediction."
                                              : "Nothing fits into memory.");
  }
  if (const Prediction* cheapest = best(SortKey::cost)) {
    told.highlights.push_back({"Cheapest", dollars_text(cheapest->dollars),
                               point_text(cheapest->strategy, cheapest->gpus)});
  }
  if (const Prediction* least = best(SortKey::memory)) {
    told.highlights.push_back({"Least memory", bytes_text(least->memory.device),
                               point_text(least->strategy, least->gpus)});
  }
  const auto misfits = std::count_if(
      named.begin(), named.end(), [](const Prediction& p) { return p.out_of_memory.has_value(); });
  if (misfits > 0 && fastest != nullptr) {
    told.sentences.push_back(fmt::format("{} of {} points {} not fit into memory.", misfits,
                                         named.size(), misfits == 1 ? "does" : "do"));
  }
  if (const std::size_t refused = comparison.refused.size(); refused > 0) {
    told.sentences.push_back(fmt::format("{} of {} alternatives cannot be; the table says why.",
                                         refused,
                                         refused + comparison.answered.alternatives.size()));
  }
  return told;
}

const char* order_text(SortKey key) {
  switch (key) {
    case SortKey::none:
      return "As written.";
    case SortKey::time:
      return "The fastest first, what does not fit last.";
    case SortKey::cost:
      return "The cheapest first, what does not fit last.";
    case SortKey::memory:
      return "The least memory first, what does not fit last.";
    case SortKey::energy:
      return "The least energy first, what does not fit last.";
    case SortKey::throughput:
      return "The highest throughput first, what does not fit last.";
  }
  return "";
}

}  // namespace

std::string comparison_html(const ReportAlternatives& comparison) {
  const AlternativesRecord& record = comparison.answered;
  const ResultRecord named = named_rows(record);
  std::string out = fmt::format(
      "<article class=chapter id=\"comparison\">\n<h1>{} alternatives compared</h1>\n"
      "<p class=subject>{}</p>\n",
      record.alternatives.size() + comparison.refused.size(), order_text(comparison.sorted_by));
  out += answer_html(answer(comparison, named.predictions)) + "<div class=grid>\n";
  out += panel_html("All alternatives", "<div class=scroll tabindex=0>" +
                                            rows_table(comparison, rows_of(record))
                                                .html("Every alternative, strategy and GPU count") +
                                            "</div>\n");
  if (!named.predictions.empty()) out += chart_html(time_chart(named.predictions), "comparison");
  if (const Chart price = price_chart(named); !price.table.empty()) {
    out += chart_html(price, "comparison");
  }
  return out + "</div>\n</article>\n";
}

Json comparison_data(const ReportAlternatives& comparison) {
  const ResultRecord named = named_rows(comparison.answered);
  const std::vector<Prediction> plain = rows_of(comparison.answered);
  const bool whole = whole_runs(plain);
  Json rows = Json::array();
  for (std::size_t i = 0; i < named.predictions.size(); ++i) {
    const Prediction& p = named.predictions[i];
    const Interval interval = interval_of(p, whole);
    rows.push_back({{"strategy", p.strategy},
                    {"label", label_of(plain[i].strategy, chosen_of(comparison.answered, i))},
                    {"gpus", p.gpus},
                    {"fits", !p.out_of_memory},
                    {"seconds", seconds_of(p, whole)},
                    {"interval", {interval.low, interval.high}},
                    {"total_seconds", p.total_seconds},
                    {"dollars", p.dollars}});
  }
  return {{"whole", whole},
          {"most", most_bars},
          {"measured", Json::array()},
          {"result", {{"predictions", std::move(rows)}}},
          {"front", pareto_front(named.predictions)}};
}

}  // namespace lockstep
