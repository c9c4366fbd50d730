// Reads verbs, options and allowed values from CLI11's declarations. CLI11 has no list of an
// option's allowed values, so they are parsed from the text that --help shows.
#include "cli/described.hpp"

#include <sstream>

namespace lockstep {

namespace {

// The allowed values in a type's text. Both "TEXT:{cost,time}" and "TEXT:value in {cost->0,time->1}
// OR {0,1}" allow cost and time.
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t open = type.find('{'), close = type.find('}');
  std::vector<std::string> choices;
  if (open == std::string::npos || close == std::string::npos || close < open) return choices;
  std::istringstream list(type.substr(open + 1, close - open - 1));
  for (std::string choice; std::getline(list, choice, ',');) {
    choices.push_back(choice.substr(0, choice.find("->")));
  }
  return choices;
}

// One option as plain values.
DescribedOption described(const CLI::Option& option) {
  DescribedOption result;
  result.positional = !option.nonpositional();
  if (result.positional) result.names.push_back(option.get_single_name());
  for (const std::string& name : option.get_snames()) result.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) result.names.push_back("--" + name);
  result.help = option.get_description();
  result.choices = choices_of(option);
  result.takes_value = option.get_items_expected_max() > 0;
  return result;
}

// Adds the options of a verb and of its option groups, which CLI11 stores as subcommands without a
// name. A hidden option has an empty group name.
void add_options(const CLI::App& app, DescribedVerb& verb) {
  for (const CLI::Option* option : app.get_options()) {
    const bool hidden = option->get_group().empty();
    if (!hidden) verb.options.push_back(described(*option));
  }
  for (const CLI::App* group : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (group->get_name().empty()) add_options(*group, verb);
  }
}

// Adds the verbs of `app` and, after each, its own verbs. `before` precedes their names.
void add_verbs(const CLI::App& app, const std::string& before, std::vector<DescribedVerb>& verbs) {
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (sub->get_name().empty() || sub->get_group().empty()) continue;  // groups and hidden verbs
    DescribedVerb verb;
    verb.name = before + sub->get_name();
    verb.help = sub->get_description();
    verb.footer = sub->get_footer();
    add_options(*sub, verb);
    verbs.push_back(verb);
    add_verbs(*sub, verb.name + " ", verbs);
  }
}

}  // namespace

std::vector<DescribedVerb> described_verbs(const CLI::App& program) {
  std::vector<DescribedVerb> verbs;
  add_verbs(program, "", verbs);
  return verbs;
}

}  // namespace lockstep
