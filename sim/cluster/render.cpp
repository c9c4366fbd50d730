// Renders the answers of `lockstep cluster` as tables, JSON and CSV. Values in tables are rounded
// for reading; JSON and CSV contain plain seconds, because programs compute with them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cluster/question.hpp"
#include "results/cells.hpp"
#include "results/sentences.hpp"
#include "results/table.hpp"

namespace lockstep {

namespace {

using Align = Table::Align;
using Json = nlohmann::ordered_json;

// Version of the JSON document.
constexpr int cluster_schema_version = 1;

// A duration in a unit that fits its size, for example "3.42 h", because schedules span seconds to
// weeks.
std::string long_text(double seconds) {
  if (seconds < 60) return fmt::format("{:.3g} s", seconds);
  if (seconds < 3600) return fmt::format("{:.1f} min", seconds / 60);
  if (seconds < 2 * 86400) return fmt::format("{:.2f} h", seconds / 3600);
  return fmt::format("{:.2f} d", seconds / 86400);
}

// One row per policy. The column of migrations appears only if some policy moved a job.
std::string policies_table(const ClusterAnswer& answer) {
  std::vector<Table::Column> columns{{"policy", Align::left},
                                     {"waits: mean"},
                                     {"median"},
                                     {"p90"},
                                     {"completion: mean"},
                                     {"median"},
                                     {"p90"},
                                     {"makespan", Align::right, true},
                                     {"in use"},
                                     {"fragmented"},
                                     {"evictions"},
                                     {"resizes"},
                                     {"lost"}};
  const bool moved = std::any_of(answer.outcomes.begin(), answer.outcomes.end(),
                                 [](const PolicyOutcome& o) { return o.migrations > 0; });
  if (moved) columns.push_back({"migrations"});
  Table table(columns);
  for (const PolicyOutcome& o : answer.outcomes) {
    std::vector<std::string> cells{enum_name(o.policy)};
    for (const Spread& spread : {o.queueing, o.completion}) {
      cells.push_back(long_text(spread.mean));
      cells.push_back(long_text(spread.median));
      cells.push_back(long_text(spread.p90));
    }
    cells.push_back(long_text(o.makespan));
    cells.push_back(percent(o.utilisation));
    cells.push_back(percent(o.fragmentation));
    cells.push_back(std::to_string(o.evictions));
    cells.push_back(std::to_string(o.resizes));
    // The table shows one percentage for time without progress; JSON has both parts.
    cells.push_back(percent(o.lost + o.idle));
    if (moved) cells.push_back(std::to_string(o.migrations));
    table.add_row(cells);
  }
  return table.folded(text_width, 1);
}

// For each workload and policy: mean time to completion, and the shares of jobs that complete
// sooner or later than under the first policy.
std::string gains_table(const ClusterAnswer& answer) {
  Table table({{"workload", Align::left},
               {"jobs"},
               {"policy", Align::left},
               {"completion: mean"},
               {"sooner"},
               {"later"}});
  const ClusterQuestion& q = answer.question;
  for (std::size_t k = 0; k < q.kinds.size(); ++k) {
    for (const PolicyOutcome& outcome : answer.outcomes) {
      const Gain gain = gain_of(k, q.jobs, outcome, answer.outcomes.front());
      if (gain.jobs == 0) continue;
      const bool first = &outcome == &answer.outcomes.front();
      table.add_row({first ? q.kinds[k].name : "", first ? std::to_string(gain.jobs) : "",
                     enum_name(outcome.policy), long_text(gain.completion),
                     first ? "" : percent(static_cast<double>(gain.sooner) / gain.jobs),
                     first ? "" : percent(static_cast<double>(gain.later) / gain.jobs)});
    }
  }
  return table.folded(text_width, 1);
}

// The simulated speeds on which the schedules are based. If a policy suspends or moves jobs, the
// table also has the duration of a switch and of a move.
std::string speeds_table(const ClusterAnswer& answer) {
  const ClusterQuestion& q = answer.question;
  std::vector<Table::Column> columns{
      {"workload", Align::left}, {"GPUs"}, {"samples/s"}, {"per GPU"}};
  const bool stops = stops_jobs(q.policies);
  if (stops) columns.insert(columns.end(), {{"switch"}, {"migration"}});
  Table table(columns);
  for (std::size_t k = 0; k < q.kinds.size(); ++k) {
    const JobKind& kind = q.kinds[k];
    for (const auto& [gpus, rate] : kind.rates) {
      const bool first = gpus == kind.rates.begin()->first;
      std::vector<std::string> cells{first ? kind.name : "", std::to_string(gpus), rate_text(rate),
                                     rate_text(rate / gpus)};
      // These durations are members of ClusterJob; all jobs of one kind and size have the same.
      const auto job = std::find_if(q.jobs.begin(), q.jobs.end(), [&](const ClusterJob& asking) {
        return asking.kind == k && asking.gpus == gpus;
      });
      if (stops && job != q.jobs.end()) {
        cells.push_back(long_text(job->switching));
        cells.push_back(long_text(job->migration));
      }
      cells.resize(columns.size());
      table.add_row(cells);
    }
  }
  return table.folded(text_width, 2);
}

Json to_json(const Spread& s) {
  return {{"mean_s", s.mean}, {"median_s", s.median}, {"p90_s", s.p90}};
}

}  // namespace

std::string cluster_text(const ClusterAnswer& answer) {
  const ClusterQuestion& q = answer.question;
  std::string warnings;
  for (const std::string& warning : q.warnings) {
    warnings += (warnings.empty() ? "\n" : "") + wrapped(warning) + "\n";
  }
  return fmt::format(
      "{}\n{}\n\n{}\nWhich jobs gain (against {})\n{}\n"
      "Simulated speeds\n{}{}",
      wrapped(q.name),
      wrapped(fmt::format("{} job{} on {} node{} of {}, {}", q.jobs.size(),
                          q.jobs.size() == 1 ? "" : "s", q.size.nodes, q.size.nodes == 1 ? "" : "s",
                          q.platform, gpus_text(q.size.nodes * q.size.gpus_per_node))),
      policies_table(answer), enum_name(answer.outcomes.front().policy), gains_table(answer),
      speeds_table(answer), warnings);
}

std::string cluster_json(const ClusterAnswer& answer) {
  const ClusterQuestion& q = answer.question;
  Json document{{"schema_version", cluster_schema_version},
                {"name", q.name},
                {"platform", q.platform},
                {"nodes", q.size.nodes},
                {"gpus", q.size.nodes * q.size.gpus_per_node}};
  for (const JobKind& kind : q.kinds) {
    Json speeds = Json::object();
    for (const auto& [gpus, rate] : kind.rates) speeds[std::to_string(gpus)] = rate;
    document["workloads"][kind.name]["samples_per_second"] = speeds;
  }
  // All jobs of one kind and GPU count have the same values, so they may overwrite each other's.
  for (const ClusterJob& job : q.jobs) {
    if (!stops_jobs(q.policies)) break;
    Json& workload = document["workloads"][q.kinds[job.kind].name];
    workload["switch_s"][std::to_string(job.gpus)] = job.switching;
    workload["migration_s"][std::to_string(job.gpus)] = job.migration;
  }
  document["warnings"] = q.warnings;
  for (const PolicyOutcome& o : answer.outcomes) {
    Json policy{{"policy", enum_name(o.policy)},
                {"queueing", to_json(o.queueing)},
                {"completion", to_json(o.completion)},
                {"makespan_s", o.makespan},
                {"utilisation", o.utilisation},
                {"fragmentation", o.fragmentation},
                {"lost", o.lost},
                {"idle", o.idle},
                {"evictions", o.evictions},
                {"resizes", o.resizes},
                {"migrations", o.migrations}};
    for (std::size_t k = 0; k < q.kinds.size(); ++k) {
      const Gain gain = gain_of(k, q.jobs, o, answer.outcomes.front());
      policy["workloads"][q.kinds[k].name] = {{"jobs", gain.jobs},
                                              {"completion_mean_s", gain.completion},
                                              {"sooner", gain.sooner},
                                              {"later", gain.later}};
    }
    document["policies"].push_back(std::move(policy));
  }
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string cluster_csv(const ClusterAnswer& answer) {
  Table table({{"policy"},
               {"job"},
               {"workload"},
               {"gpus"},
               {"submit_s"},
               {"start_s"},
               {"end_s"},
               {"waited_s"},
               {"gpu_s"},
               {"lost_gpu_s"},
               {"idle_gpu_s"},
               {"evictions"},
               {"resizes"},
               {"migrations"}});
  const auto text = [](auto value) { return fmt::format("{}", value); };
  const auto seconds = [](double value) {
    // Rounded to same_moment, because the order of events within it has no meaning.
    return fmt::format("{}", std::round(value * 1e6) / 1e6);
  };
  const ClusterQuestion& q = answer.question;
  for (const PolicyOutcome& o : answer.outcomes) {
    for (std::size_t i = 0; i < q.jobs.size(); ++i) {
      const ClusterJob& job = q.jobs[i];
      const JobRun& run = o.jobs[i];
      table.add_row({enum_name(o.policy), job.name, q.kinds[job.kind].name, text(job.gpus),
                     seconds(job.submit), seconds(run.started), seconds(run.ended),
                     seconds(run.waited), seconds(run.gpu_seconds), seconds(run.lost_gpu_seconds),
                     seconds(run.idle_gpu_seconds), text(run.evictions), text(run.resizes),
                     text(run.migrations)});
    }
  }
  return table.csv();
}

}  // namespace lockstep
