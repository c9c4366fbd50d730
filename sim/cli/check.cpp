// `lockstep check SCENARIO...`: does it read, divide and fit? Nothing is simulated. Like `run` it
// ends with 3 when nothing of a scenario fits.
#include <fmt/format.h>

#include <cstdio>

#include "cli/verb.hpp"
#include "core/output.hpp"
#include "core/units.hpp"
#include "points/simulate.hpp"
#include "questions/remarks.hpp"
#include "results/table.hpp"

namespace lockstep::check_verb {

namespace {

struct Checked {
  Table table;
  bool something_fits = false;
};

Checked checked_points(const std::string& file) {
  const Scenario scenario = read_scenario(file);
  const std::vector<Point> points = expand(scenario);
  for (const auto& remark : remarks(scenario, points)) note("note: " + remark);
  const std::vector<MemoryUse> memory = memory_of(points);
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
    checked.something_fits |= fits(memory[i]);
    checked.table.add_row(
        {points[i].label, std::to_string(job.gpus),
         std::to_string((job.gpus + job.machine.gpus_per_node - 1) / job.machine.gpus_per_node),
         std::to_string(points[i].micro_batch), std::to_string(job.accumulation),
         human(memory[i].device, Dimension::bytes), human(memory[i].capacity, Dimension::bytes),
         fits(memory[i]) ? "yes" : "NO"});
  }
  return checked;
}

int check(const std::vector<std::string>& files) {
  int code = 0;
  for (const auto& file : files) {
    try {
      const Checked checked = checked_points(file);
      print_text(fmt::format("{}: {}\n{}", file,
                             checked.something_fits ? "ok" : "nothing fits into memory",
                             rendered(checked.table, Format::text, 2)));
      if (!checked.something_fits && code == 0) code = 3;
    } catch (const ConfigError& error) {
      print_error("{}\n", error.what());
      code = 2;
    }
  }
  return code;
}

Choice declare(CLI::App& app) {
  const auto files = std::make_shared<std::vector<std::string>>();
  CLI::App& verb =
      *app.add_subcommand("check", "Read scenarios and tell whether they divide and fit");
  verb.add_option("scenarios", *files, "Scenario files")->required();
  add_examples(verb, {"my.yaml", "scenarios/ovi2026/*.yaml"});
  return {&verb, [files] { return check(*files); }};
}
const Verb verb{VerbGroup::questions, declare};

}  // namespace

}  // namespace lockstep::check_verb
