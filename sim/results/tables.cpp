// The tables of a record, one function each. An optional column appears only if some point has a
// value for it. Most tables are a list of columns, each with a function that makes its cell
// (point_table()).
#include "results/tables.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "results/cells.hpp"
#include "results/sentences.hpp"
#include "results/staleness.hpp"
#include "results/step_parts.hpp"

namespace lockstep {

namespace {

using Align = Table::Align;

// Whether a value counts as zero: no dataset, no price, no such part of the step, or rounding
// noise.
bool nothing(double value) {
  return std::abs(value) < 1e-12;
}

std::string seconds_or_dash(double value) {
  return nothing(value) ? "-" : seconds_text(value);
}

// A warning that time and price of this row cannot be compared with other rows; "" = none.
std::string caveat(const Prediction& p) {
  std::string text = p.out_of_memory ? "does not fit" : "";
  const std::string uneven = p.worker_steps ? uneven_workers(*p.worker_steps) : "";
  if (!text.empty() && !uneven.empty()) text += "; ";
  return text + uneven;
}

// Columns, each with a function that makes its cell from a row's value.
template <class Value>
using Columns = std::vector<std::pair<Table::Column, std::function<std::string(const Value&)>>>;

// A table with a row for each point: its name, then the columns of value_of(point), which is a
// pointer or an optional. A point without a value has no row.
template <class Value, class ValueOf>
Table point_table(const ResultRecord& record, ValueOf value_of, const Columns<Value>& columns) {
  std::vector<Table::Column> heads{{"strategy", Align::left}, {"GPUs"}};
  for (const auto& [column, cell] : columns) heads.push_back(column);
  Table table(heads);
  for (const Prediction& p : record.predictions) {
    const auto& value = std::invoke(value_of, p);
    if (!value) continue;
    std::vector<std::string> cells{p.strategy, std::to_string(p.gpus)};
    for (const auto& [column, cell] : columns) cells.push_back(cell(*value));
    table.add_row(std::move(cells));
  }
  return table;
}

// `value_of` for tables whose rows show the whole prediction.
const Prediction* whole_point(const Prediction& p) {
  return &p;
}

// Whether some point has a property. Often this decides whether a column is shown.
bool any_point(const ResultRecord& record, auto has) {
  return std::any_of(record.predictions.begin(), record.predictions.end(), has);
}

// An interval of seconds, such as "88.2 .. 154 ms".
std::string interval_text(const Interval& interval) {
  return seconds_interval_text(interval.low, interval.high);
}

}  // namespace

namespace {

// The summary. `scaling` and `memory` say whether these columns are shown. Columns for mesh,
// precision, median, cost and remarks appear only if some point needs them.
Table summary(const ResultRecord& record, bool scaling, bool memory) {
  using Column = std::pair<Table::Column, std::function<std::string(const Prediction&)>>;
  // Models with tokens have rates in tokens, others in samples.
  const bool tokens = any_point(record, [](const auto& p) { return p.tokens_per_second > 0; });
  // Throughput in the unit of the model.
  const auto rate = [tokens](const Prediction& p) {
    return tokens ? p.tokens_per_second : p.samples_per_second;
  };
  // Memory left on the device; "-" if unknown or if the job does not fit.
  const auto free_text = [](const Prediction& p) {
    return p.memory.capacity > 0 && !p.out_of_memory ? bytes_text(free_bytes(p.memory)) : "-";
  };
  const Column precision{{"precision", Align::left}, [](const auto& p) { return p.precision; }};
  const Column median{{"median"},
                      [](const auto& p) { return seconds_text(p.median_step_seconds); }};
  const Column cost{{"cost"}, [](const auto& p) { return dollars_or_dash(p.dollars); }};
  const Column scaled{{"scaling"}, [](const auto& p) { return percent(p.scaling_efficiency); }};
  Columns<Prediction> columns;
  const auto add = [&](bool shows, const Column& column) {
    if (shows) columns.push_back(column);
  };
  add(any_point(record, [](const auto& p) { return p.mesh.has_value(); }),
      {{"mesh", Align::left}, [](const auto& p) { return p.mesh ? mesh_text(*p.mesh) : "-"; }});
  add(any_point(record, [&](const auto& p) { return p.precision != record.precision; }), precision);
  // Some columns are in every summary; the other columns appear only if some point needs them.
  add(true, {{"step"}, [](const auto& p) { return seconds_text(p.step_seconds); }});
  add(any_point(record,
                [](const auto& p) {
                  return std::abs(p.median_step_seconds - p.step_seconds) > 1e-3 * p.step_seconds;
                }),
      median);
  add(true, {{"90 % interval"}, [](const auto& p) { return interval_text(p.step_interval); }});
  add(true, {{"total"}, [](const auto& p) { return seconds_or_dash(p.total_seconds); }});
  add(any_point(record, [](const auto& p) { return p.dollars > 0; }), cost);
  add(true,
      {{tokens ? "tokens/s" : "samples/s"}, [&](const auto& p) { return rate_text(rate(p)); }});
  add(true, {{tokens ? "tokens/s/GPU" : "samples/s/GPU", Align::right, true},
             [&](const auto& p) { return rate_text(rate(p) / p.gpus); }});
  add(true, {{"TFLOP/s/GPU"}, [](const auto& p) { return rate_text(1e-12 * p.flops_per_second); }});
  add(true, {{"free"}, free_text});
  add(scaling, scaled);
  add(true, {{"GPU busy"}, [](const auto& p) { return percent(p.gpu_utilisation); }});
  add(true, {{"MFU"}, [](const auto& p) { return percent(p.mfu); }});
  add(memory, {{"memory"}, [](const auto& p) { return bytes_text(p.memory.device); }});
  add(any_point(record, [](const auto& p) { return !caveat(p).empty(); }),
      {{"but", Align::left}, caveat});
  return point_table(record, whole_point, columns);
}

}  // namespace

Table summary_table(const ResultRecord& record) {
  return summary(record, true, false);
}

Table alternatives_table(const ResultRecord& joined) {
  // The scaling column says nothing if every alternative has only one GPU count.
  const bool scales =
      any_point(joined, [](const auto& p) { return percent(p.scaling_efficiency) != percent(1); });
  return summary(joined, scales, true);
}

std::string mesh_text(const MeshRecord& mesh) {
  std::string text;
  for (const auto& [name, degree] : {std::pair{"dp", mesh.data},
                                     {"cp", mesh.context},
                                     {"tp", mesh.tensor},
                                     {"pp", mesh.pipeline},
                                     {"ep", mesh.expert}}) {
    if (degree > 1) text += fmt::format("{}{}{}", text.empty() ? "" : " ", name, degree);
  }
  return text.empty() ? "-" : text;
}

Table stages_table(const ResultRecord& record) {
  Table table({{"strategy", Align::left},
               {"GPUs"},
               {"stage"},
               {"compute"},
               {"exposed comm"},
               {"bubble"},
               {"allocated"},
               {"device"},
               {"layers", Align::left}});
  for (const Prediction& p : record.predictions) {
    for (const StageRecord& stage : p.stages) {
      // The point is named only in the row of its first stage.
      const bool first = stage.stage == 0;
      table.add_row(
          {first ? p.strategy : "", first ? std::to_string(p.gpus) : "",
           std::to_string(stage.stage), seconds_text(stage.split.forward + stage.split.backward),
           seconds_or_dash(stage.split.exposed_communication), seconds_or_dash(stage.split.bubble),
           bytes_text(stage.memory.allocated), bytes_text(stage.memory.device),
           fmt::format("{}", fmt::join(stage.layers, ", "))});
    }
  }
  return table;
}

Table split_table(const ResultRecord& record) {
  // Columns are only the parts that are not zero in some point.
  Columns<Prediction> columns;
  bool divided = false;
  for (const StepPart& part : named_parts) {
    const auto seconds = part.seconds;
    if (!any_point(record, [&](const auto& p) { return !nothing(p.split.*seconds); })) continue;
    // Parts that every training has come first, then parts of training on several GPUs.
    const bool begins = !divided && !columns.empty() &&
                        (seconds == &StepSplit::copies || part.kind == PartKind::idle);
    divided |= begins;
    columns.push_back({{part.heading, Align::right, begins},
                       [seconds](const auto& p) { return seconds_or_dash(p.split.*seconds); }});
  }
  return point_table(record, whole_point, columns);
}

Table exposed_table(const ResultRecord& record) {
  const auto of_mesh = [](const Prediction& p) { return p.mesh ? &p : nullptr; };
  Columns<Prediction> columns;
  for (const AxisPart& axis : named_axes) {
    const auto seconds = axis.seconds;
    if (!any_point(record,
                   [&](const auto& p) { return p.mesh && !nothing(p.split.exposed.*seconds); })) {
      continue;
    }
    columns.push_back({{axis.name}, [seconds](const auto& p) {
                         return seconds_or_dash(p.split.exposed.*seconds);
                       }});
  }
  return columns.empty() ? Table({}) : point_table(record, of_mesh, columns);
}

std::string shortfall_text(const OutOfMemory& lacks) {
  std::vector<std::string> parts;
  if (lacks.shortfall > 0) parts.push_back(bytes_text(lacks.shortfall));
  if (lacks.host_shortfall > 0)
    parts.push_back(bytes_text(lacks.host_shortfall) + " of host memory");
  if (lacks.nvme_shortfall > 0) parts.push_back(bytes_text(lacks.nvme_shortfall) + " of NVMe");
  return fmt::format("{}", fmt::join(parts, " and "));
}

std::string fits_text(const Prediction& p) {
  if (p.out_of_memory) return fmt::format("NO, {} short", shortfall_text(*p.out_of_memory));
  const double free = p.memory.capacity - p.memory.device;
  constexpr double certainty = 0.02;  // largest error of measured peaks, as a share of the capacity
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
  Columns<Prediction> columns{
      {{"allocated"}, [](const auto& p) { return bytes_text(p.memory.allocated); }},
      {{"reserved"}, [](const auto& p) { return bytes_text(p.memory.reserved); }},
      {{"device"}, [](const auto& p) { return bytes_text(p.memory.device); }}};
  if (any_point(record, [](const auto& p) { return p.memory.host > 0; })) {
    columns.push_back({{"host of a node"}, [](const auto& p) {
                         return p.memory.host > 0 ? bytes_text(p.memory.host) : "-";
                       }});
  }
  if (any_point(record, [](const auto& p) { return p.memory.nvme > 0; })) {
    columns.push_back({{"NVMe of a node"}, [](const auto& p) {
                         return p.memory.nvme > 0 ? bytes_text(p.memory.nvme) : "-";
                       }});
  }
  columns.push_back({{"fits", Align::left}, fits_text});
  columns.push_back({{"peak at", Align::left}, [](const auto& p) { return p.memory.moment; }});
  return point_table(record, whole_point, columns);
}

Table traffic_table(const ResultRecord& record) {
  Table table({{"strategy", Align::left},
               {"GPUs"},
               {"links", Align::left},
               {"busiest link"},
               {"all links"},
               {"busy"}});
  for (const auto& p : record.predictions) {
    // Classes of links with equal traffic share one row: for example, PCIe traffic also passes the
    // host's memory.
    std::vector<std::pair<std::string, std::vector<std::string>>> rows;  // link classes, cells
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
  Columns<Staleness> columns;
  constexpr std::array titles{"mean", "median", "99 %", "max"};
  for (std::size_t i = 0; i < titles.size(); ++i) {
    columns.push_back({{titles[i]}, [i](const auto& s) { return staleness_cells(s)[i]; }});
  }
  return point_table(record, &Prediction::staleness, columns);
}

Table staleness_bars(const ResultRecord& record) {
  // A histogram with a wider range than this is drawn with several values per bar.
  constexpr std::int64_t most_bars = 12;
  constexpr double longest = 32;  // characters of the longest bar
  Table table({{"strategy", Align::left}, {"GPUs"}, {"stale by"}, {"share"}, {"", Align::left}});
  for (const auto& p : record.predictions) {
    if (!p.staleness || p.staleness->histogram.size() < 2) continue;
    const auto& histogram = p.staleness->histogram;
    const std::int64_t first = histogram.begin()->first, last = histogram.rbegin()->first;
    // Values per bar.
    const std::int64_t width = (last - first) / most_bars + 1;
    // Pushes per bar; a bar stands for `width` neighbouring values.
    std::map<std::int64_t, double> bars;
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
  return point_table<Prediction>(
      record, [](const Prediction& p) { return p.worker_steps ? &p : nullptr; },
      {{{"even"}, [](const auto& p) { return percent(1.0 / p.gpus); }},
       {{"least"}, [](const auto& p) { return percent(p.worker_steps->least); }},
       {{"most"}, [](const auto& p) { return percent(p.worker_steps->most); }}});
}

Table seeds_table(const ResultRecord& record) {
  const auto staleness_interval = [](const OverSeeds& o) -> std::string {
    if (!o.staleness) return "-";
    const Interval& interval = o.staleness->interval;
    return fmt::format("{:.2f} .. {:.2f}", interval.low, interval.high);
  };
  return point_table<OverSeeds>(
      record, &Prediction::over_seeds,
      {{{"seeds"}, [](const auto& o) { return std::to_string(o.seeds); }},
       {{"step"}, [](const auto& o) { return seconds_text(o.step.mean); }},
       {{"90 % interval"}, [](const auto& o) { return interval_text(o.step.interval); }},
       {{"staleness"},
        [](const auto& o) { return o.staleness ? fmt::format("{:.2f}", o.staleness->mean) : "-"; }},
       {{"90 % interval"}, staleness_interval}});
}

namespace {

// Seconds per step of the worker itself, computed from its seconds per mean step, because fast
// workers make several steps during a mean step.
double own_step(double seconds, const RankTimes& rank) {
  return rank.steps > 0 ? seconds / rank.steps : seconds;
}

// The rank with the most or the least work of its own per step.
const RankTimes& extreme_rank(const StragglerCost& cost, bool is_slowest) {
  const auto [fastest, slowest] = std::minmax_element(
      cost.ranks.begin(), cost.ranks.end(),
      [](const auto& a, const auto& b) { return own_step(a.own, a) < own_step(b.own, b); });
  return is_slowest ? *slowest : *fastest;
}

}  // namespace

Table stragglers_table(const ResultRecord& record) {
  Columns<StragglerCost> columns{
      {{"without"}, [](const auto& c) { return seconds_text(c.step_without); }},
      {{"longer by"}, [](const auto& c) { return seconds_or_dash(c.step_more); }},
      {{"share"}, [](const auto& c) { return percent(c.step_more / c.step_without); }},
      {{"cost"},
       [](const auto& c) { return nothing(c.dollars_more) ? "-" : dollars_text(c.dollars_more); }}};
  // Three columns for the slowest rank and three for the fastest: its number, its own work, its
  // waiting.
  for (const bool is_slowest : {true, false}) {
    columns.push_back({{is_slowest ? "slowest" : "fastest", Align::right, is_slowest},
                       [is_slowest](const auto& c) {
                         return fmt::format("rank {}", extreme_rank(c, is_slowest).rank);
                       }});
    for (const auto& [title, seconds] :
         {std::pair{"own", &RankTimes::own}, {"waits", &RankTimes::waiting}}) {
      columns.push_back({{title}, [is_slowest, part = seconds](const auto& c) {
                           const RankTimes& rank = extreme_rank(c, is_slowest);
                           return seconds_or_dash(own_step(rank.*part, rank));
                         }});
    }
  }
  const auto with_ranks = [](const Prediction& p) {
    return p.stragglers && !p.stragglers->ranks.empty() ? &*p.stragglers : nullptr;
  };
  return point_table(record, with_ranks, columns);
}

Table energy_table(const ResultRecord& record) {
  Columns<Energy> columns{
      {{"busy"}, [](const auto& e) { return energy_text(e.kilowatt_hours.low); }},
      {{"always"}, [](const auto& e) { return energy_text(e.kilowatt_hours.high); }}};
  const auto carbon = [](const Energy& energy, double Interval::*end) {
    return energy.carbon_kilograms ? carbon_text((*energy.carbon_kilograms).*end) : "-";
  };
  if (any_point(record, [](const auto& p) { return p.energy && p.energy->carbon_kilograms; })) {
    columns.push_back({{"CO2, busy"}, [=](const auto& e) { return carbon(e, &Interval::low); }});
    columns.push_back({{"always"}, [=](const auto& e) { return carbon(e, &Interval::high); }});
  }
  return point_table(record, &Prediction::energy, columns);
}

Table failures_table(const ResultRecord& record) {
  // Time of the whole run, or the number of runs that did not end.
  const auto finish = [](const RunWithFailures& r) {
    return r.unfinished > 0 ? fmt::format("not in {} of {}", r.unfinished, r.runs)
                            : seconds_text(r.finish_seconds);
  };
  return point_table<RunWithFailures>(
      record, &Prediction::with_failures,
      {{{"failures"}, [](const auto& r) { return fmt::format("{:.1f}", r.failures); }},
       {{"interruptions"}, [](const auto& r) { return fmt::format("{:.1f}", r.interruptions); }},
       {{"every"}, [](const auto& r) { return seconds_or_dash(r.seconds_between_interruptions); }},
       {{"finish", Align::right, true}, finish},
       {{"90 % interval"}, [](const auto& r) { return interval_text(r.finish_interval); }},
       {{"goodput"}, [](const auto& r) { return r.goodput > 0 ? percent(r.goodput) : "-"; }},
       {{"available"}, [](const auto& r) { return percent(r.availability); }},
       {{"cost"}, [](const auto& r) { return dollars_or_dash(r.dollars); }}});
}

Table run_split_table(const ResultRecord& record) {
  Columns<RunWithFailures> columns{
      {{"training"}, [](const auto& r) { return seconds_or_dash(r.training); }},
      {{"lost"}, [](const auto& r) { return seconds_or_dash(r.lost); }},
      {{"checkpoints"}, [](const auto& r) { return seconds_or_dash(r.checkpoints); }},
      {{"down"}, [](const auto& r) { return seconds_or_dash(r.down); }},
      {{"waiting"}, [](const auto& r) { return seconds_or_dash(r.waiting); }},
      {{"nodes", Align::right, true},
       [](const auto& r) { return fmt::format("{:.1f}", r.mean_nodes); }},
      {{"one checkpoint"}, [](const auto& r) { return bytes_text(r.checkpoint_bytes); }},
      {{"takes"}, [](const auto& r) { return seconds_text(r.checkpoint_seconds); }},
      {{"every"}, [](const auto& r) { return seconds_or_dash(r.checkpoint_period_seconds); }}};
  // Columns of staged checkpoints, copies in memory and evictions, if any point has them.
  const auto add = [&](auto shows, const auto& column) {
    const bool any = any_point(
        record, [&](const Prediction& p) { return p.with_failures && shows(*p.with_failures); });
    if (any) columns.push_back(column);
  };
  using Column = Columns<RunWithFailures>::value_type;
  add([](const auto& r) { return r.checkpoint_stall_seconds != r.checkpoint_seconds; },
      Column{{"stall"}, [](const auto& r) { return seconds_text(r.checkpoint_stall_seconds); }});
  const auto copies = [](const auto& r) { return r.memory_period_seconds > 0; };
  add(copies, Column{{"copied every"},
                     [](const auto& r) { return seconds_or_dash(r.memory_period_seconds); }});
  add(copies, Column{{"restarts from memory"},
                     [](const auto& r) { return fmt::format("{:.1f}", r.memory_restarts); }});
  add([](const auto& r) { return r.evictions > 0; },
      Column{{"evicted"}, [](const auto& r) { return fmt::format("{:.1f}", r.evictions); }});
  return point_table(record, &Prediction::with_failures, columns);
}

namespace {

// The interval over seeds as text; "-" with a single seed.
std::string seeds_interval(const Accuracy& accuracy, const std::optional<Interval>& interval,
                           std::string (*text)(double)) {
  return interval && accuracy.seeds > 1
             ? fmt::format("{} .. {}", text(interval->low), text(interval->high))
             : "-";
}

// Seconds or dollars until the target, with "<=" if a seed reached it by its first evaluation, so
// that the number is an upper bound.
std::string to_target(const Accuracy& accuracy, double value, std::string (*text)(double)) {
  if (!accuracy.target || accuracy.reached == 0) return "-";
  const std::string spent = text(value);
  return accuracy.reached_before > 0 && spent != "-" ? "<= " + spent : spent;
}

}  // namespace

Table accuracy_table(const ResultRecord& record) {
  return point_table<Accuracy>(
      record, &Prediction::accuracy,
      {{{"accuracy"}, [](const auto& a) { return percent(a.last); }},
       {{"90 % interval"},
        [](const auto& a) { return seeds_interval(a, a.last_interval, percent); }},
       {{"rate"}, [](const auto& a) { return fmt::format("{:.3g}", a.learning_rate); }},
       {{"momentum"}, [](const auto& a) { return fmt::format("{:.3g}", a.momentum); }},
       {{"target", Align::right, true},
        [](const auto& a) { return a.target ? percent(*a.target) : "-"; }},
       {{"reached by"},
        [](const auto& a) { return a.target ? fmt::format("{} of {}", a.reached, a.seeds) : "-"; }},
       {{"after"}, [](const auto& a) { return to_target(a, a.seconds_to_target, seconds_text); }},
       {{"90 % interval"},
        [](const auto& a) { return seeds_interval(a, a.seconds_interval, seconds_text); }},
       {{"for"}, [](const auto& a) { return to_target(a, a.dollars_to_target, dollars_or_dash); }},
       {{"90 % interval"},
        [](const auto& a) { return seeds_interval(a, a.dollars_interval, dollars_text); }}});
}

namespace {

// The shares of measured, interpolated and modelled costs in percent.
std::string shares_text(const ProvenanceShare& share) {
  return fmt::format("{:.0f} % measured, {:.0f} % interpolated, {:.0f} % modelled",
                     100 * share.measured, 100 * share.interpolated, 100 * share.modelled);
}

}  // namespace

std::vector<std::string> origins(const ResultRecord& record) {
  // Points with equal shares get one line.
  std::vector<std::pair<std::string, PointList>> lines;
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

// A large number in words, such as "8.03 billion".
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
    sizes.push_back(fmt::format("{} trained parameters", count_text(*record.parameters)));
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
