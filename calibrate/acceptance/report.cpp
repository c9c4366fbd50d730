// Writes the report of an acceptance as Markdown and as JSON. An error is predicted / real - 1. A
// bar is the largest allowed median of the absolute errors over runs that were not calibrated.
#include "acceptance/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/statistics.hpp"
#include "core/units.hpp"
#include "imports/profile_folder.hpp"
#include "results/table.hpp"

namespace lockstep {

namespace {

using Align = Table::Align;
using Text = std::vector<std::string>;

// A quantity that is compared. The median error of runs that were not calibrated must not exceed
// `bar`.
struct Compared {
  const char* name;
  const char* key;  // key in the JSON
  double bar;
  Dimension unit;
  double (*real)(const RealRun&);
  double (*predicted)(const Prediction&);
};
const std::array<Compared, 3> compared{
    {{"step", "step_seconds", 0.05, Dimension::seconds,
      [](const RealRun& run) { return run.step_seconds; }, step_beside},
     {"allocated", "allocated_bytes", 0.02, Dimension::bytes,
      [](const RealRun& run) { return run.memory.allocated; },
      [](const Prediction& p) { return p.memory.allocated; }},
     {"reserved", "reserved_bytes", 0.05, Dimension::bytes,
      [](const RealRun& run) { return run.memory.reserved; },
      [](const Prediction& p) { return p.memory.reserved; }}}};
const Compared& step = compared[0];

struct Pair {
  const Unit* unit;
  const RealRun* real;
  const Prediction* predicted;  // null if there is none

  // The relative error. Nothing if the quantity was not measured or predicted; for example, a CPU
  // has no reserved memory.
  std::optional<double> error(const Compared& what) const {
    if (predicted == nullptr || !(what.real(*real) > 0)) return std::nullopt;
    return what.predicted(*predicted) / what.real(*real) - 1;
  }
};

// The real runs with their predictions, ordered by purpose and then as in the plan.
std::vector<Pair> pairs_of(const Findings& findings) {
  std::vector<Pair> pairs;
  for (const Unit& unit : findings.plan) {
    const auto real = findings.real.find(unit.name);
    if (real == findings.real.end()) continue;
    const auto predicted = findings.predicted.made.find(unit.name);
    pairs.push_back({&unit, &real->second,
                     predicted == findings.predicted.made.end() ? nullptr : &predicted->second});
  }
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Pair& a, const Pair& b) { return a.unit->purpose < b.unit->purpose; });
  return pairs;
}

bool judged(Purpose purpose) {
  return purpose != Purpose::calibrated && purpose != Purpose::ranks;
}

// Absolute errors of the runs whose purpose `chosen` accepts.
std::vector<double> errors_of(const Compared& what, const std::vector<Pair>& pairs,
                              const std::function<bool(Purpose)>& chosen) {
  std::vector<double> errors;
  for (const Pair& pair : pairs) {
    const auto error = pair.error(what);
    if (error && chosen(pair.unit->purpose)) errors.push_back(std::abs(*error));
  }
  return errors;
}

std::string percent(std::optional<double> value) {
  return value ? fmt::format("{:+.1f} %", 100 * *value) : "-";
}
std::string median_percent(const std::vector<double>& errors) {
  return errors.empty() ? "-" : fmt::format("{:.1f} %", 100 * median(errors));
}
std::string figure(double value, Dimension unit) {
  return value > 0 ? human(value, unit, 4) : "-";
}
std::string predicted_step(const Pair& pair) {
  return pair.predicted ? figure(step.predicted(*pair.predicted), step.unit) : "-";
}

