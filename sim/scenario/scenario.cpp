// Reads scenario files by the declarations of scenario_fields.hpp, and writes them fully expanded.
// After the fields are read, three steps remain: checks between fields, paths relative to the file,
// and numbers that are stored in separate files.
#include "scenario/scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <sstream>

#include "core/data.hpp"
#include "core/describe.hpp"
#include "core/file_text.hpp"
#include "core/statistics.hpp"
#include "scenario/scenario_fields.hpp"

namespace lockstep {

namespace {

// Checks that labels are unique, that rows of measurements name existing strategies, that slow
// ranks exist and are listed once, and that GPU counts differ. Reports all errors at once.
void check_references(const Scenario& scenario) {
  Diagnostics diagnostics;
  std::vector<std::string> labels;
  for (const auto& entry : scenario.strategies) {
    if (std::find(labels.begin(), labels.end(), entry.label) != labels.end()) {
      diagnostics.add({entry.where, "strategies",
                       fmt::format("two strategies are called '{}'", entry.label),
                       "give each a `label:` of its own"});
    }
    labels.push_back(entry.label);
  }
  auto check_rows = [&](const std::vector<MeasuredRow>& rows, const char* field) {
    for (const auto& row : rows) {
      const bool named = !row.strategy.empty();
      if (named && std::find(labels.begin(), labels.end(), row.strategy) == labels.end()) {
        diagnostics.add({row.where, field, fmt::format("no strategy is called '{}'", row.strategy),
                         allowed_hint(row.strategy, labels)});
      }
      if (!named && labels.size() > 1) {
        diagnostics.add(
            {row.where, field, "does not say which strategy", allowed_hint("", labels)});
      }
    }
  };
  check_rows(scenario.measured, "measured");
  check_rows(scenario.anchor, "anchor");
  // A slow rank must exist at the largest GPU count; it is ignored at smaller counts that do not
  // have it.
  const int most = *std::max_element(scenario.gpus.begin(), scenario.gpus.end());
  std::set<int> slow_ranks;
  for (const auto& slow : scenario.stragglers.slow_ranks) {
    if (slow.rank >= most) {
      diagnostics.add({slow.where, "stragglers.slow_ranks",
                       fmt::format("there is no rank {}", slow.rank),
                       fmt::format("ranks are 0 to {}", most - 1)});
    }
    if (!slow_ranks.insert(slow.rank).second) {
      diagnostics.add({slow.where, "stragglers.slow_ranks",
                       fmt::format("names rank {} twice", slow.rank), "give it one factor"});
    }
  }
  std::set<int> counts(scenario.gpus.begin(), scenario.gpus.end());
  if (counts.size() != scenario.gpus.size()) {
    diagnostics.add({scenario.gpus_where, "gpus", "names a count twice", ""});
  }
  diagnostics.throw_if_any();
}

// Makes a path relative to the scenario's folder usable. A word without a slash or `.yaml` is a
// shipped name, unless `always` says that the field is a path. A path to no file stays as written,
// and the loader reports it.
void resolve(std::string& path, const std::string& scenario_file, bool always) {
  const bool is_path = always || path.ends_with(".yaml") || path.find('/') != std::string::npos;
  if (path.empty() || !is_path || std::filesystem::path(path).is_absolute()) return;
  const auto beside = std::filesystem::path(scenario_file).parent_path() / path;
  std::error_code none;  // a name too long for the system does not exist
  if (std::filesystem::exists(beside, none)) path = beside.string();
}

// Reads a file with one number on each line; text after # and empty lines are ignored. Negative
// numbers are errors, and so is 0 if `positive`. `at` and `field` locate the file's name in the
// scenario.
std::vector<double> read_numbers(const std::string& file, const Location& at, const char* field,
                                 bool positive) {
  if (std::error_code none; !std::filesystem::exists(file, none)) {
    throw ConfigError(
        {at, field, fmt::format("cannot read {}", in_quotes(file)), "a file beside the scenario"});
  }
  std::istringstream in(file_text(file, most_of_a_table));
  Diagnostics diagnostics;
  std::vector<double> values;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    line = line.substr(0, line.find('#'));
    const auto begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos) continue;
    const std::string text = line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin);
    const Location where{file, number, static_cast<int>(begin) + 1};
    double value = 0;
    try {
      value = parse_quantity(text, Dimension::none);
    } catch (const UnitError& error) {
      diagnostics.add({where, "", error.what(), "one number a line"});
      continue;
    }
    if (value < 0 || (positive && value == 0)) {
      diagnostics.add(
          {where, "", in_quotes(text) + (positive ? " is not positive" : " is negative"), ""});
    }
    values.push_back(value);
  }
  diagnostics.throw_if_any();
  if (values.empty()) {
    throw ConfigError({at, field, in_quotes(file) + " has no values", "one number a line"});
  }
  return values;
}

// Reads measured step times and divides them by their median, which gives relative durations around
// 1.
std::vector<double> read_values(const Empirical& from) {
  std::vector<double> values =
      read_numbers(from.file, from.where, "stragglers.per_step.empirical.file", true);
  const double nominal = median(values);
  for (double& value : values) value /= nominal;
  return values;
}

