// Finds the model of a training config. The user's --model wins; then come sizes that the config
// states, a config.json at the model's path, and the list of public names (keys/models.yaml).
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/data.hpp"
#include "core/describe_emit.hpp"
#include "imports/hugging_face.hpp"
#include "training_configs/interpretation.hpp"
#include "training_configs/key_table.hpp"

namespace lockstep {
namespace {

// A name in the spelling of the list of public models: "meta-llama/Meta-Llama-3.1-8B_Instruct"
// becomes "llama-3.1-8b-instruct".
std::string plain_name(const std::string& name) {
  std::string text = lower_case(name);
  while (text.ends_with('/')) text.pop_back();
  const std::size_t slash = text.rfind('/');
  if (slash != std::string::npos) text = text.substr(slash + 1);
  std::replace(text.begin(), text.end(), '_', '-');
  if (text.starts_with("meta-")) text = text.substr(5);
  return text;
}

// The entry of the longest known name that `name` equals, or begins with before a dash or a dot,
// because names of fine-tuned variants begin with the name of their base. The value `unknown` marks
// names that only look like a known name.
std::optional<Node> known_model(const std::string& name) {
  static const Node known = Node::parse_text(public_models, "known models");
  const std::string plain = plain_name(name);
  std::optional<Node> best;
  std::size_t length = 0;
  for (const auto& [key, value] : known.entries()) {
    if (key.size() <= length || !plain.starts_with(key)) continue;
    const bool whole =
        plain.size() == key.size() || plain[key.size()] == '-' || plain[key.size()] == '.';
    if (!whole) continue;
    best = value;
    length = key.size();
  }
  if (best && best->scalar() == "unknown") return std::nullopt;
  return best;
}

// The config.json to which a name refers: a file of that name, or the file in a folder of that
// name; "" if there is none.
std::string config_json(const std::string& name) {
  std::error_code error;
  const std::filesystem::path path(name);
  if (std::filesystem::is_regular_file(path, error) && name.ends_with(".json")) return name;
  const std::filesystem::path inner = path / "config.json";
  return std::filesystem::is_regular_file(inner, error) ? inner.string() : "";
}

class ModelStatement {
 public:
  ModelStatement(Facts& facts, const ConfigAnswers& answers, ImportedConfig& config)
      : facts_(facts), answers_(answers), config_(config) {}

  void state() {
    if (!answers_.model.empty()) return named(answers_.model, "--model");
    const Fact* fact = facts_.find("model");
    if (facts_.has("model.base")) return sizes();
    if (!fact) return ask();
    const Fact name = *fact;
    if (!config_json(name.value).empty()) return named(name.value, name.key);
    if (const auto known = known_model(name.value)) return take(*known, name.key);
    config_.notes.push_back(fmt::format(
        "{} is no model that Lockstep knows by name: give its config.json", in_quotes(name.value)));
    ask();
  }

 private:
  void ask() { config_.asked.push_back({"model", "--model CONFIG.JSON or NAME"}); }

  void put(const std::string& path, const std::string& value, const std::string& source) {
    config_.fields.push_back({path, value, source});
  }

  // States the model of this name. Throws ConfigError if there is none.
  void named(const std::string& name, const std::string& source) {
    const std::string file = config_json(name);
    if (!file.empty()) return import(file, source);
    const std::vector<std::string> shipped = stems_in(data_folder("models"), ".yaml");
    const bool ours =
        std::find(shipped.begin(), shipped.end(), name) != shipped.end() || name.ends_with(".yaml");
    if (ours) return put("model", fields::yaml_text(name), source);
    if (const auto known = known_model(name)) return take(*known, source);
    throw file_error("", source, fmt::format("{} is no model", in_quotes(name)),
                     "a shipped model (`lockstep list models`), a model file, or a config.json");
  }

  // States the sizes in a config.json; its sequence length only if no file states one.
  void import(const std::string& file, const std::string& source) {
    const ImportedModel model = import_hugging_face(file);
    put("model", model.base, source);
    for (const auto& [name, value] : model.parameters) {
      if (name != "sequence") put("model_parameters." + name, std::to_string(value), file);
    }
    if (!facts_.has("sequence") && model.image.empty()) {
      const auto sequence =
          std::find_if(model.parameters.begin(), model.parameters.end(),
                       [](const auto& entry) { return entry.first == "sequence"; });
      if (sequence != model.parameters.end())
        put("model_parameters.sequence", std::to_string(sequence->second), file);
    }
    for (const std::string& note : model.notes) config_.notes.push_back(note);
  }

  // States an entry of the list of public models: a shipped model, or sizes of a family.
  void take(const Node& known, const std::string& source) {
    if (known.kind() == Node::Kind::scalar) return put("model", known.scalar(), source);
    for (const auto& [name, value] : known.entries()) {
      if (name == "model")
        put("model", value.scalar(), source);
      else
        put("model_parameters." + name, value.scalar(), source);
    }
  }

  // States the sizes that a config contains: model.base and its parameters.
  void sizes() {
    put("model", *facts_.text("model.base"), keys_of("model.base"));
    for (const std::string& name : facts_.names("model.")) {
      if (name == "model.base") continue;
      put("model_parameters." + name.substr(6), *facts_.text(name), keys_of(name));
    }
  }

  std::string keys_of(const std::string& fact) const { return facts_.peek(fact)->key; }

  Facts& facts_;
  const ConfigAnswers& answers_;
  ImportedConfig& config_;
};

}  // namespace

void state_model(Facts& facts, const ConfigAnswers& answers, ImportedConfig& config) {
  ModelStatement(facts, answers, config).state();
}

}  // namespace lockstep
