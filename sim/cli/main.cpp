// The program: parses the command line and hands over to one verb.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <sstream>

#include "cli/commands.hpp"
#include "core/units.hpp"

namespace {

using namespace lockstep;

constexpr const char* examples = R"(Examples:
  lockstep run scenarios/ovi2026/vgg16.yaml          predict every strategy and GPU count (well under a second)
  lockstep run my.yaml --json > result.json          the same for programs
  lockstep check my.yaml                             does it read, divide and fit?
  lockstep explain my.yaml                           why the numbers are what they are
  lockstep validate                                  predictions against all measured figures shipped
  lockstep list platforms                            what there is to choose from
  ./lockstep calibrate | train --help                the measuring half (needs LibTorch): docs/closed-loop.md
Exit codes: 0 done, 1 a fault of the program, 2 wrong input, 3 nothing in the scenario fits, 4 --max-error exceeded, 74 the answer cannot be written.
Files: docs/scenario-format.md, docs/model-format.md, docs/platform-format.md, docs/device-format.md.)";

struct Arguments {
  CommonOptions common;
  bool json = false, csv = false, markdown = false, fields = false, summary = false, layers = false;
  std::string file, what;
  std::vector<std::string> files;
  std::string max_error;
  ClosedLoopOptions loop;
  std::vector<std::string> slow_ranks;
  ImportCollectivesOptions collectives;
  ImportTraceOptions trace;
};

void add_formats(CLI::App* verb, Arguments& arguments, bool with_json, bool with_markdown) {
  auto* group = verb->add_option_group("Output");
  if (with_json) group->add_flag("--json", arguments.json, "One JSON document");
  group->add_flag("--csv", arguments.csv, "CSV with a header line");
  if (with_markdown) group->add_flag("--markdown", arguments.markdown, "Markdown tables");
  group->require_option(0, 1);
}

void add_workers(CLI::App* verb, Arguments& arguments) {
  verb->add_option("-j,--jobs", arguments.common.workers,
                   "Simulations at a time (default: one per core)")
      ->check(CLI::Range(1, 4096));
}

void add_imports(CLI::App& app, Arguments& arguments) {
  auto* collectives =
      app.add_subcommand("import-collectives", "Collective curves from the output of nccl-tests");
  collectives->add_option("files", arguments.files, "Text or JSON output (-J) of nccl-tests")
      ->required();
  collectives->add_option("--collective", arguments.collectives.input.collective,
                          "What was measured, where a file does not say: all_reduce, ...");
  collectives
      ->add_option("--ranks", arguments.collectives.input.ranks, "Ranks (default: as listed)")
      ->check(CLI::Range(2, 1 << 20));
  collectives
      ->add_option("--nodes", arguments.collectives.input.nodes, "Nodes (default: as listed)")
      ->check(CLI::Range(1, 1 << 20));
  collectives->add_option("--as", arguments.collectives.device,
                          "Device file that the profile belongs to");
  collectives->add_option("-o,--output", arguments.collectives.folder,
                          "Folder whose profile.yaml to add to (default: print)");

  ImportTraceOptions& options = arguments.trace;
  auto* trace =
      app.add_subcommand("import-trace", "Layer times from a PyTorch profiler trace (Kineto)");
  trace->add_option("trace", arguments.file, "Trace of training steps, JSON")->required();
  trace->add_option("--model", options.model, "Model that was trained")->required();
  trace->add_option("--batch", options.batch, "Samples per step")
      ->required()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  trace->add_option("--precision", options.precision, "Numeric mode (default: fp32)");
  trace->add_option("--image", options.image, "Channels, height, width (default: the model's)")
      ->expected(3);
  trace->add_option("--sequence", options.sequence, "Tokens per sample (default: the model's)");
  trace->add_option("--classes", options.classes, "Classes (default: the model's)");
  trace->add_option("--as", options.device, "Device file that the profile belongs to");
  trace->add_option("-o,--output", options.folder,
                    "Folder whose profile.yaml to add to (default: print)");
}

std::optional<double> parse_max_error(const Arguments& arguments) {
  if (arguments.max_error.empty()) return std::nullopt;
  try {
    const double value = parse_quantity(arguments.max_error, Dimension::fraction);
    if (value > 1 && arguments.max_error.find('%') == std::string::npos) {
      throw UnitError(
          fmt::format("{0} is {1:g} %; did you mean '{0}%'?", arguments.max_error, 100 * value));
    }
    return value;
  } catch (const UnitError& error) {
    throw file_error("", "--max-error", error.what());
  }
}

