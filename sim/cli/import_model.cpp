// `lockstep import-model config.json`: a model file from another program's description.
#include <fmt/format.h>

#include <cstdio>

#include "cli/verb.hpp"
#include "core/errors.hpp"
#include "imports/hugging_face.hpp"

namespace lockstep {
namespace {

struct Arguments {
  std::string file;
  std::optional<std::int64_t> parameters;
  std::string output = "-";
};

int import_model(const Arguments& options) {
  if (options.output != "-" && !options.output.ends_with(".yaml"))
    throw file_error(options.output, "--output", "a model file's name ends in .yaml");
  ImportedModel model = import_hugging_face(options.file);
  count_parameters(model, options.parameters);
  fmt::print(stderr, "{}: {} parameters\n", model.origin, model.trained_parameters);
  for (const std::string& note : model.notes) fmt::print(stderr, "note: {}\n", note);
  write_answer(options.output, model_text(model, options.parameters));
  return 0;
}

Choice declare(CLI::App& app) {
  const auto given = std::make_shared<Arguments>();
  CLI::App& verb =
      *app.add_subcommand("import-model", "A model file from a config.json of Hugging Face");
  verb.add_option("config", given->file,
                  "config.json of a Llama, Mistral, Qwen2, GPT-2, BERT or ViT")
      ->required();
  verb.add_option("--parameters", given->parameters, "Count that the model must have")
      ->check(CLI::PositiveNumber);
  verb.add_option("-o,--output", given->output, "Model file, *.yaml (default: print)");
  add_examples(verb, {"config.json", "config.json --parameters 8030261248 -o my-llama.yaml"});
  return {&verb, [given] { return import_model(*given); }};
}
const Verb verb{VerbGroup::formats, declare};

}  // namespace
}  // namespace lockstep
