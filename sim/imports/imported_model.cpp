#include "imports/imported_model.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/errors.hpp"
#include "workload/model.hpp"
#include "workload/model_file.hpp"

namespace lockstep {
namespace {

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return result + '"';
}

std::string on_one_line(std::string text) {
  for (char& c : text) c = static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  return text;
}

}  // namespace

std::string model_text(const ImportedModel& model, std::optional<std::int64_t> expected) {
  std::string text = fmt::format("# Imported from {}\n", on_one_line(model.origin));
  if (!model.comment.empty()) text += fmt::format("# {}\n", model.comment);
  if (!model.base.empty()) text += fmt::format("base: {}\n", model.base);
  text += fmt::format("title: {}\n", quoted(model.title));
  std::vector<std::string> settings, input;
  for (const auto& [name, value] : model.parameters)
    settings.push_back(fmt::format("{}: {}", name, value));
  if (!settings.empty()) text += fmt::format("parameters:\n  {{{}}}\n", fmt::join(settings, ", "));
  if (!model.image.empty())
    input.push_back(fmt::format("image: [{}]", fmt::join(model.image, ", ")));
  if (model.tokens > 0) input.push_back(fmt::format("tokens: {}", model.tokens));
  if (model.classes > 0) input.push_back(fmt::format("classes: {}", model.classes));
  if (!input.empty()) text += fmt::format("input: {{{}}}\n", fmt::join(input, ", "));
  if (expected)
    text +=
        fmt::format("published: {{parameters: {}, source: \"given when imported\"}}\n", *expected);
  return text + model.layers;
}

void count_parameters(ImportedModel& model, std::optional<std::int64_t> expected) {
  const std::string name = model.origin + " as a model file";
  const ModelFile file = read_model_text(model_text(model, expected), name);
  model.trained_parameters = summarise(file).parameters;
  if (expected && *expected != model.trained_parameters)
    throw file_error("", "--parameters",
                     fmt::format("{} has {} parameters, not {}", model.origin,
                                 model.trained_parameters, *expected),
                     "does the checkpoint have another head, or tied embeddings?");
}

}  // namespace lockstep