// Reads the shares of experts from the file that `parallel.expert.load.listed` names. Clears the
// name, so that write_scenario() writes the shares themselves.
void read_load(ParallelOptions& parallel, const std::string& scenario_file) {
  if (!parallel.expert.load) return;
  auto* listed = std::get_if<ListedLoad>(&*parallel.expert.load);
  if (listed == nullptr || listed->file.empty()) return;
  resolve(listed->file, scenario_file, true);
  listed->shares =
      read_numbers(listed->file, listed->where, "parallel.expert.load.listed.file", false);
  listed->file.clear();
}

// Throws ConfigError for a cluster's scenario (sim/cluster), with the name of the right command.
void check_kind(const Node& root) {
  if (root.kind() != Node::Kind::map || !root.find("cluster")) return;
  Diagnostic diagnostic = root.find("cluster")->error("belongs to a scenario of a cluster",
                                                      "`lockstep cluster` answers that");
  diagnostic.where = root.key_location("cluster");
  throw ConfigError(diagnostic);
}

// Messages for fields that a user may expect under another name. If the unknown field's name
// contains the first text, the second text replaces the message "unknown key".
constexpr std::array<std::pair<const char*, const char*>, 6> not_there{
    {{"lora", "LoRA is said by `adapters`"},
     {"peft", "adapters are said by `adapters`"},
     {"freeze", "`frozen` names the parameters that are not trained"},
     {"quanti", "quantised weights are said by `frozen.quantization`"},
     {"fp8", "products in fp8 are said by `low_precision`"},
     {"tensor_parallel", "tensor parallelism is said by `parallel: {tensor: N}`"}}};

// Adds hints to errors that occur only in scenarios.
void say_more(Diagnostic& diagnostic) {
  if (diagnostic.field.ends_with("zero.stage") && diagnostic.message.starts_with("'3'")) {
    diagnostic.hint += "; stage 3 is `fsdp`";
  }
  if (diagnostic.message != "unknown key") return;
  const std::string key = diagnostic.field.substr(diagnostic.field.rfind('.') + 1);
  for (const auto& [word, says] : not_there) {
    if (key.find(word) == std::string::npos) continue;
    diagnostic.message = says;
    diagnostic.hint = "";
    return;
  }
  // The hint lists some keys and how many more there are.
  if (diagnostic.hint.find(" more") != std::string::npos) {
    diagnostic.hint += "; `lockstep schema scenario --fields` has all";
  }
}

// Reads the declared fields, with say_more() on every error.
Scenario read_fields(const Node& root) {
  try {
    return read_node<Scenario>(root);
  } catch (const ConfigError& error) {
    Diagnostics diagnostics;
    for (Diagnostic diagnostic : error.diagnostics()) {
      say_more(diagnostic);
      diagnostics.add(std::move(diagnostic));
    }
    diagnostics.throw_if_any();
    throw;
  }
}

// Reads a Scenario from a YAML tree; all readers use this function. Paths in the tree are relative
// to the folder of `file`.
Scenario read_root(const Node& root, const std::string& file) {
  check_kind(root);
  WithRecipe with = apply_recipe(root);
  Scenario scenario = read_fields(with.root);
  scenario.recipe_set = std::move(with.set);
  scenario.file = file;
  for (auto& entry : scenario.strategies) {
    if (entry.label.empty()) entry.label = strategy_name(entry.options);
  }
  resolve(scenario.model, file, false);
  resolve(scenario.platform, file, false);
  resolve(scenario.profile, file, true);
  check_references(scenario);
  read_load(scenario.parallel, file);
  for (StrategyEntry& entry : scenario.strategies) {
    if (entry.parallel) read_load(*entry.parallel, file);
  }
  if (scenario.stragglers.per_step) {
    if (auto* law = std::get_if<Empirical>(&*scenario.stragglers.per_step)) {
      resolve(law->file, file, true);
      law->values = read_values(*law);
    }
  }
  return scenario;
}

}  // namespace

Scenario read_scenario(const std::string& path) {
  return read_root(Node::parse_file(path), path);
}

Scenario read_scenario_text(std::string_view text, const std::string& file_name) {
  return read_root(Node::parse_text(text, file_name), file_name);
}

Scenario read_scenario_node(const Node& root, const std::string& file_name) {
  return read_root(root, file_name);
}

std::string write_scenario(const Scenario& scenario) {
  return emit_yaml(scenario);
}

// Leaves out scenarios of clusters and scenarios with lists, which other functions read.
std::vector<std::string> shipped_scenarios() {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(data_folder("scenarios"), error)) {
    const auto folder = entry.path().parent_path().filename();
    const bool other = folder == "cluster" || folder == "alternatives";
    if (entry.path().extension() == ".yaml" && !other) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string scenario_schema() {
  return json_schema<Scenario>("Lockstep scenario").dump(2) + "\n";
}

std::string scenario_fields() {
  return markdown_fields<Scenario>();
}

}  // namespace lockstep
