// Registers verbs, and declares options that several verbs share. Static objects register verbs in
// an undefined order; declare_verbs() sorts them, so that --help does not depend on the link order.
#include "cli/verb.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep {

namespace {

// A verb whose static object has been constructed.
struct Registered {
  VerbGroup group;
  Verb::Declare declare;
};

// A function-local static, so that the list exists before the first verb registers, in any order of
// initialisation.
std::vector<Registered>& registered() {
  static std::vector<Registered> verbs;
  return verbs;
}

// Heading of a group in --help.
const char* title(VerbGroup group) {
  switch (group) {
    case VerbGroup::questions:
      return "Questions";
    case VerbGroup::formats:
      return "Files";
    case VerbGroup::measurements:
      break;
  }
  return "Measurements";
}

// Adds a flag that sets the format of the answer.
void add_format(CLI::Option_group& group, const char* name, const char* help, Format& format,
                Format value) {
  group.add_flag_callback(
      name, [&format, value] { format = value; }, help);
}

}  // namespace

Verb::Verb(VerbGroup group, Declare declare) {
  registered().push_back({group, declare});
}

std::vector<Choice> declare_verbs(CLI::App& app) {
  struct Declared {
    VerbGroup group;
    std::string name;
    Choice choice;
  };
  std::vector<Declared> declared;
  // CLI11 prints subcommands in the order in which they were added. Declare them in a separate app
  // first, and move them to `app` in sorted order.
  CLI::App unsorted;
  for (const Registered& entry : registered()) {
    Choice choice = entry.declare(unsorted);
    choice.verb->group(title(entry.group));
    // Another program parses calibrate and train a second time, and it does not have this option.
    if (entry.group != VerbGroup::measurements) {
      choice.verb->add_flag("-q,--quiet", quiet(), "Print errors only: no notes, no progress");
    }
    declared.push_back({entry.group, choice.verb->get_name(), std::move(choice)});
  }
  std::sort(declared.begin(), declared.end(), [](const Declared& a, const Declared& b) {
    return std::pair(a.group, a.name) < std::pair(b.group, b.name);
  });
  std::vector<Choice> choices;
  for (Declared& entry : declared) {
    app.add_subcommand(unsorted.get_subcommand_ptr(entry.choice.verb));
    choices.push_back(std::move(entry.choice));
  }
  return choices;
}

void add_formats(CLI::App& verb, CommonOptions& options, Formats formats) {
  CLI::Option_group& group = *verb.add_option_group("Output");
  if (formats != Formats::csv_markdown) {
    add_format(group, "--json", "One JSON document", options.format, Format::json);
  }
  if (formats != Formats::json) {
    add_format(group, "--csv", "CSV with a header line", options.format, Format::csv);
  }
  if (formats != Formats::json && formats != Formats::json_csv) {
    add_format(group, "--markdown", "Markdown tables", options.format, Format::markdown);
  }
  if (formats == Formats::all) {
    add_format(group, "--openmetrics", "Gauges of the errors by group, for a dashboard",
               options.format, Format::openmetrics);
  }
  group.require_option(0, 1);
}

void add_settings(CLI::App& verb, CommonOptions& options) {
  verb.add_option(
          "--set", options.settings,
          "Field and its value instead of the file's: batch.global=256; once for each field")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
}

void add_workers(CLI::App& verb, CommonOptions& options) {
  verb.add_option("-j,--jobs", options.workers,
                  "Number of parallel simulations (default: one per core)")
      ->check(CLI::Range(1, 4096));
}

void add_examples(CLI::App& verb, const std::vector<std::string>& examples) {
  std::string text = examples.size() == 1 ? "Example:" : "Examples:";
  for (const std::string& words : examples) {
    text += fmt::format("\n  lockstep {} {}", verb.get_name(), words);
  }
  verb.footer(text);
}

}  // namespace lockstep