std::string origin(const Prediction* predicted) {
  if (predicted == nullptr) return "no prediction";
  const ProvenanceShare& share = predicted->provenance;
  Text parts;
  for (const auto& [part, name] : {std::pair{share.measured, "measured"},
                                   {share.interpolated, "interpolated"},
                                   {share.modelled, "modelled"}}) {
    if (part >= 0.005) parts.push_back(fmt::format("{:.0f} % {}", 100 * part, name));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string steps_section(const std::vector<Pair>& pairs) {
  Table table({{"batch", Align::left},
               {"model", Align::left},
               {"precision", Align::left},
               {"samples"},
               {"real step"},
               {"predicted"},
               {"error"},
               {"real allocated"},
               {"error"},
               {"real reserved"},
               {"error"},
               {"predicted from", Align::left}});
  for (const Pair& pair : pairs) {
    const Unit& unit = *pair.unit;
    if (unit.purpose == Purpose::ranks) continue;
    Text row{enum_name(unit.purpose), unit.model, enum_name(unit.precision),
             std::to_string(unit.batches.front())};
    for (const Compared& what : compared) {
      row.push_back(figure(what.real(*pair.real), what.unit));
      if (&what == &step) row.push_back(predicted_step(pair));
      row.push_back(percent(pair.error(what)));
    }
    row.push_back(origin(pair.predicted));
    table.add_row(row);
  }
  return "## One rank: step time and peak memory\n\n"
         "The batch was calibrated, is between two that were or beyond them; other: the model was "
         "not calibrated.\n\n" +
         table.markdown() + "\n";
}

std::size_t planned_runs(const Findings& findings) {
  return static_cast<std::size_t>(
      std::count_if(findings.plan.begin(), findings.plan.end(),
                    [](const Unit& unit) { return unit.trains() && judged(unit.purpose); }));
}

std::string bars_section(const Findings& findings, const std::vector<Pair>& pairs) {
  Table table({{"figure", Align::left},
               {"calibrated"},
               {"between"},
               {"beyond"},
               {"other"},
               {"all but calibrated"},
               {"bar"},
               {"", Align::left},
               {"of how many"}});
  for (const Compared& what : compared) {
    Text row{what.name};
    for (const Purpose of :
         {Purpose::calibrated, Purpose::between, Purpose::beyond, Purpose::other}) {
      row.push_back(median_percent(errors_of(what, pairs, [&](Purpose p) { return p == of; })));
    }
    const std::vector<double> errors = errors_of(what, pairs, judged);
    row.push_back(median_percent(errors));
    row.push_back(fmt::format("{:.0f} %", 100 * what.bar));
    row.push_back(errors.empty()               ? "not measured"
                  : median(errors) <= what.bar ? "reached"
                                               : "**missed**");
    row.push_back(fmt::format("{} of {}", errors.size(), planned_runs(findings)));
    table.add_row(row);
  }
  return "### Median size of the errors, and bars\n\n" + table.markdown() + "\n";
}

std::string ranks_section(const std::vector<Pair>& pairs) {
  Table table({{"strategy", Align::left},
               {"model", Align::left},
               {"ranks"},
               {"real step"},
               {"5 % to 95 %"},
               {"predicted"},
               {"error"},
               {"mean staleness"},
               {"predicted"},
               {"last loss"}});
  const auto staleness = [](const auto& run) {
    return run.staleness ? fmt::format("{:.2f}", run.staleness->mean) : "-";
  };
  for (const Pair& pair : pairs) {
    if (pair.unit->purpose != Purpose::ranks) continue;
    const RealRun& real = *pair.real;
    table.add_row({pair.unit->strategy, pair.unit->model, std::to_string(pair.unit->ranks),
                   figure(real.step_seconds, step.unit),
                   figure(real.step_interval.low, step.unit) + " to " +
                       figure(real.step_interval.high, step.unit),
                   predicted_step(pair), percent(pair.error(step)), staleness(real),
                   pair.predicted ? staleness(*pair.predicted) : "-",
                   real.losses.empty() ? "-" : fmt::format("{:.4f}", real.losses.back())});
  }
  if (table.empty()) return "";
  return "## Several ranks on this machine, over Gloo\n\n" + table.markdown() + "\n";
}

// A text as code at the end of a Markdown line.
std::string as_code(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  if (text.empty()) return "";
  std::replace(text.begin(), text.end(), '`', '\'');
  std::replace(text.begin(), text.end(), '\n', ' ');
  return fmt::format(": `{}`", text.substr(0, 200));
}

// Units of the plan that failed, have no prediction, or did not run.
struct Missing {
  Text failed, unpredicted, left;
};
Missing missing_of(const Findings& findings) {
  Missing missing;
  for (const Unit& unit : findings.plan) {
    const bool predictable = unit.trains() && (unit.ranks == 1 || !findings.on_gpu);
    if (findings.progress.is(unit.name, UnitState::failed)) {
      missing.failed.push_back(unit.name);
    } else if (!findings.progress.is(unit.name, UnitState::done)) {
      missing.left.push_back(unit.name);
    } else if (predictable && !findings.predicted.made.count(unit.name)) {
      missing.unpredicted.push_back(unit.name);
    }
  }
  return missing;
}

std::string missing_section(const Findings& findings) {
  const Missing missing = missing_of(findings);
  std::string text;
  const auto add = [&](const char* what, const Text& names,
                       const std::map<std::string, std::string>& reasons) {
    for (const std::string& name : names) {
      const auto reason = reasons.find(name);
      text += fmt::format("- {}: {}{}\n", what, name,
                          reason == reasons.end() ? "" : as_code(reason->second));
    }
  };
  add("Failed", missing.failed, findings.logs);
  add("Without a prediction", missing.unpredicted, findings.predicted.refused);
  if (!missing.left.empty()) {
    Text names = missing.left;
    for (std::string& name : names) {
      if (findings.progress.is(name, UnitState::cut)) name += " (cut off)";
    }
    text += fmt::format("- Not run yet, {} of {}: {}.\n", names.size(), findings.plan.size(),
                        fmt::join(names, ", "));
  }
  return "## What did not run\n\n" + (text.empty() ? "Everything ran.\n" : text);
}

std::string settings_section(const Profile& profile) {
  if (profile.device.empty()) return "No profile was written.\n\n";
  std::string text = "The measured machine, from the profile:\n\n```yaml\n";
  for (const char* key : {"device", "date", "versions", "settings", "noise", "host", "allocator"}) {
    text += profile_section(profile, key);
  }
  return text + "```\n\n";
}

}  // namespace

std::string acceptance_report(const Findings& findings) {
  const std::vector<Pair> pairs = pairs_of(findings);
  const std::string device =
      findings.profile.device.empty() ? "an unknown device" : findings.profile.device;
  return fmt::format("# Acceptance on {}\n\n{}.\n\n", device, findings.progress.machine) +
         settings_section(findings.profile) + steps_section(pairs) + bars_section(findings, pairs) +
         ranks_section(pairs) + missing_section(findings);
}

std::string acceptance_json(const Findings& findings) {
  using nlohmann::ordered_json;
  const std::vector<Pair> pairs = pairs_of(findings);
  ordered_json json{{"device", findings.profile.device}, {"machine", findings.progress.machine}};
  json["bars"] = json["runs"] = ordered_json::array();
  for (const Compared& what : compared) {
    const std::vector<double> errors = errors_of(what, pairs, judged);
    ordered_json bar{{"figure", what.key},
                     {"bar", what.bar},
                     {"runs", errors.size()},
                     {"planned", planned_runs(findings)}};
    if (!errors.empty()) bar["median_error"] = median(errors);
    json["bars"].push_back(bar);
  }
  for (const Pair& pair : pairs) {
    const Unit& unit = *pair.unit;
    ordered_json run{{"unit", unit.name},
                     {"purpose", enum_name(unit.purpose)},
                     {"model", unit.model},
                     {"precision", enum_name(unit.precision)},
                     {"batch", unit.batches.front()},
                     {"ranks", unit.ranks},
                     {"strategy", unit.strategy}};
    for (const Compared& what : compared) {
      if (!(what.real(*pair.real) > 0)) continue;
      run["real"][what.key] = what.real(*pair.real);
      if (pair.predicted) run["predicted"][what.key] = what.predicted(*pair.predicted);
    }
    json["runs"].push_back(run);
  }
  const Missing missing = missing_of(findings);
  json["failed"] = missing.failed;
  json["without_prediction"] = missing.unpredicted;
  json["left"] = missing.left;
  return json.dump(2) + "\n";
}

}  // namespace lockstep
