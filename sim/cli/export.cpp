// `lockstep export SCENARIO` prints the scenario with every default written out. The output is a
// valid scenario with the same predictions, so it documents a result or starts a new scenario.
//
//   lockstep export my.yaml > every-default.yaml
//
// With --layers or --memory it prints JSON about every point (export_layers.cpp,
// export_memory.cpp). With --emit it writes files that start the scenario's training (emit.cpp).
#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/emit.hpp"
#include "cli/verb.hpp"

namespace lockstep::export_verb {

namespace {

struct Arguments {
  std::string file;
  bool layers = false, memory = false;
  EmitOptions emit;
};

// Prints one of the three documents, or writes the files of --emit.
int export_scenario(const Arguments& arguments) {
  const Scenario scenario = read_scenario(arguments.file);
  // If several are given, --emit counts before --layers, and --layers before --memory.
  if (!arguments.emit.formats.empty()) return emit(scenario, arguments.emit);
  print(arguments.layers   ? layers_json(scenario)
        : arguments.memory ? memory_json(scenario)
                           : write_scenario(scenario));
  return 0;
}

Choice declare(CLI::App& app) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& verb = *app.add_subcommand("export", "Print a scenario with every default written out");
  verb.add_option("scenario", arguments->file, "Scenario file")->required();
  verb.add_flag("--layers", arguments->layers,
                "Print JSON instead: layers, parameters, buckets or units of every point");
  verb.add_flag("--memory", arguments->memory,
                "Print JSON instead: live bytes by kind at each moment of a step, and the tensors "
                "at the peak");
  add_emit(verb, arguments->emit);
  verb.add_option("--strategy", arguments->emit.strategy,
                  "Label of the strategy that --emit writes, if there are several");
  verb.add_option("--gpus", arguments->emit.gpus, "GPU count, likewise");
  add_examples(verb, {"my.yaml > every-default.yaml", "my.yaml --layers > layers.json",
                      "my.yaml --emit deepspeed,sbatch -o launch/"});
  return {&verb, [arguments] { return export_scenario(*arguments); }};
}
const Verb verb{VerbGroup::formats, declare};

}  // namespace

}  // namespace lockstep::export_verb
