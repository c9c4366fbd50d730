// Declares the options of `lockstep acceptance`, and converts their texts to values. Quantities and
// bounds are checked here; names of stages, models and precisions are checked with the plan
// (plan.cpp).
#include "acceptance/options.hpp"

#include <fmt/format.h>

#include "cli/options.hpp"
#include "core/errors.hpp"
#include "core/units.hpp"

namespace lockstep {

CLI::App* declare_acceptance(CLI::App& app, AcceptanceText& text) {
  AcceptanceOptions& options = text.options;
  CLI::App& verb = *app.add_subcommand(
      "acceptance", "Measure a machine lent for minutes, and check predictions there (LibTorch)");
  verb.add_option("--device", options.device, "cpu, or cuda:0")->capture_default_str();
  verb.add_option("-o,--output", options.folder,
                  "Folder of all results; a further call with it goes on, also elsewhere");
  verb.add_option("--time-limit", text.time_limit,
                  "End by then, report included, e.g. 9min; exit code 3: call again");
  verb.add_option("--unit-limit", text.unit_limit,
                  "Stop a single unit that takes longer (default: 5 min; 60 min on a CPU)");
  verb.add_option("--stages", options.stages,
                  "Some of probes,models,validate,ranks,report (default: all)")
      ->delimiter(',');
  verb.add_option("--models", options.models, "Only these of the models that are measured")
      ->delimiter(',');
  verb.add_option("--precisions", options.precisions, "Only these of the precisions")
      ->delimiter(',');
  verb.add_flag("--quick", options.quick, "Few models, batches and steps: does everything work?");
  verb.add_flag("--again", options.again, "Drop earlier results of the chosen units");
  verb.add_flag("--list", options.list, "Only list the units, their times and existing results");
  verb.add_flag("--json", options.json, "The figures as one JSON document instead of the report");
  verb.footer(
      "Examples:\n"
      "  lockstep acceptance -o results --time-limit 9min\n"
      "  lockstep acceptance --list --models gpt2\n"
      "  lockstep acceptance --device cpu --quick -o results");
  return &verb;
}

AcceptanceOptions acceptance_options(const AcceptanceText& text) {
  AcceptanceOptions options = text.options;
  const std::string& device = options.device;
  const bool numbered = device.starts_with("cuda:") && device.size() > 5 && device.size() < 9 &&
                        device.find_first_not_of("0123456789", 5) == std::string::npos;
  if (device != "cpu" && device != "cuda" && !numbered) {
    throw file_error("", "--device", fmt::format("{} is not known", in_quotes(device)),
                     "cpu, or cuda:0");
  }
  const auto time = [](const char* option, const std::string& words, double& seconds) {
    if (words.empty()) return;
    seconds = parse_option(option, words, Dimension::seconds);
    if (!(seconds > 0)) {
      throw file_error("", option, fmt::format("{} is not possible", in_quotes(words)),
                       "more than 0 s, for example 9 min");
    }
  };
  time("--time-limit", text.time_limit, options.time_limit);
  time("--unit-limit", text.unit_limit, options.unit_limit);
  if (options.folder.empty() && !options.list) {
    throw file_error("", "--output", "where do the results go?", "for example -o results");
  }
  return options;
}

}  // namespace lockstep
