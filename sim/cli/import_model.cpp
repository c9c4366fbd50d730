// `lockstep import-model FILE` makes a model file from the config.json of a Hugging Face model,
// with every layer, so that scenarios can name it.
//
//   lockstep import-model config.json --parameters 8030261248 -o my-llama.yaml
//
// With --parameters, it fails if the model has another number of parameters.
#include <fmt/format.h>

#include "cli/verb.hpp"
#include "core/errors.hpp"
#include "imports/hugging_face.hpp"

namespace lockstep::import_model_verb {
namespace {

struct Arguments {
  std::string file;
  std::optional<std::int64_t> parameters;
  std::string output = "-";
};

// Imports the model, prints its number of parameters and remarks, and writes the file.
int import_model(const Arguments& options) {
  if (options.output != "-" && !options.output.ends_with(".yaml"))
    throw file_error(options.output, "--output", "a model file's name ends in .yaml");
  const ImportedModel model = import_hugging_face(options.file, options.parameters);
  note(fmt::format("{}: {} parameters", model.origin, model.trained_parameters));
  for (const std::string& remark : model.notes) note("note: " + remark);
  write_answer(options.output, model_text(model));
  return 0;
}

Choice declare(CLI::App& app) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& verb =
      *app.add_subcommand("import-model", "A model file from the config.json of Hugging Face");
  verb.add_option(
          "file", arguments->file,
          "config.json of a Llama, Mistral, Mixtral, Qwen 2 or 3, Phi-3, Gemma 2 or 3, GPT-2, BERT "
          "or ViT (PyTorch modules and ONNX: python -m lockstep.import_model)")
      ->required();
  verb.add_option("--parameters", arguments->parameters,
                  "Number of parameters that the model must have")
      ->check(CLI::PositiveNumber);
  verb.add_option("-o,--output", arguments->output, "Model file, *.yaml (default: print)");
  add_examples(verb, {"config.json", "config.json --parameters 8030261248 -o my-llama.yaml"});
  return {&verb, [arguments] { return import_model(*arguments); }};
}
const Verb verb{VerbGroup::formats, declare};

}  // namespace
}  // namespace lockstep::import_model_verb
