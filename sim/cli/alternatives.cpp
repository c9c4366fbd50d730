// Predicts the alternatives of scenarios and collects their answers for one table. Each row of that
// table names the fields in which alternatives differ.
#include "cli/alternatives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "core/errors.hpp"
#include "core/output.hpp"
#include "sweep/override.hpp"

namespace lockstep {

namespace {

// Values of --sort.
const std::map<std::string, SortKey> sort_keys{
    {"", SortKey::none},         {"time", SortKey::time},     {"cost", SortKey::cost},
    {"memory", SortKey::memory}, {"energy", SortKey::energy}, {"throughput", SortKey::throughput}};

// The columns that distinguish alternatives: the fields that any file lists, and the file if there
// are several. For a file that does not list a field, the column has the file's single value.
std::vector<std::vector<Chosen>> choices(const std::vector<Alternative>& alternatives) {
  std::vector<std::string> fields;
  std::set<std::string> files;
  for (const Alternative& alternative : alternatives) {
    files.insert(alternative.scenario.file);
    for (const auto& [field, value] : alternative.chosen) {
      if (std::find(fields.begin(), fields.end(), field) == fields.end()) fields.push_back(field);
    }
  }
  std::vector<std::vector<Chosen>> chosen;
  for (const Alternative& alternative : alternatives) {
    auto& of = chosen.emplace_back();
    if (files.size() > 1)
      of.push_back({"scenario", std::filesystem::path(alternative.scenario.file).stem()});
    for (const std::string& field : fields) {
      of.push_back({field, value_of(alternative.scenario, field)});
    }
  }
  return chosen;
}

}  // namespace

std::vector<Alternative> alternatives_of(const std::vector<std::string>& files,
                                         const CommonOptions& options) {
  std::vector<Alternative> alternatives;
  for (const std::string& file : files) {
    const Node root = with_settings(Node::parse_file(file), options.settings);
    for (Alternative& alternative : read_alternatives_node(root, file)) {
      alternatives.push_back(std::move(alternative));
    }
  }
  return alternatives;
}

AlternativesQuestion ask_alternatives(
    const std::vector<Alternative>& alternatives, const CommonOptions& options,
    const std::function<void(const Alternative&, const AlternativeResult&)>& on_answer) {
  const std::vector<std::vector<Chosen>> chosen = choices(alternatives);
  AlternativesQuestion question;
  auto& answered = question.comparison.answered.alternatives;
  bool fits = false;
  for (std::size_t i = 0; i < alternatives.size(); ++i) {
    try {
      answered.push_back({chosen[i], record_of(alternatives[i].scenario, options)});
    } catch (const ConfigError& error) {
      // One impossible alternative must not prevent the answers for the others.
      if (alternatives.size() == 1) throw;
      print_error("{}\n  in the alternative {}\n", error.what(), name_of(chosen[i]));
      question.comparison.refused.push_back({chosen[i], error.diagnostics().front().message});
      question.code = 2;
      continue;
    }
    on_answer(alternatives[i], answered.back());
    if (const int failed = tell_failures(answered.back().record.failures)) question.code = failed;
    fits |= something_fits(answered.back().record.predictions);
  }
  if (question.code == 0 && !fits) question.code = 3;
  sort_rows(question.comparison.answered, SortKey::none);
  return question;
}

std::string name_of(const std::vector<Chosen>& chosen) {
  std::string text;
  for (const Chosen& choice : chosen) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", choice.field, choice.value);
  }
  return text;
}

void add_sort(CLI::App& verb, std::string& key) {
  verb.add_option("--sort", key,
                  "time, cost, memory, energy or throughput: the best first, predictions that do "
                  "not fit last")
      ->check(CLI::IsMember({"time", "cost", "memory", "energy", "throughput"}));
}

SortKey sort_key(const std::string& key) {
  return sort_keys.at(key);
}

}  // namespace lockstep
