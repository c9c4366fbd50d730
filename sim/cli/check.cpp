// `lockstep check SCENARIO...` answers: can the scenario be read, does its batch divide, does each
// point fit into memory? Nothing is simulated, so the answer takes milliseconds.
//
//   lockstep check my.yaml --set batch.per_gpu=64
//
//   my.yaml: ok
//   strategy  GPUs  nodes  micro-batch  accumulation  device memory        of  fits
//   ddp          8      1            4             2       50.3 GiB  79.2 GiB  yes
//
// Exit code: 2 if a scenario is wrong, else 3 if nothing of a scenario fits, else 0.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/config_options.hpp"
#include "cli/verb.hpp"
#include "core/output.hpp"
#include "core/units.hpp"
#include "points/simulate.hpp"
#include "questions/advice.hpp"
#include "results/table.hpp"

namespace lockstep::check_verb {

namespace {

// The answer for one scenario, as a table for people and as JSON.
struct Checked {
  Table table;
  nlohmann::ordered_json points = nlohmann::ordered_json::array();
  bool something_fits = false;
};

// Expands the scenario into points and predicts the memory of each. Throws ConfigError if the
// scenario is wrong.
Checked checked_points(const std::string& file, const CommonOptions& options) {
  const Scenario scenario = scenario_of(file, options);
  const std::vector<Point> points = expand(scenario);
  // Remarks name options that have no effect on any point, and costly meshes.
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
                         {"fits", Align::left}}),
                  {}};
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Job& job = points[i].job;
    checked.something_fits |= fits(memory[i]);
    const int nodes = nodes_of(job.mesh.gpus(), job.machine);
    checked.points.push_back({{"strategy", points[i].label},
                              {"gpus", job.mesh.gpus()},
                              {"nodes", nodes},
                              {"micro_batch", points[i].micro_batch},
                              {"gradient_accumulation", job.accumulation},
                              {"device_bytes", memory[i].device},
                              {"usable_bytes", memory[i].capacity},
                              {"host_bytes", memory[i].host},
                              {"host_usable_bytes", memory[i].host_capacity},
                              {"nvme_bytes", memory[i].nvme},
                              {"nvme_usable_bytes", memory[i].nvme_capacity},
                              {"fits", fits(memory[i])}});
    checked.table.add_row({points[i].label, std::to_string(job.mesh.gpus()), std::to_string(nodes),
                           std::to_string(points[i].micro_batch), std::to_string(job.accumulation),
                           human(memory[i].device, Dimension::bytes),
                           human(memory[i].capacity, Dimension::bytes),
                           fits(memory[i])           ? "yes"
                           : !fits_device(memory[i]) ? "NO"
                           : !fits_host(memory[i])   ? "NO, host memory is short"
                                                     : "NO, NVMe is short"});
  }
  return checked;
}

// Checks all scenarios. A mistake in one scenario does not prevent the check of the others.
int check(const std::vector<std::string>& files, const CommonOptions& options) {
  int code = 0;
  auto document = nlohmann::ordered_json::array();
  for (const auto& file : files) {
    try {
      Checked checked = checked_points(file, options);
      if (options.format == Format::json) {
        document.push_back({{"scenario", file}, {"points", std::move(checked.points)}});
      } else {
        print_text(fmt::format("{}: {}\n{}", file,
                               checked.something_fits ? "ok" : "nothing fits into memory",
                               rendered(checked.table, Format::text, 2)));
      }
      if (!checked.something_fits && code == 0) code = 3;
    } catch (const ConfigError& error) {
      print_error("{}\n", error.what());
      code = 2;
    }
  }
  if (options.format == Format::json) print(document.dump(2) + "\n");
  return code;
}

Choice declare(CLI::App& app) {
  struct Arguments {
    std::vector<std::string> files;
    ConfigSource from;
    CommonOptions common;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& verb =
      *app.add_subcommand("check", "Read scenarios and tell whether they divide and fit");
  add_from(verb,
           verb.add_option("scenarios", arguments->files, "Scenario files; - = standard input"),
           arguments->from);
  add_settings(verb, arguments->common);
  add_formats(verb, arguments->common, Formats::json);
  add_examples(verb, {"my.yaml", "--from ds_config.json --model config.json --platform g5.12xlarge",
                      "my.yaml --set batch.per_gpu=64", "scenarios/ovi2026/*.yaml"});
  return {&verb, [arguments] {
            const std::string name = scenario_from(arguments->from, !arguments->files.empty());
            if (!name.empty()) arguments->files = {name};
            return check(arguments->files, arguments->common);
          }};
}
const Verb verb{VerbGroup::questions, declare};

}  // namespace

}  // namespace lockstep::check_verb
