// `lockstep export SCENARIO`: the scenario with every default written out, runnable again; or, with
// --layers, what its points train (export_layers.cpp).
#include "cli/commands.hpp"
#include "cli/verb.hpp"

namespace lockstep::export_verb {

namespace {

Choice declare(CLI::App& app) {
  struct Arguments {
    std::string file;
    bool layers = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& verb = *app.add_subcommand("export", "Print a scenario with every default written out");
  verb.add_option("scenario", arguments->file, "Scenario file")->required();
  verb.add_flag("--layers", arguments->layers,
                "JSON instead: layers, parameters, buckets or units of every point");
  add_examples(verb, {"my.yaml > every-default.yaml", "my.yaml --layers > layers.json"});
  return {&verb, [arguments] {
            const Scenario scenario = read_scenario(arguments->file);
            print(arguments->layers ? layers_json(scenario) : write_scenario(scenario));
            return 0;
          }};
}
const Verb verb{VerbGroup::formats, declare};

}  // namespace

}  // namespace lockstep::export_verb
