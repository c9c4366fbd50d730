// `lockstep check SCENARIO...`: does it read, divide and fit? Only two steps are simulated, for
// memory. Like `run` it ends with 3 when nothing of a scenario fits.
#include <fmt/format.h>

#include <cstdio>

#include "cli/commands.hpp"
#include "core/units.hpp"
#include "questions/remarks.hpp"
#include "results/table.hpp"

namespace lockstep {

namespace {

struct Checked {
  Table table;
  bool something_fits = false;
  std::vector<Failure> failures{};
};

const char* verdict(const Checked& checked) {
  if (!checked.failures.empty()) return "not all of it could be checked";
  return checked.something_fits ? "ok" : "nothing fits into memory";
}

Checked checked_points(const std::string& file, const CommonOptions& options) {
  const Scenario scenario = read_scenario(file);
  std::vector<Point> points = expand(scenario);
  for (const auto& remark : remarks(scenario, points)) fmt::print(stderr, "note: {}\n", remark);
  for (auto& point : points) point.job.steps = 2;
  const auto outcomes = simulate_each(points, {options.workers, {}});
  using Align = Table::Align;
  Checked checked{Table({{"strategy", Align::left},
                         {"GPUs"},
                         {"nodes"},
                         {"micro-batch"},
                         {"accumulation"},
                         {"device memory"},
                         {"of"},
                         {"fits", Align::left}})};
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Job& job = points[i].job;
    if (outcomes[i].failure) {
      checked.failures.push_back({points[i].label, job.gpus, *outcomes[i].failure});
      continue;
    }
    const StrategyResult& result = outcomes[i].result;
    const bool fits = result.memory.device <= result.memory_capacity;
    checked.something_fits |= fits;
    checked.table.add_row(
        {points[i].label, std::to_string(job.gpus),
         std::to_string((job.gpus + job.machine.gpus_per_node - 1) / job.machine.gpus_per_node),
         std::to_string(points[i].micro_batch), std::to_string(job.accumulation),
         human(result.memory.device, Dimension::bytes),
         human(result.memory_capacity, Dimension::bytes), fits ? "yes" : "NO"});
  }
  return checked;
}

}  // namespace

int check_command(const std::vector<std::string>& files, const CommonOptions& options) {
  int code = 0;
  for (const auto& file : files) {
    try {
      const Checked checked = checked_points(file, options);
      print(
          fmt::format("{}: {}\n{}", file, verdict(checked),
                      options.format == Format::csv ? checked.table.csv() : checked.table.text()));
      if (tell_failures(checked.failures) != 0) {
        if (code != 2) code = 1;
      } else if (!checked.something_fits && code == 0) {
        code = 3;
      }
    } catch (const ConfigError& error) {
      fmt::print(stderr, "{}\n", error.what());
      code = 2;
    }
  }
  return code;
}

}  // namespace lockstep
