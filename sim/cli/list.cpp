// `lockstep list WHAT` prints a table of the shipped models, devices, platforms, strategies,
// recipes or scenarios: the names that a scenario may use, with their main properties.
//
//   lockstep list platforms
//   lockstep list models --csv
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "cli/verb.hpp"
#include "core/data.hpp"
#include "core/units.hpp"
#include "hardware/machine.hpp"
#include "results/table.hpp"
#include "strategies/table.hpp"
#include "workload/model.hpp"

namespace lockstep::list_verb {

namespace {

using Align = Table::Align;

// The tables, one function each. The functions read every file, so a wrong file is an error here.
Table models() {
  Table table({{"model", Align::left}, {"parameters"}, {"forward MAC per sample"}});
  for (const auto& name : known_models()) {
    const ModelSummary summary = summarise(*load_model(name));
    table.add_row({name, fmt::format("{}", summary.parameters),
                   human(summary.multiply_accumulates, Dimension::count, 4)});
  }
  return table;
}

Table devices() {
  Table table({{"device", Align::left},
               {"title", Align::left},
               {"memory"},
               {"bandwidth"},
               {"fp32"},
               {"tf32"},
               {"fp16"},
               {"bf16"},
               {"fp8"}});
  const auto rate = [](double flops) {
    return flops > 0 ? human(flops, Dimension::flops_per_second) : std::string("-");
  };
  for (const auto& name : known_devices()) {
    const Device device = load_device(name);
    table.add_row({name, device.title, human(device.memory_bytes, Dimension::bytes),
                   human(device.memory_bandwidth, Dimension::bytes_per_second),
                   rate(device.fp32_flops), rate(device.tf32_flops), rate(device.fp16_flops),
                   rate(device.bf16_flops), rate(device.fp8_flops)});
  }
  return table;
}

Table platforms() {
  Table table({{"platform", Align::left},
               {"title", Align::left},
               {"GPUs per node"},
               {"nodes"},
               {"inside", Align::left},
               {"between", Align::left},
               {"USD per GPU and hour"}});
  for (const auto& name : known_machines()) {
    const Machine machine = load_machine(name);
    const std::string between =
        machine.fabric.kind == FabricKind::none
            ? "-"
            : fmt::format("{} x {} {}", machine.fabric.nics_per_node,
                          human(machine.fabric.nic_bytes_per_second, Dimension::bytes_per_second),
                          enum_name(machine.fabric.kind));
    const std::string price =
        machine.price_per_gpu_hour > 0
            ? fmt::format("{:.2f} ({})", machine.price_per_gpu_hour, machine.price_date)
            : "-";
    table.add_row({name, machine.title, std::to_string(machine.gpus_per_node),
                   std::to_string(machine.max_nodes), enum_name(machine.intra), between, price});
  }
  return table;
}

Table strategies() {
  Table table({{"strategy", Align::left}, {"what it does", Align::left}});
  using Strategies = StrategyTable<StrategyOptions>;
  for (std::size_t i = 0; i < Strategies::names.size(); ++i) {
    table.add_row({Strategies::names[i], Strategies::summaries[i]});
  }
  return table;
}

// The scenarios of all folders. The table names the verb, because a cluster's scenario is not for
// `run`.
Table scenarios() {
  Table table({{"scenario", Align::left}, {"verb", Align::left}, {"name", Align::left}});
  std::vector<std::string> files;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(data_folder("scenarios"))) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  for (const std::string& file : files) {
    const Node scenario = Node::parse_file(file);
    // The path below the data folder, so that a user in the source tree can type it.
    table.add_row({file.substr(data_folder("").size()),
                   scenario.find("cluster") ? "cluster" : "run",
                   scenario.find("name").value_or(Node()).scalar()});
  }
  return table;
}

// One row for each field that a recipe sets.
Table recipes() {
  Table table({{"recipe", Align::left}, {"field", Align::left}, {"value", Align::left}});
  for (std::size_t i = 0; i < EnumNames<Recipe>::names.size(); ++i) {
    for (const RecipeSetting& setting : settings_of(static_cast<Recipe>(i))) {
      table.add_row(
          {EnumNames<Recipe>::names[i], std::string(setting.field), std::string(setting.value)});
    }
  }
  return table;
}

// The tables by the name on the command line.
const std::map<std::string, Table (*)()> tables{
    {"models", models},         {"devices", devices}, {"platforms", platforms},
    {"strategies", strategies}, {"recipes", recipes}, {"scenarios", scenarios}};

Choice declare(CLI::App& app) {
  struct Arguments {
    std::string subject;
    CommonOptions common;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& verb = *app.add_subcommand("list", "Show the names to choose from");
  verb.add_option("what", arguments->subject,
                  "models, devices, platforms, strategies, recipes or scenarios")
      ->required()
      ->check(
          CLI::IsMember({"models", "devices", "platforms", "strategies", "recipes", "scenarios"}));
  add_formats(verb, arguments->common, Formats::csv_markdown);
  add_examples(verb, {"platforms", "models --csv"});
  return {&verb, [arguments] {
            print(rendered(tables.at(arguments->subject)(), arguments->common.format));
            return 0;
          }};
}
const Verb verb{VerbGroup::formats, declare};

}  // namespace

}  // namespace lockstep::list_verb
