// See tables.hpp.
#include "results/tables.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "results/cells.hpp"
#include "results/sentences.hpp"
#include "results/staleness.hpp"
#include "results/step_parts.hpp"

namespace lockstep {

namespace {

using Align = Table::Align;

// What no dataset, no price or no such part of the step leaves out; rounding noise counts as
// nothing.
bool nothing(double value) {
  return std::abs(value) < 1e-12;
}

std::string seconds_or_dash(double value) {
  return nothing(value) ? "-" : seconds_text(value);
}

// What a reader must know before comparing this row's time and price with others.
std::string caveat(const Prediction& p) {
  std::string text = p.out_of_memory ? "does not fit" : "";
  const std::string uneven = p.worker_steps ? uneven_workers(*p.worker_steps) : "";
  if (!text.empty() && !uneven.empty()) text += "; ";
  return text + uneven;
}

}  // namespace

Table summary_table(const ResultRecord& record) {
  bool tokens = false, priced = false, medians = false, precisions = false, caveats = false;
  for (const auto& p : record.predictions) {
    tokens |= p.tokens_per_second > 0;
    medians |= std::abs(p.median_step_seconds - p.step_seconds) > 1e-3 * p.step_seconds;
    priced |= p.dollars > 0;
    precisions |= p.precision != record.precision;
    caveats |= !caveat(p).empty();
  }
  std::vector<Table::Column> columns{{"strategy", Align::left}, {"GPUs"}};
  if (precisions) columns.push_back({"precision", Align::left});
  columns.push_back({"step"});
  if (medians) columns.push_back({"median"});
  columns.insert(columns.end(), {{"90 % interval"}, {"total"}});
  if (priced) columns.push_back({"cost"});
  columns.insert(columns.end(), {{tokens ? "tokens/s" : "samples/s"},
                                 {tokens ? "tokens/s/GPU" : "samples/s/GPU", Align::right, true},
                                 {"TFLOP/s/GPU"},
                                 {"free"},
                                 {"scaling"},
                                 {"GPU busy"},
                                 {"MFU"}});
  if (caveats) columns.push_back({"but", Align::left});
  Table table(columns);
  for (const auto& p : record.predictions) {
    std::vector<std::string> cells{p.strategy, std::to_string(p.gpus)};
    if (precisions) cells.push_back(p.precision);
    cells.push_back(seconds_text(p.step_seconds));
    if (medians) cells.push_back(seconds_text(p.median_step_seconds));
    cells.push_back(seconds_interval_text(p.step_interval.low, p.step_interval.high));
    cells.push_back(seconds_or_dash(p.total_seconds));
    if (priced) cells.push_back(dollars_or_dash(p.dollars));
    const double rate = tokens ? p.tokens_per_second : p.samples_per_second;
    for (std::string cell :
         {rate_text(rate), rate_text(rate / p.gpus), rate_text(1e-12 * p.flops_per_second),
          p.memory.capacity > 0 && !p.out_of_memory ? bytes_text(free_bytes(p.memory)) : "-",
          percent(p.scaling_efficiency), percent(p.gpu_utilisation), percent(p.mfu)}) {
      cells.push_back(std::move(cell));
    }
    if (caveats) cells.push_back(caveat(p));
    table.add_row(std::move(cells));
  }
  return table;
}

Table split_table(const ResultRecord& record) {
  std::vector<Table::Column> columns{{"strategy", Align::left}, {"GPUs"}};
  std::vector<double StepSplit::*> parts;  // that any point has
  bool divided = false;
  for (const StepPart& part : named_parts) {
    if (std::all_of(record.predictions.begin(), record.predictions.end(),
                    [&](const Prediction& p) { return nothing(p.split.*part.seconds); })) {
      continue;
    }
    parts.push_back(part.seconds);
    // Everybody's work, and what comes with training on several GPUs.
    const bool begins = !divided && columns.size() > 2 &&
                        (part.seconds == &StepSplit::copies || part.kind == PartKind::idle);
    divided |= begins;
    columns.push_back({part.heading, Align::right, begins});
  }
  Table table(columns);
  for (const auto& p : record.predictions) {
    std::vector<std::string> cells{p.strategy, std::to_string(p.gpus)};
    for (const auto part : parts) cells.push_back(seconds_or_dash(p.split.*part));
    table.add_row(std::move(cells));
  }
  return table;
}

std::string shortfall_text(const OutOfMemory& lacks) {
  const std::string host = bytes_text(lacks.host_shortfall) + " of host memory";
  if (lacks.host_shortfall <= 0) return bytes_text(lacks.shortfall);
  return lacks.shortfall > 0 ? bytes_text(lacks.shortfall) + " and " + host : host;
}

std::string fits_text(const Prediction& p) {
  if (p.out_of_memory) return fmt::format("NO, {} short", shortfall_text(*p.out_of_memory));
  const double free = p.memory.capacity - p.memory.device;
  constexpr double certainty = 0.02;  // how far peaks are off at most where they were measured
  if (p.memory.retries == 0 && (p.memory.capacity <= 0 || free >= certainty * p.memory.capacity)) {
    return "yes";
  }
  std::string retries;
  if (p.memory.retries > 0) {
    retries = fmt::format(", {} retr{}", p.memory.retries, p.memory.retries == 1 ? "y" : "ies");
  }
  return fmt::format("yes, barely ({} free{})", bytes_text(free), retries);
}

Table memory_table(const ResultRecord& record) {
  const bool offloads = std::any_of(record.predictions.begin(), record.predictions.end(),
                                    [](const Prediction& p) { return p.memory.host > 0; });
  std::vector<Table::Column> columns{
      {"strategy", Align::left}, {"GPUs"}, {"allocated"}, {"reserved"}, {"device"}};
  if (offloads) columns.push_back({"host of a node"});
  columns.push_back({"fits", Align::left});
  columns.push_back({"peak at", Align::left});
  Table table(columns);
  for (const auto& p : record.predictions) {
    std::vector<std::string> cells{p.strategy, std::to_string(p.gpus),
                                   bytes_text(p.memory.allocated), bytes_text(p.memory.reserved),
                                   bytes_text(p.memory.device)};
    if (offloads) cells.push_back(p.memory.host > 0 ? bytes_text(p.memory.host) : "-");
    cells.push_back(fits_text(p));
    cells.push_back(p.memory.moment);
    table.add_row(std::move(cells));
  }
  return table;
}

Table traffic_table(const ResultRecord& record) {
  Table table({{"strategy", Align::left},
               {"GPUs"},
               {"links", Align::left},
               {"busiest link"},
               {"all links"},
               {"busy"}});
  for (const auto& p : record.predictions) {
    // Links that carry the same are one row: what passes PCIe passes the host's memory.
    std::vector<std::pair<std::string, std::vector<std::string>>> rows;  // links, figures
    for (const auto& t : p.traffic) {
      const std::vector<std::string> figures{bytes_text(t.bytes), bytes_text(t.total_bytes),
                                             percent(t.busy)};
      const auto known = std::find_if(rows.begin(), rows.end(),
                                      [&](const auto& row) { return row.second == figures; });
      if (known != rows.end()) known->first += ", " + t.link_class;
      if (known == rows.end()) rows.emplace_back(t.link_class, figures);
    }
    for (const auto& [links, figures] : rows) {
      std::vector<std::string> cells{p.strategy, std::to_string(p.gpus), links};
      cells.insert(cells.end(), figures.begin(), figures.end());
      table.add_row(std::move(cells));
    }
  }
  return table;
}

Table staleness_table(const ResultRecord& record) {
  Table table({{"strategy", Align::left}, {"GPUs"}, {"mean"}, {"median"}, {"99 %"}, {"max"}});
  for (const auto& p : record.predictions) {
    if (!p.staleness) continue;
    std::vector<std::string> cells{p.strategy, std::to_string(p.gpus)};
    for (std::string& cell : staleness_cells(*p.staleness)) cells.push_back(std::move(cell));
    table.add_row(std::move(cells));
  }
  return table;
}

Table staleness_bars(const ResultRecord& record) {
  constexpr std::int64_t most_bars = 12;
  constexpr double longest = 32;  // characters
  Table table({{"strategy", Align::left}, {"GPUs"}, {"stale by"}, {"share"}, {"", Align::left}});
  for (const auto& p : record.predictions) {
    if (!p.staleness || p.staleness->histogram.size() < 2) continue;
    const auto& histogram = p.staleness->histogram;
    const std::int64_t first = histogram.begin()->first, last = histogram.rbegin()->first;
    const std::int64_t width = (last - first) / most_bars + 1;
    std::map<std::int64_t, double> bars;  // of `width` values each
    double all = 0, most = 0;
    for (const auto& [updates, pushes] : histogram) {
      all += static_cast<double>(pushes);
      bars[(updates - first) / width] += static_cast<double>(pushes);
    }
    for (const auto& [bar, pushes] : bars) most = std::max(most, pushes);
    for (std::int64_t bar = 0; bar <= bars.rbegin()->first; ++bar) {
      const std::int64_t from = first + bar * width, to = std::min(last, from + width - 1);
      table.add_row(
          {bar == 0 ? p.strategy : "", bar == 0 ? std::to_string(p.gpus) : "",
           from == to ? std::to_string(from) : fmt::format("{} .. {}", from, to),
           percent(bars[bar] / all),
           std::string(static_cast<std::size_t>(std::ceil(longest * bars[bar] / most)), '#')});
    }
  }
  return table;
}

Table workers_table(const ResultRecord& record) {
  Table table({{"strategy", Align::left}, {"GPUs"}, {"even"}, {"least"}, {"most"}});
  for (const auto& p : record.predictions) {
    if (!p.worker_steps) continue;
    table.add_row({p.strategy, std::to_string(p.gpus), percent(1.0 / p.gpus),
                   percent(p.worker_steps->least), percent(p.worker_steps->most)});
  }
  return table;
}

Table seeds_table(const ResultRecord& record) {
  Table table({{"strategy", Align::left},
               {"GPUs"},
               {"seeds"},
               {"step"},
               {"90 % interval"},
               {"staleness"},
               {"90 % interval"}});
  for (const auto& p : record.predictions) {
    if (!p.over_seeds) continue;
    const OverSeeds& o = *p.over_seeds;
    const Interval& step = o.step.interval;
    table.add_row({p.strategy, std::to_string(p.gpus), std::to_string(o.seeds),
                   seconds_text(o.step.mean), seconds_interval_text(step.low, step.high),
                   o.staleness ? fmt::format("{:.2f}", o.staleness->mean) : "-",
                   o.staleness ? fmt::format("{:.2f} .. {:.2f}", o.staleness->interval.low,
                                             o.staleness->interval.high)
                               : "-"});
  }
  return table;
}

namespace {

// What a mean step has of it, by steps of the worker's own.
double own_step(double seconds, const RankTimes& rank) {
  return rank.steps > 0 ? seconds / rank.steps : seconds;
}

}  // namespace

Table stragglers_table(const ResultRecord& record) {
  Table table({{"strategy", Align::left},
               {"GPUs"},
               {"without"},
               {"longer by"},
               {"share"},
               {"cost"},
               {"slowest", Align::right, true},
               {"own"},
               {"waits"},
               {"fastest"},
               {"own"},
               {"waits"}});
  for (const auto& p : record.predictions) {
    if (!p.stragglers || p.stragglers->ranks.empty()) continue;
    const StragglerCost& cost = *p.stragglers;
    const auto [fastest, slowest] = std::minmax_element(
        cost.ranks.begin(), cost.ranks.end(), [](const RankTimes& a, const RankTimes& b) {
          return own_step(a.own, a) < own_step(b.own, b);
        });
    std::vector<std::string> cells{
        p.strategy,
        std::to_string(p.gpus),
        seconds_text(cost.step_without),
        seconds_or_dash(cost.step_more),
        percent(cost.step_more / cost.step_without),
        nothing(cost.dollars_more) ? "-" : dollars_text(cost.dollars_more)};
    for (const auto& one : {slowest, fastest}) {
      cells.push_back(fmt::format("rank {}", one->rank));
      cells.push_back(seconds_or_dash(own_step(one->own, *one)));
      cells.push_back(seconds_or_dash(own_step(one->waiting, *one)));
    }
    table.add_row(std::move(cells));
  }
  return table;
}

Table energy_table(const ResultRecord& record) {
  const bool carbon =
      std::any_of(record.predictions.begin(), record.predictions.end(),
                  [](const Prediction& p) { return p.energy && p.energy->carbon_kilograms; });
  std::vector<Table::Column> columns{{"strategy", Align::left}, {"GPUs"}, {"busy"}, {"always"}};
  if (carbon) columns.insert(columns.end(), {{"CO2, busy"}, {"always"}});
  Table table(columns);
  for (const auto& p : record.predictions) {
    if (!p.energy) continue;
    const Interval& energy = p.energy->kilowatt_hours;
    std::vector<std::string> row{p.strategy, std::to_string(p.gpus), energy_text(energy.low),
                                 energy_text(energy.high)};
    if (const auto& co2 = p.energy->carbon_kilograms) {
      row.push_back(carbon_text(co2->low));
      row.push_back(carbon_text(co2->high));
    }
    table.add_row(std::move(row));
  }
  return table;
}

Table failures_table(const ResultRecord& record) {
  Table table({{"strategy", Align::left},
               {"GPUs"},
               {"failures"},
               {"interruptions"},
               {"every"},
               {"finish", Align::right, true},
               {"90 % interval"},
               {"goodput"},
               {"available"},
               {"cost"}});
  for (const auto& p : record.predictions) {
    if (!p.with_failures) continue;
    const RunWithFailures& r = *p.with_failures;
    table.add_row({p.strategy, std::to_string(p.gpus), fmt::format("{:.1f}", r.failures),
                   fmt::format("{:.1f}", r.interruptions),
                   seconds_or_dash(r.seconds_between_interruptions),
                   r.unfinished > 0 ? fmt::format("not in {} of {}", r.unfinished, r.runs)
                                    : seconds_text(r.finish_seconds),
                   seconds_interval_text(r.finish_interval.low, r.finish_interval.high),
                   r.goodput > 0 ? percent(r.goodput) : "-", percent(r.availability),
                   dollars_or_dash(r.dollars)});
  }
  return table;
}

Table run_split_table(const ResultRecord& record) {
  Table table({{"strategy", Align::left},
               {"GPUs"},
               {"training"},
               {"lost"},
               {"checkpoints"},
               {"down"},
               {"waiting"},
               {"nodes", Align::right, true},
               {"one checkpoint"},
               {"takes"},
               {"every"}});
  for (const auto& p : record.predictions) {
    if (!p.with_failures) continue;
    const RunWithFailures& r = *p.with_failures;
    std::vector<std::string> cells{p.strategy, std::to_string(p.gpus)};
    for (const double part : {r.training, r.lost, r.checkpoints, r.down, r.waiting}) {
      cells.push_back(seconds_or_dash(part));
    }
    cells.push_back(fmt::format("{:.1f}", r.mean_nodes));
    cells.push_back(bytes_text(r.checkpoint_bytes));
    cells.push_back(seconds_text(r.checkpoint_seconds));
    cells.push_back(seconds_or_dash(r.checkpoint_period_seconds));
    table.add_row(std::move(cells));
  }
  return table;
}

Table accuracy_table(const ResultRecord& record) {
  Table table({{"strategy", Align::left},
               {"GPUs"},
               {"accuracy"},
               {"90 % interval"},
               {"rate"},
               {"momentum"},
               {"target", Align::right, true},
               {"reached by"},
               {"after"},
               {"90 % interval"},
               {"for"},
               {"90 % interval"}});
  for (const auto& p : record.predictions) {
    if (!p.accuracy) continue;
    const Accuracy& a = *p.accuracy;
    const bool reached = a.target && a.reached > 0;
    const char* bound = a.reached_before > 0 ? "<= " : "";
    const auto within = [&](const std::optional<Interval>& of, std::string (*text)(double)) {
      return of && a.seeds > 1 ? fmt::format("{} .. {}", text(of->low), text(of->high)) : "-";
    };
    table.add_row(
        {p.strategy, std::to_string(p.gpus), percent(a.last), within(a.last_interval, percent),
         fmt::format("{:.3g}", a.learning_rate), fmt::format("{:.3g}", a.momentum),
         a.target ? percent(*a.target) : "-",
         a.target ? fmt::format("{} of {}", a.reached, a.seeds) : "-",
         reached ? bound + seconds_text(a.seconds_to_target) : "-",
         within(a.seconds_interval, seconds_text),
         reached && a.dollars_to_target > 0 ? bound + dollars_text(a.dollars_to_target) : "-",
         within(a.dollars_interval, dollars_text)});
  }
  return table;
}

namespace {

std::string shares_text(const ProvenanceShare& share) {
  return fmt::format("{:.0f} % measured, {:.0f} % interpolated, {:.0f} % modelled",
                     100 * share.measured, 100 * share.interpolated, 100 * share.modelled);
}

}  // namespace

std::vector<std::string> origins(const ResultRecord& record) {
  std::vector<std::pair<std::string, PointList>> lines;  // shares, points that have them
  for (const auto& p : record.predictions) {
    const std::string shares = shares_text(p.provenance);
    auto line = std::find_if(lines.begin(), lines.end(),
                             [&](const auto& known) { return known.first == shares; });
    if (line == lines.end()) line = lines.insert(line, {shares, {}});
    line->second.add(p.strategy, p.gpus);
  }
  if (lines.size() == 1) return {fmt::format("Costs: {}.", lines.front().first)};
  std::vector<std::string> texts;
  for (const auto& [shares, points] : lines) {
    texts.push_back(fmt::format("Costs of {}: {}.", points.text(), shares));
  }
  return texts;
}

namespace {

// "8.03 billion".
std::string count_text(std::int64_t count) {
  const auto number = static_cast<double>(count);
  if (number >= 1e9) return human(number / 1e9, Dimension::none) + " billion";
  if (number >= 1e6) return human(number / 1e6, Dimension::none) + " million";
  return with_separators(fmt::format("{}", count));
}

}  // namespace

std::string missing_price(const ResultRecord& record) {
  bool total = false, fits = false;
  for (const Prediction& p : record.predictions) {
    if (p.dollars > 0) return "";
    total |= p.total_seconds > 0;
    fits |= !p.out_of_memory;
  }
  if (!total) return "No total and no price: the scenario has no `dataset`.";
  return fits ? "No price: give `price_per_gpu_hour`." : "";
}

std::string subject_text(const ResultRecord& record) {
  std::vector<std::string> sizes;
  if (record.parameters)
    sizes.push_back(fmt::format("{} parameters", count_text(*record.parameters)));
  if (record.sequence) {
    sizes.push_back(with_separators(fmt::format("{} tokens a sample", *record.sequence)));
  }
  if (record.image) sizes.push_back(fmt::format("{} images", image_text(*record.image)));
  std::string out = fmt::format("{}{} on {}, {}", record.model,
                                sizes.empty() ? "" : fmt::format(" ({})", fmt::join(sizes, ", ")),
                                record.platform, record.precision);
  if (record.predictions.empty()) return out;
  const auto [least, most] = std::minmax_element(
      record.predictions.begin(), record.predictions.end(),
      [](const auto& a, const auto& b) { return a.global_batch < b.global_batch; });
  out += fmt::format(", global batch {}", least->global_batch);
  if (least->global_batch != most->global_batch) {
    out += fmt::format(" to {}", most->global_batch);
  }
  return out;
}

}  // namespace lockstep