void add_closed_loop(CLI::App& app, Arguments& arguments) {
  ClosedLoopOptions& loop = arguments.loop;
  auto* verb = app.add_subcommand(
      "closed-loop", "Calibrate here, predict, train for real, compare (needs LibTorch)");
  verb->add_option("--model", loop.model, "Name or file")->capture_default_str();
  verb->add_option("--image", loop.image, "Channels, height, width, e.g. 3x32x32")
      ->delimiter('x')
      ->expected(3);
  verb->add_option("--classes", loop.classes, "Output classes");
  verb->add_option("--sequence", loop.sequence, "Tokens of a sample");
  verb->add_option("--batch", loop.batch, "Samples of one rank and step")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  verb->add_option("--ranks", loop.ranks, "Processes")
      ->check(CLI::Range(2, 64))
      ->capture_default_str();
  verb->add_option("--network", loop.network,
                   "loopback, or a rate such as 1Gbit (root: network namespaces)")
      ->capture_default_str();
  verb->add_option("--sizes", loop.sizes, "Of the measured collectives")->capture_default_str();
  verb->add_option("--strategies", loop.strategies,
                   "Some of ddp-25MiB,ddp-4MiB,fsdp,ps-sync,ps-async,ps-ssp")
      ->delimiter(',');
  verb->add_option("--staleness-bound", loop.staleness_bound, "Of ps-ssp")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  verb->add_option("--slow-rank", arguments.slow_ranks, "RANK:FACTOR, e.g. 1:1.5")->take_all();
  verb->add_option("--steps", loop.steps, "Measured steps of a repetition")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  verb->add_option("--repetitions", loop.repetitions, "Of every strategy, in turn")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  verb->add_option("-o,--output", loop.folder, "Folder for profile, platform and scenario");
  verb->add_flag("--keep-profile", loop.keep_profile, "Do not calibrate: take the one in --output");
  verb->add_option("--max-error", arguments.max_error,
                   "Fail (exit 4) when a step time is off by more, e.g. 10%");
}

int closed_loop(Arguments& arguments) {
  ClosedLoopOptions options = arguments.loop;
  for (const std::string& text : arguments.slow_ranks) {
    SlowRank slow;
    int used = 0;
    const int found = std::sscanf(text.c_str(), "%d:%lf%n", &slow.rank, &slow.factor, &used);
    if (found != 2 || text.size() != static_cast<std::size_t>(used) || slow.rank < 0 ||
        slow.rank >= options.ranks || !(slow.factor >= 1) || slow.factor > 1000) {
      throw file_error(
          "", "--slow-rank", fmt::format("{} is not possible", in_quotes(text)),
          fmt::format(
              "RANK:FACTOR with a rank from 0 to {} and a factor from 1 to 1000, e.g. 1:1.5",
              options.ranks - 1));
    }
    options.slow_ranks.push_back(slow);
  }
  if (options.keep_profile && options.folder.empty()) {
    throw file_error("", "--keep-profile", "needs --output, the folder with the profile");
  }
  options.max_error = parse_max_error(arguments);
  return closed_loop_command(options);
}

int dispatch(CLI::App& app, Arguments& arguments) {
  arguments.common.format = arguments.json       ? Format::json
                            : arguments.csv      ? Format::csv
                            : arguments.markdown ? Format::markdown
                                                 : Format::text;
  const std::string verb = app.get_subcommands().front()->get_name();
  if (verb == "run") return run_command(arguments.file, arguments.common);
  if (verb == "check") return check_command(arguments.files, arguments.common);
  if (verb == "compare") return compare_command(arguments.files, arguments.common);
  if (verb == "list") return list_command(arguments.what, arguments.common);
  if (verb == "export") {
    return arguments.layers ? export_layers_command(arguments.file)
                            : export_command(arguments.file);
  }
  if (verb == "schema") return schema_command(arguments.what, arguments.fields);
  if (verb == "explain") return explain_command(arguments.files, arguments.common);
  if (verb == "closed-loop") return closed_loop(arguments);
  if (verb == "import-collectives")
    return import_collectives_command(arguments.files, arguments.collectives);
  if (verb == "import-trace") return import_trace_command(arguments.file, arguments.trace);
  ValidateOptions options;
  options.summary_only = arguments.summary;
  options.max_error = parse_max_error(arguments);
  return validate_command(arguments.files, options, arguments.common);
}

