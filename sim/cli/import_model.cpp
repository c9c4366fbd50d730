// `lockstep import-model FILE`: a model file from another program's description.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "cli/verb.hpp"
#include "core/errors.hpp"
#include "imports/graph_model.hpp"
#include "imports/hugging_face.hpp"
#include "imports/unpacked_text.hpp"

namespace lockstep::import_model_verb {
namespace {

struct Arguments {
  std::string file;
  std::optional<std::int64_t> parameters;
  std::string output = "-";
};

// No message of an ONNX model begins so: lengths of its names are control characters.
bool is_text(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) >= ' ' || c == '\t' || c == '\r' || c == '\n';
  });
}

// Which kind of file it is shows in its first bytes.
ImportedModel read(const std::string& file) {
  const std::string text = unpacked_text(file);
  if (text.substr(0, 200).find("\"lockstep-graph-") != std::string::npos)
    return model_of_graph(read_module_graph(file, text));
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || text[first] == '{') return import_hugging_face(file);
  if (is_text(text.substr(0, 200))) {
    throw file_error(file, "", "is text, but no description of a model",
                     "read are ONNX, what `python -m lockstep.graph` writes, and config.json of "
                     "Hugging Face");
  }
  return model_of_graph(read_onnx(file, text));
}

int import_model(const Arguments& options) {
  if (options.output != "-" && !options.output.ends_with(".yaml"))
    throw file_error(options.output, "--output", "a model file's name ends in .yaml");
  ImportedModel model = read(options.file);
  count_parameters(model, options.parameters);
  note(fmt::format("{}: {} parameters", model.origin, model.trained_parameters));
  for (const std::string& remark : model.notes) note("note: " + remark);
  write_answer(options.output, model_text(model, options.parameters));
  return 0;
}

Choice declare(CLI::App& app) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& verb =
      *app.add_subcommand("import-model", "A model file from PyTorch, ONNX or Hugging Face");
  verb.add_option(
          "file", arguments->file,
          "What `python -m lockstep.graph` wrote, an ONNX model, or config.json of a Llama, "
          "Mistral, Mixtral, Qwen 2 or 3, Phi-3, Gemma 2 or 3, GPT-2, BERT or ViT")
      ->required();
  verb.add_option("--parameters", arguments->parameters, "Count that the model must have")
      ->check(CLI::PositiveNumber);
  verb.add_option("-o,--output", arguments->output, "Model file, *.yaml (default: print)");
  add_examples(verb, {"resnet50.json -o my-resnet50.yaml", "resnet50.onnx --parameters 25557032",
                      "config.json --parameters 8030261248 -o my-llama.yaml"});
  return {&verb, [arguments] { return import_model(*arguments); }};
}
const Verb verb{VerbGroup::formats, declare};

}  // namespace
}  // namespace lockstep::import_model_verb
