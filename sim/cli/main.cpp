// The program: parses the command line and hands over to one verb.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <sstream>

#include "cli/commands.hpp"
#include "cli/declarations.hpp"
#include "closed_loop/options.hpp"
#include "core/units.hpp"
#include "launch/measuring.hpp"
#include "launch/processes.hpp"

namespace {

using namespace lockstep;

constexpr const char* examples = R"(Examples:
  lockstep run scenarios/ovi2026/vgg16.yaml          predict every strategy and GPU count (well under a second)
  lockstep run my.yaml --json > result.json          the same for programs
  lockstep check my.yaml                             does it read, divide and fit?
  lockstep sweep my.yaml --set gpus=1..64*2          every combination of settings, in a file
  lockstep explain my.yaml                           why the numbers are what they are
  lockstep validate                                  predictions against all measured figures shipped
  lockstep list platforms                            what there is to choose from
  lockstep closed-loop --quick                       calibrate here, predict, train, compare: docs/closed-loop.md
  lockstep VERB --help                               options of a verb, and an example
Exit codes: 0 done, 1 a fault of the program, 2 wrong input, 3 nothing in the scenario fits, 4 --max-error exceeded,
5 a rank was killed or had no memory, 74 an answer or a file could not be written.
Files: docs/scenario-format.md, docs/model-format.md, docs/platform-format.md, docs/device-format.md.)";

struct Arguments {
  CommonOptions common;
  bool json = false, csv = false, markdown = false, fields = false, summary = false, layers = false;
  std::string file, what;
  std::vector<std::string> files;
  std::string max_error;
  ClosedLoopText loop;
  // Of the measuring half, whose program reads them again: here for their help.
  LayersText measured_layers;
  CollectivesText measured_collectives;
  TrainText train;
  ImportCollectivesOptions collectives;
  ImportTraceOptions trace;
  SweepArguments sweep;
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

void add_sweep(CLI::App& app, Arguments& arguments) {
  SweepArguments& options = arguments.sweep;
  auto* sweep = app.add_subcommand("sweep", "Predict every combination of settings of a scenario");
  auto* scenario = sweep->add_option("scenario", arguments.file, "Scenario file");
  auto* set = sweep
                  ->add_option("--set", options.settings,
                               "Field and its values: gpus=1,2,4..64*2; once for each field")
                  ->expected(1)
                  ->take_all();
  auto* sample =
      sweep->add_option("--sample", options.sample, "So many points of the grid, by chance")
          ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 40));
  sweep->add_option("--seed", options.seed, "Of the sample (default: 1)")->needs(sample);
  auto* shard = sweep->add_option("--shard", options.shard,
                                  "Only the K-th of N parts, K/N with K from 0 to N-1");
  auto* retry = sweep->add_flag("--retry-failed", options.retry_failed,
                                "Points that crashed or reached a limit before: again");
  auto* time = sweep->add_option("--time-limit", options.time_limit,
                                 "Of one point, e.g. 30s; it fails then");
  auto* memory = sweep->add_option("--memory-limit", options.memory_limit,
                                   "Of one worker process, e.g. 2GiB; the point fails then");
  auto* merge = sweep
                    ->add_option("--merge", options.merge,
                                 "Instead of a sweep: the files of its shards as one")
                    ->expected(1, 1 << 20);
  sweep->add_option("-o,--output", options.output,
                    "File of the rows; continues it if it is there (default: print)");
  sweep->add_flag("--csv", arguments.csv, "CSV instead of JSON lines");
  add_workers(sweep, arguments);
  for (CLI::Option* option : {scenario, set, sample, shard, retry, time, memory}) {
    merge->excludes(option);
  }
}

