// The report for people: one summary table, one table of where the step goes, then what limits
// each.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "results/cells.hpp"
#include "results/render.hpp"
#include "results/table.hpp"

namespace lockstep {

namespace {

// What no dataset, no price or no such part of the step leaves out; rounding noise counts as
// nothing.
bool nothing(double value) {
  return std::abs(value) < 1e-12;
}

std::string percent(double fraction) {
  return fmt::format("{:.1f} %", 100 * fraction);
}

using Align = Table::Align;

std::string summary_table(const ResultRecord& record) {
  bool tokens = false, priced = false, medians = false;
  for (const auto& p : record.predictions) {
    tokens |= p.tokens_per_second > 0;
    medians |= std::abs(p.median_step_seconds - p.step_seconds) > 1e-3 * p.step_seconds;
    priced |= p.dollars > 0;
  }
  std::vector<Table::Column> columns{{"strategy", Align::left}, {"GPUs"}, {"step"}};
  if (medians) columns.push_back({"median"});
  columns.insert(columns.end(), {{"90 % interval"},
                                 {"total"},
                                 {tokens ? "tokens/s" : "samples/s"},
                                 {"scaling"},
                                 {"GPU busy"},
                                 {"MFU"}});
  if (priced) columns.push_back({"cost"});
  Table table(columns);
  for (const auto& p : record.predictions) {
    std::vector<std::string> cells{p.strategy, std::to_string(p.gpus),
                                   seconds_text(p.step_seconds)};
    if (medians) cells.push_back(seconds_text(p.median_step_seconds));
    cells.insert(cells.end(),
                 {fmt::format("{} .. {}", seconds_text(p.step_interval.low),
                              seconds_text(p.step_interval.high)),
                  nothing(p.total_seconds) ? "-" : seconds_text(p.total_seconds),
                  rate_text(tokens ? p.tokens_per_second : p.samples_per_second),
                  percent(p.scaling_efficiency), percent(p.gpu_utilisation), percent(p.mfu)});
    if (priced) cells.push_back(p.dollars > 0 ? fmt::format("${:.2f}", p.dollars) : "-");
    table.add_row(std::move(cells));
  }
  return table.text();
}

std::string split_table(const ResultRecord& record) {
  Table table({{"strategy", Align::left},
               {"GPUs"},
               {"loading"},
               {"forward"},
               {"backward"},
               {"optimizer"},
               {"copies"},
               {"exposed comm"},
               {"host-bound"},
               {"waiting"}});
  for (const auto& p : record.predictions) {
    const auto& s = p.split;
    auto part = [&](double value) {
      return nothing(value) ? std::string("-") : seconds_text(value);
    };
    table.add_row({p.strategy, std::to_string(p.gpus), part(s.data_loading), part(s.forward),
                   part(s.backward), part(s.optimizer), part(s.copies),
                   part(s.exposed_communication), part(s.host_bound), part(s.waiting)});
  }
  return table.text();
}

std::string memory_table(const ResultRecord& record) {
  Table table({{"strategy", Align::left},
               {"GPUs"},
               {"allocated"},
               {"reserved"},
               {"device"},
               {"fits", Align::left},
               {"peak at", Align::left}});
  for (const auto& p : record.predictions) {
    const std::string fits =
        p.out_of_memory ? fmt::format("NO, {} short", bytes_text(p.out_of_memory->shortfall))
                        : "yes";
    table.add_row({p.strategy, std::to_string(p.gpus), bytes_text(p.memory.allocated),
                   bytes_text(p.memory.reserved), bytes_text(p.memory.device), fits,
                   p.memory.moment});
  }
  return table.text();
}

std::string traffic_table(const ResultRecord& record) {
  Table table({{"strategy", Align::left},
               {"GPUs"},
               {"links", Align::left},
               {"busiest link"},
               {"all links"},
               {"busy"}});
  for (const auto& p : record.predictions) {
    for (const auto& t : p.traffic) {
      table.add_row({p.strategy, std::to_string(p.gpus), t.link_class, bytes_text(t.bytes),
                     bytes_text(t.total_bytes), percent(t.busy)});
    }
  }
  return table.empty() ? "" : "\nTraffic per step, one way\n" + table.text();
}

std::string staleness_table(const ResultRecord& record) {
  Table table({{"strategy", Align::left}, {"GPUs"}, {"mean"}, {"median"}, {"99 %"}, {"max"}});
  for (const auto& p : record.predictions) {
    if (!p.staleness) continue;
    const auto& s = *p.staleness;
    table.add_row({p.strategy, std::to_string(p.gpus), fmt::format("{:.2f}", s.mean),
                   fmt::format("{:.0f}", s.p50), fmt::format("{:.0f}", s.p99),
                   fmt::format("{:.0f}", s.max)});
  }
  return table.empty() ? "" : "\nStaleness of the updates applied\n" + table.text();
}

std::string remarks(const ResultRecord& record) {
  std::string out = "\n";
  for (const auto& p : record.predictions) {
    const std::string who =
        fmt::format("{} on {} GPU{}", p.strategy, p.gpus, p.gpus == 1 ? "" : "s");
    out += fmt::format("{}: {}\n", who, p.bottleneck);
    if (p.out_of_memory) {
      for (const auto& suggestion : p.out_of_memory->suggestions) {
        out += fmt::format("  would fit: {}\n", suggestion);
      }
    }
    for (const auto& note : p.notes) out += fmt::format("  note: {}\n", note);
  }
  if (!record.predictions.empty()) {
    const auto& share = record.predictions.front().provenance;
    out += fmt::format(
        "Costs of {} on {} GPUs: {:.0f} % measured, {:.0f} % interpolated, {:.0f} % modelled.\n",
        record.predictions.front().strategy, record.predictions.front().gpus, 100 * share.measured,
        100 * share.interpolated, 100 * share.modelled);
  }
  return out;
}

}  // namespace

std::string render_text(const ResultRecord& record) {
  if (is_real(record)) return render_real_text(record);
  std::string out = record.scenario + "\n";
  out += fmt::format("{} on {}, {}", record.model, record.platform, record.precision);
  if (!record.predictions.empty()) {
    const auto [least, most] = std::minmax_element(
        record.predictions.begin(), record.predictions.end(),
        [](const auto& a, const auto& b) { return a.global_batch < b.global_batch; });
    out += fmt::format(", global batch {}", least->global_batch);
    if (least->global_batch != most->global_batch) {
      out += fmt::format(" to {}", most->global_batch);
    }
  }
  out += "\n\n" + summary_table(record);
  out += "\nWhere the step goes (mean of the ranks; the parts add up to the step)\n" +
         split_table(record);
  out += "\nPeak memory per GPU\n" + memory_table(record);
  out += traffic_table(record);
  out += staleness_table(record);
  out += remarks(record);
  return out;
}

}  // namespace lockstep
