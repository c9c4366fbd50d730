// `lockstep check SCENARIO...`: does it read, divide and fit? Only two steps are simulated, for
// memory.
#include <fmt/format.h>

#include <cstdio>

#include "cli/commands.hpp"
#include "core/units.hpp"
#include "results/table.hpp"

namespace lockstep {

namespace {

Table checked_points(const std::string& file, const CommonOptions& options) {
  const Scenario scenario = read_scenario(file);
  std::vector<Point> points = expand(scenario);
  for (auto& point : points) point.job.steps = 2;
  const auto results = simulate(points, {options.workers, {}});
  using Align = Table::Align;
  Table table({{"strategy", Align::left},
               {"GPUs"},
               {"nodes"},
               {"micro-batch"},
               {"accumulation"},
               {"device memory"},
               {"of"},
               {"fits", Align::left}});
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Job& job = points[i].job;
    const bool fits = results[i].memory.device <= results[i].memory_capacity;
    table.add_row(
        {points[i].label, std::to_string(job.gpus),
         std::to_string((job.gpus + job.machine.gpus_per_node - 1) / job.machine.gpus_per_node),
         std::to_string(points[i].micro_batch), std::to_string(job.accumulation),
         human(results[i].memory.device, Dimension::bytes),
         human(results[i].memory_capacity, Dimension::bytes), fits ? "yes" : "NO"});
  }
  return table;
}

}  // namespace

int check_command(const std::vector<std::string>& files, const CommonOptions& options) {
  int code = 0;
  for (const auto& file : files) {
    try {
      const Table table = checked_points(file, options);
      print(fmt::format("{}: ok\n{}", file,
                        options.format == Format::csv ? table.csv() : table.text()));
    } catch (const ConfigError& error) {
      fmt::print(stderr, "{}\n", error.what());
      code = 2;
    }
  }
  return code;
}

}  // namespace lockstep