int dispatch(CLI::App& app, Arguments& arguments, char** argv) {
  arguments.common.format = arguments.json       ? Format::json
                            : arguments.csv      ? Format::csv
                            : arguments.markdown ? Format::markdown
                                                 : Format::text;
  const std::string verb = app.get_subcommands().front()->get_name();
  if (verb == "run") return run_command(arguments.file, arguments.common);
  if (verb == "check") return check_command(arguments.files, arguments.common);
  if (verb == "sweep") {
    if (arguments.file.empty() && arguments.sweep.merge.empty()) {
      throw file_error("", "scenario", "is required", "lockstep sweep SCENARIO --set gpus=1,2,4");
    }
    return sweep_command(arguments.file, arguments.sweep, arguments.common);
  }
  if (verb == "compare") return compare_command(arguments.files, arguments.common);
  if (verb == "list") return list_command(arguments.what, arguments.common);
  if (verb == "export") {
    return arguments.layers ? export_layers_command(arguments.file)
                            : export_command(arguments.file);
  }
  if (verb == "schema") return schema_command(arguments.what, arguments.fields);
  if (verb == "explain") return explain_command(arguments.files, arguments.common);
  if (verb == "closed-loop") return closed_loop_command(closed_loop_options(arguments.loop));
  if (verb == "calibrate" || verb == "train") become_measuring_program(verb, argv);
  if (verb == "import-collectives")
    return import_collectives_command(arguments.files, arguments.collectives);
  if (verb == "import-trace") return import_trace_command(arguments.file, arguments.trace);
  ValidateOptions options;
  options.summary_only = arguments.summary;
  if (!arguments.max_error.empty()) {
    options.max_error = parse_share("--max-error", arguments.max_error);
  }
  return validate_command(arguments.files, options, arguments.common);
}

// CLI11 would only say that a subcommand is missing.
void check_verb(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  const std::string word = argv[1];
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands({})) verbs.push_back(verb->get_name());
  if (std::find(verbs.begin(), verbs.end(), word) != verbs.end()) return;
  throw file_error("", "verb", fmt::format("{} is not known", in_quotes(word)),
                   allowed_hint(word, verbs));
}

}  // namespace

int main(int argc, char** argv) {
  occupy_standard_streams();
  CLI::App app{"Lockstep predicts what distributed training of a neural network costs."};
  app.name("lockstep");
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

  auto* schema = app.add_subcommand(
      "schema", "Print the JSON Schema (draft-07) of a file format or of JSON output");
  schema
      ->add_option("what", arguments.what,
                   "scenario, platform, device; result (of run --json), training (of train --json)")
      ->required()
      ->check(CLI::IsMember({"scenario", "platform", "device", "result", "training"}));
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

  add_sweep(app, arguments);
  add_imports(app, arguments);
  declare_closed_loop(app, arguments.loop);
  declare_collectives(*declare_layers(app, arguments.measured_layers),
                      arguments.measured_collectives);
  declare_train(app, arguments.train);
  // After the verbs, which would take it over: each has an example of its own.
  app.footer(examples);
  for (const auto& [verb, words] : std::map<std::string, const char*>{
           {"run", "scenarios/ovi2026/vgg16.yaml --json > result.json"},
           {"check", "my.yaml"},
           {"sweep",
            "my.yaml --set gpus=1,2,4..64*2 --set batch.global=64..1024*2 -o sweep.jsonl\n"
            "  lockstep sweep my.yaml --set 'strategies=ddp, fsdp: {version: 2}' --csv\n"
            "  lockstep sweep my.yaml --set strategies.ddp.bucket_size=1MiB..64MiB*4\n"
            "  lockstep sweep my.yaml --set gpus=1..64 --shard 0/2 -o 0.jsonl\n"
            "  lockstep sweep --merge 0.jsonl 1.jsonl -o sweep.jsonl"},
           {"compare", "before.yaml after.yaml --markdown"},
           {"list", "platforms"},
           {"export", "my.yaml > every-default.yaml"},
           {"schema", "scenario > scenario.schema.json"},
           {"validate", "--summary --max-error 25%"},
           {"explain", "my.yaml"},
           {"import-collectives", "all_reduce.txt --as a100-sxm4-80gb -o my-profile"},
           {"import-trace", "trace.json --model resnet50 --batch 32 -o my-profile"}}) {
    app.get_subcommand(verb)->footer(fmt::format("Example:\n  lockstep {} {}", verb, words));
  }

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
    return dispatch(app, arguments, argv);
  } catch (const ConfigError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  } catch (const OutputError& error) {
    fmt::print(stderr, "lockstep: {}\n", error.what());
    return exit_not_written;
  } catch (const RankLost& error) {
    fmt::print(stderr, "lockstep: {}\n", error.what());
    return exit_rank_lost;
  } catch (const std::exception& error) {
    fmt::print(stderr, "lockstep: {}\n", error.what());
    return 1;
  }
}
