// `lockstep import-config FILE...` makes a scenario from the config or launch script of a training
// program, and prints how each key was understood.
//
//   lockstep import-config train.sh --platform dgx-h100 -o my.yaml
//
// --json adds an account of every key: mapped, without effect, approximated, asked, left out or
// unknown. docs/import-config.md lists the programs.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/config_options.hpp"
#include "cli/verb.hpp"
#include "core/errors.hpp"
#include "training_configs/imported_config.hpp"

namespace lockstep::import_config_verb {
namespace {

struct Arguments {
  std::vector<std::string> files;
  ConfigAnswers answers;
  std::string output = "-";
  bool json = false;
};

// The word for the treatment of a key in --json.
const char* fate_name(KeyFate fate) {
  switch (fate) {
    case KeyFate::mapped:
      return "mapped";
    case KeyFate::without_effect:
      return "without effect";
    case KeyFate::approximated:
      return "approximated";
    case KeyFate::asked:
      return "asked";
    case KeyFate::refused:
      return "left out";
    case KeyFate::unknown:
      break;
  }
  return "unknown";
}

// The answer for --json.
std::string json_text(const ImportedConfig& config) {
  nlohmann::ordered_json document{{"format", config.format}, {"files", config.files}};
  document["scenario"] = scenario_text(config);
  document["asked"] = nlohmann::ordered_json::array();
  for (const OpenQuestion& question : config.asked)
    document["asked"].push_back({{"field", question.field}, {"option", question.option}});
  document["assumptions"] = config.assumptions;
  document["notes"] = config.notes;
  document["keys"] = nlohmann::ordered_json::array();
  for (const KeyAccount& account : config.keys) {
    document["keys"].push_back({{"key", account.key},
                                {"file", account.where.file},
                                {"line", account.where.line},
                                {"column", account.where.column},
                                {"value", account.value},
                                {"fate", fate_name(account.fate)},
                                {"meaning", account.meaning}});
  }
  return document.dump(2) + "\n";
}

// Imports the files, prints notes about keys and assumptions, and writes the scenario.
int import_config(const Arguments& arguments) {
  const ImportedConfig config = imported_config(arguments.files, arguments.answers);
  tell_import(config);
  write_answer(arguments.output, arguments.json ? json_text(config) : scenario_text(config));
  return 0;
}

Choice declare(CLI::App& app) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& verb = *app.add_subcommand(
      "import-config", "A scenario from the config or launch script of a training program");
  verb.add_option("files", arguments->files,
                  "DeepSpeed, accelerate, Hugging Face (Trainer, TRL, LLaMA-Factory, Axolotl), "
                  "torchtitan, nanotron, Megatron-LM, LLM Foundry, Lightning, litgpt; with the "
                  "files that the config names")
      ->required();
  add_answers(verb, arguments->answers);
  verb.add_option("-o,--output", arguments->output, "Scenario file, *.yaml (default: print)");
  verb.add_flag("--json", arguments->json, "Also print how each key was used");
  add_examples(verb,
               {"ds_config.json --model config.json --platform g5.12xlarge",
                "train.sh --platform dgx-h100 -o my.yaml", "sft.yaml accelerate.yaml --json"});
  return {&verb, [arguments] { return import_config(*arguments); }};
}
const Verb verb{VerbGroup::formats, declare};

}  // namespace
}  // namespace lockstep::import_config_verb
