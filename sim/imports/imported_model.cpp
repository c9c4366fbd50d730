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
  std::vector<std::string> settings;
  for (const auto& [name, value] : model.parameters)
    settings.push_back(fmt::format("{}: {}", name, value));
  std::string text = fmt::format("# Imported from {}\nbase: {}\ntitle: {}\nparameters:\n  {{{}}}\n",
                                 on_one_line(model.origin), model.base, quoted(model.title),
                                 fmt::join(settings, ", "));
  if (!model.image.empty())
    text += fmt::format("input: {{image: [{}], classes: {}}}\n", fmt::join(model.image, ", "),
                        model.classes);
  if (expected)
    text +=
        fmt::format("published: {{parameters: {}, source: \"given when imported\"}}\n", *expected);
  return text;
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