// CLI11 would only say that a subcommand is missing.
void check_verb(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  const std::string word = argv[1];
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands({})) verbs.push_back(verb->get_name());
  if (std::find(verbs.begin(), verbs.end(), word) != verbs.end()) return;
  if (word == "calibrate" || word == "train") {
    throw file_error("", word, "a verb of the measuring half",
                     fmt::format("`./lockstep {0}` or `lockstep-calibrate {0}`", word));
  }
  throw file_error("", "verb", fmt::format("{} is not known", in_quotes(word)),
                   allowed_hint(word, verbs));
}

}  // namespace

int main(int argc, char** argv) {
  occupy_standard_streams();
  CLI::App app{"Lockstep predicts what distributed training of a neural network costs."};
  app.name("lockstep");
  app.footer(examples);
  app.set_version_flag("--version", LOCKSTEP_VERSION);
  app.require_subcommand(1);
  Arguments arguments;

  auto* run = app.add_subcommand("run", "Predict every strategy and GPU count of a scenario");
  run->add_option("scenario", arguments.file, "Scenario file")->required();
  add_formats(run, arguments, true, false);
  add_workers(run, arguments);

  auto* check = app.add_subcommand("check", "Read scenarios and tell whether they divide and fit");
  check->add_option("scenarios", arguments.files, "Scenario files")->required();
  add_workers(check, arguments);

  auto* compare = app.add_subcommand(
      "compare", "Compare the strategies of one scenario, or two scenarios point by point");
  compare->add_option("scenarios", arguments.files, "One or two scenario files")
      ->required()
      ->expected(1, 2);
  add_formats(compare, arguments, false, true);
  add_workers(compare, arguments);

  auto* list = app.add_subcommand("list", "Show what there is to choose from");
  list->add_option("what", arguments.what, "models, devices, platforms, strategies or scenarios")
      ->required()
      ->check(CLI::IsMember({"models", "devices", "platforms", "strategies", "scenarios"}));
  add_formats(list, arguments, false, true);

  auto* export_verb =
      app.add_subcommand("export", "Print a scenario with every default written out");
  export_verb->add_option("scenario", arguments.file, "Scenario file")->required();
  export_verb->add_flag("--layers", arguments.layers,
                        "JSON instead: layers, parameters, buckets or units of every point");

  auto* schema = app.add_subcommand("schema", "Print the JSON Schema (draft-07) of a file format");
  schema->add_option("what", arguments.what, "scenario, platform or device")
      ->required()
      ->check(CLI::IsMember({"scenario", "platform", "device"}));
  schema->add_flag("--fields", arguments.fields, "A Markdown table of the fields instead");

  auto* validate =
      app.add_subcommand("validate", "Compare predictions with measured figures in scenarios");
  validate->add_option("scenarios", arguments.files, "Scenario files (default: all shipped)");
  validate->add_option("--max-error", arguments.max_error,
                       "Fail (exit 4) when a row is off by more, e.g. 10%");
  validate->add_flag("--summary", arguments.summary,
                     "Only the errors by group, not every row (text and Markdown)");
  add_formats(validate, arguments, true, true);
  add_workers(validate, arguments);

  auto* explain = app.add_subcommand(
      "explain",
      "Say why: attribution of the step, sensitivity to each input, origin of the costs");
  explain
      ->add_option("scenarios", arguments.files, "One scenario, or two to explain the difference")
      ->required()
      ->expected(1, 2);
  add_formats(explain, arguments, false, true);
  add_workers(explain, arguments);

  add_imports(app, arguments);
  add_closed_loop(app, arguments);

  try {
    try {
      check_verb(app, argc, argv);
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {  // help and version, too
      std::ostringstream out;
      const int code = app.exit(error, out);
      print(out.str());
      return code == 0 ? 0 : 2;
    }
    return dispatch(app, arguments);
  } catch (const ConfigError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  } catch (const OutputError& error) {
    fmt::print(stderr, "lockstep: {}\n", error.what());
    return exit_output;
  } catch (const std::exception& error) {
    fmt::print(stderr, "lockstep: {}\n", error.what());
    return 1;
  }
}
