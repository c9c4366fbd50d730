// See report_figures.hpp.
#include "results/report_figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "results/cells.hpp"
#include "results/report_answer.hpp"
#include "results/tables.hpp"

namespace lockstep {

namespace {

using Align = Table::Align;

Table scaling_table(const ReportChapter& chapter) {
  Table table({{"strategy", Align::left},
               {"GPUs"},
               {"step"},
               {"90 % interval"},
               {"measured"},
               {"error"},
               {"samples/s"},
               {"scaling"}});
  const std::vector<Agreement> known = agreements(chapter);
  for (const Prediction& p : chapter.record.predictions) {
    const auto found = std::find_if(known.begin(), known.end(),
                                    [&](const Agreement& one) { return one.predicted == &p; });
    const bool measured = found != known.end();
    table.add_row({p.strategy, std::to_string(p.gpus), seconds_text(p.step_seconds),
                   fmt::format("{} .. {}", seconds_text(p.step_interval.low),
                               seconds_text(p.step_interval.high)),
                   measured ? seconds_text(found->measured->step_seconds) : "-",
                   measured ? fmt::format("{:+.1f} %", 100 * found->error) : "-",
                   rate_text(p.samples_per_second), percent(p.scaling_efficiency)});
  }
  return table;
}

Table kinds_table(const ResultRecord& record) {
  std::set<std::string> kinds;
  for (const Prediction& p : record.predictions) {
    for (const auto& [kind, bytes] : p.memory.at_peak) kinds.insert(kind);
  }
  std::vector<Table::Column> columns{{"strategy", Align::left}, {"GPUs"}};
  for (const std::string& kind : kinds) columns.push_back({kind});
  for (const char* sum : {"allocated", "reserved", "device", "usable"}) columns.push_back({sum});
  columns.push_back({"peak at", Align::left});
  Table table(columns);
  for (const Prediction& p : record.predictions) {
    std::vector<std::string> cells{p.strategy, std::to_string(p.gpus)};
    for (const std::string& kind : kinds) {
      const auto found = p.memory.at_peak.find(kind);
      cells.push_back(found == p.memory.at_peak.end() ? "-" : bytes_text(found->second));
    }
    for (const double bytes :
         {p.memory.allocated, p.memory.reserved, p.memory.device, p.memory.capacity}) {
      cells.push_back(bytes_text(bytes));
    }
    cells.push_back(p.memory.moment);
    table.add_row(std::move(cells));
  }
  return table;
}

// What a curve says in figures: where it begins, how far forward takes it, its peak, its end.
Table memory_curve_table(const std::vector<MemoryCurve>& curves) {
  Table table({{"strategy", Table::Align::left},
               {"GPUs"},
               {"step begins"},
               {"end of forward"},
               {"peak"},
               {"peak at", Table::Align::left},
               {"update"}});
  for (const MemoryCurve& curve : curves) {
    const auto& all = curve.moments;
    if (all.empty()) continue;
    const auto peak = std::max_element(
        all.begin(), all.end(), [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
    const auto backward = std::find_if(all.begin(), all.end(), [](const auto& moment) {
      return moment.text.starts_with("backward") || moment.text.starts_with("recomputation");
    });
    const auto& forward = backward == all.begin() ? all.front() : *std::prev(backward);
    table.add_row({curve.strategy, std::to_string(curve.gpus), bytes_text(all.front().bytes),
                   bytes_text(forward.bytes), bytes_text(peak->bytes), peak->text,
                   bytes_text(all.back().bytes)});
  }
  return table;
}

Table exposed_table(const ResultRecord& record) {
  Table table({{"strategy", Align::left}, {"GPUs"}, {"exposed"}, {"share of the step"}});
  for (const Prediction& p : record.predictions) {
    const double seconds = p.split.exposed_communication;
    table.add_row({p.strategy, std::to_string(p.gpus), seconds_text(seconds),
                   percent(seconds / p.step_seconds)});
  }
  return table;
}

Table price_table(const ResultRecord& record) {
  Table table({{"strategy", Align::left}, {"GPUs"}, {"whole run"}, {"price"}, {"", Align::left}});
  const std::vector<std::size_t> front = pareto_front(record.predictions);
  for (std::size_t i = 0; i < record.predictions.size(); ++i) {
    const Prediction& p = record.predictions[i];
    if (!(p.dollars > 0)) continue;
    const bool best = std::find(front.begin(), front.end(), i) != front.end();
    table.add_row({p.strategy, std::to_string(p.gpus), seconds_text(p.total_seconds),
                   dollars_text(p.dollars), best ? "nothing is both faster and cheaper" : ""});
  }
  return table;
}

// Trained points by what they spend until their accuracy is judged last.
Table frontier_table(const ResultRecord& record, double TrainingSpent::*spent) {
  const bool time = spent == &TrainingSpent::seconds;
  Table table({{"strategy", Align::left},
               {"GPUs"},
               {"accuracy"},
               {"90 % interval"},
               {time ? "time" : "price"},
               {"", Align::left}});
  const std::vector<std::size_t> front = accuracy_front(record.predictions, spent);
  for (std::size_t i = 0; i < record.predictions.size(); ++i) {
    const Prediction& p = record.predictions[i];
    const double value = spent_on_training(p).*spent;
    if (p.out_of_memory || !(value > 0)) continue;
    const bool best = std::find(front.begin(), front.end(), i) != front.end();
    const Interval& interval = p.accuracy->last_interval;
    table.add_row({p.strategy, std::to_string(p.gpus), percent(p.accuracy->last),
                   fmt::format("{} .. {}", percent(interval.low), percent(interval.high)),
                   time ? seconds_text(value) : dollars_text(value),
                   !best  ? ""
                   : time ? "nothing is both faster and more accurate"
                          : "nothing is both cheaper and more accurate"});
  }
  return table;
}

Table origin_table(const ResultRecord& record) {
  Table table({{"strategy", Align::left}, {"GPUs"}, {"measured"}, {"interpolated"}, {"modelled"}});
  for (const Prediction& p : record.predictions) {
    table.add_row({p.strategy, std::to_string(p.gpus), percent(p.provenance.measured),
                   percent(p.provenance.interpolated), percent(p.provenance.modelled)});
  }
  return table;
}

// What there is to show beyond step and memory, which every record has.
struct Contents {
  std::set<int> gpu_counts;
  bool exposed = false, stale = false, accuracy = false, origins_differ = false;
};

Contents contents_of(const std::vector<Prediction>& predictions) {
  Contents contents;
  for (const Prediction& p : predictions) {
    contents.gpu_counts.insert(p.gpus);
    contents.exposed |= p.split.exposed_communication > 0;
    contents.stale |= p.staleness && p.staleness->max > 0;
    contents.accuracy |= p.accuracy.has_value();
    const ProvenanceShare &a = p.provenance, &b = predictions.front().provenance;
    contents.origins_differ |=
        std::abs(a.measured - b.measured) + std::abs(a.modelled - b.modelled) > 0.01;
  }
  return contents;
}

}  // namespace

std::vector<Chart> charts_of(const ReportChapter& chapter) {
  const ResultRecord& record = chapter.record;
  if (record.predictions.empty()) return {};
  const Contents contents = contents_of(record.predictions);
  const std::string marks =
      chapter.measured.empty() ? "" : " Diamonds were measured; see below by whom.";
  std::vector<Chart> list;
  list.push_back({"step", "Where one step goes",
                  "Mean of the ranks, one part after the other; the line is the 90 % interval of "
                  "the step." +
                      marks,
                  split_table(record), true});
  if (contents.gpu_counts.size() > 1) {
    list.push_back({"throughput", "Throughput",
                    "Bands are 90 % intervals, dashed lines perfect scaling." + marks,
                    scaling_table(chapter)});
    list.push_back({"time", "Time", "Bands are 90 % intervals." + marks, scaling_table(chapter)});
  }
  list.push_back({"memory", "Memory of one GPU at its peak",
                  "What is allocated at the peak by kind, what the allocator keeps beyond it, and "
                  "what the device needs for itself; the percentage is of what the device offers.",
                  kinds_table(record), true});
  if (Table table = memory_curve_table(chapter.memory); !table.empty()) {
    list.push_back({"memory_over_step", "Memory over one step",
                    "The most that lived on one GPU while each layer was issued, in the host's "
                    "order: forward and backward (of many micro-batches the first, the second and "
                    "the last), update.",
                    std::move(table), true});
  }
  if (contents.exposed) {
    list.push_back({"exposed", "Exposed communication",
                    "Share of the step that the GPU waits for a running transfer.",
                    exposed_table(record)});
  }
  if (Table table = traffic_table(record); !table.empty()) {
    list.push_back({"traffic", "Traffic",
                    "Bytes per step on the busiest link of each class, one way.",
                    std::move(table)});
  }
  if (contents.stale) {
    list.push_back({"staleness", "Staleness",
                    "Updates that the server applied between a worker's pull and its push.",
                    staleness_table(record)});
  }
  if (contents.accuracy) {
    list.push_back({"accuracy", "Accuracy",
                    "Really trained in the simulated order; bands are 90 % intervals of the mean "
                    "of the seeds.",
                    accuracy_table(record)});
  }
  if (Table table = frontier_table(record, &TrainingSpent::seconds); !table.empty()) {
    list.push_back({"frontier", "Accuracy against time",
                    "At the end of training; lines are 90 % intervals of the mean of the seeds. "
                    "Points on the dashed line are the choices: no other one is both faster and "
                    "more accurate.",
                    std::move(table)});
  }
  if (Table table = frontier_table(record, &TrainingSpent::dollars); !table.empty()) {
    list.push_back({"frontier_price", "Accuracy against price",
                    "The same for what the training costs.", std::move(table)});
  }
  if (Chart chart = price_chart(record); !chart.table.empty()) list.push_back(std::move(chart));
  if (contents.origins_differ) {
    list.push_back({"provenance", "Where the costs come from",
                    "Share of the device's and the network's seconds that were measured, "
                    "interpolated between measurements, or modelled.",
                    origin_table(record)});
  }
  return list;
}

Chart price_chart(const ResultRecord& record) {
  return {"cost", "Price against time",
          "Points on the dashed line are the choices: no other one is both faster and cheaper.",
          price_table(record)};
}

std::string chart_html(const Chart& chart, const std::string& chapter) {
  return fmt::format(
      "<figure class=\"panel{0}\" id=\"{1}\">\n<figcaption><h2 id=\"{1}-title\">{2}</h2>\n"
      "<p id=\"{1}-says\">{3}</p></figcaption>\n"
      "<div class=plot><canvas data-chart=\"{4}\" data-chapter=\"{5}\" role=img tabindex=0 "
      "aria-labelledby=\"{1}-title\" aria-describedby=\"{1}-says\"></canvas></div>\n"
      "<div class=live aria-live=polite></div>\n<details><summary>The same as a table</summary>\n"
      "<div class=scroll tabindex=0>{6}</div></details>\n</figure>\n",
      chart.wide ? " wide" : "", fmt::format("{}-{}", chart.name, chapter), html_text(chart.title),
      html_text(chart.caption), chart.name, chapter, chart.table.html(chart.title));
}

}  // namespace lockstep
