// `lockstep import-trace TRACE --model NAME --batch N` reads layer times from a PyTorch profiler
// trace (Kineto) into a profile, or compares them with modelled times.
//
//   lockstep import-trace trace.json.gz --model resnet50 --batch 32 -o my-profile
//   lockstep import-trace trace.json --model gpt2 --batch 8 --as v100-sxm2-32gb --compare kinds
//
// The operators of the trace are matched with the layers of the named model in the order of
// execution. Notes say which share of the time could be attributed.
#include "imports/import_trace.hpp"

#include <fmt/format.h>

#include <map>
#include <optional>

#include "cli/options.hpp"
#include "cli/verb.hpp"
#include "core/errors.hpp"
#include "core/units.hpp"
#include "hardware/machine.hpp"
#include "imports/compared_layers.hpp"
#include "imports/profile_folder.hpp"
#include "results/cells.hpp"
#include "results/table.hpp"
#include "workload/model.hpp"

namespace lockstep::import_trace_verb {
namespace {

struct Arguments {
  std::string file, model, precision = "fp32", device, folder;
  std::int64_t batch = 0;
  std::vector<std::int64_t> image;  // channels, height, width; empty = the model's default
  // 0 = the model's default.
  std::int64_t sequence = 0, classes = 0;
  TraceParts parts;
  std::optional<ComparedBy> compare;
  CommonOptions common;
};

// Seconds for people.
std::string time(double seconds) {
  return human(seconds, Dimension::seconds);
}

// Prints the parts of the step and the attributed share.
void report(const TraceImport& imported) {
  const double parts =
      imported.forward_seconds + imported.backward_seconds + imported.optimizer_seconds;
  note(fmt::format(
      "{} step{}, medians: step {}; forward {}, backward {}, optimizer {}: together {:.1f} % "
      "of the step",
      imported.steps, imported.steps == 1 ? "" : "s", time(imported.step_seconds),
      time(imported.forward_seconds), time(imported.backward_seconds),
      time(imported.optimizer_seconds), 100 * parts / imported.step_seconds));
  note(fmt::format("attributed to layers and optimizer: {:.1f} % of {}", 100 * imported.attributed,
                   imported.on_gpu ? "the GPU's busy time" : "the step"));
  for (const std::string& remark : imported.notes) note("note: " + remark);
}

// Adds the cells of one pass: measured, modelled, error. `figures` chooses plain seconds and shares
// for programs, instead of values with units for people.
void add_times(std::vector<std::string>& cells, const DeviceTimes& times, bool figures) {
  for (const double seconds : {times.measured, times.modelled}) {
    cells.push_back(figures ? fmt::format("{}", seconds) : seconds > 0 ? time(seconds) : "-");
  }
  cells.push_back(times.measured <= 0 ? figures ? "" : "-"
                  : figures           ? fmt::format("{}", times.error())
                                      : fmt::format("{:+.1f} %", 100 * times.error()));
}

// The table of --compare: measured and modelled device time by layer or by kind of layer.
Table compared_table(const std::vector<ComparedLayers>& compared, ComparedBy by, bool figures) {
  const bool kinds = by == ComparedBy::kinds, backward = compared.back().backward.has_value();
  std::vector<Table::Column> columns{{kinds ? "kind" : "layer", Table::Align::left}};
  if (kinds) columns.push_back({"layers"});
  for (const std::string pass : {"forward", "backward"}) {
    if (pass == "backward" && !backward) continue;
    // Programs identify columns only by their names, so the names must be unique.
    const std::string prefix = figures ? pass + "_" : "", unit = figures ? "_s" : "";
    columns.push_back({pass + unit});
    columns.push_back({prefix + "modelled" + unit});
    columns.push_back({prefix + "error"});
  }
  Table table(columns);
  for (const ComparedLayers& each : compared) {
    std::vector<std::string> cells{each.name};
    if (kinds) cells.push_back(fmt::format("{}", each.layers));
    add_times(cells, each.forward, figures);
    if (backward) add_times(cells, *each.backward, figures);
    table.add_row(cells);
  }
  return table;
}

// Prints the table, with the device in its title.
void print_compared(const TraceImport& imported, const TrainingStep& step,
                    const Arguments& options) {
  const Device device = load_device(options.device);
  const ProfileBatch& measured = imported.profile.models.front().batches.front();
  const Table table = compared_table(compare_layers(measured, step, device, *options.compare),
                                     *options.compare, options.common.format == Format::csv);
  if (options.common.format == Format::text)
    print(fmt::format("Device time of {}'s layers, of the trace and as modelled for {}\n\n",
                      step.model, device.name));
  print(rendered(table, options.common.format));
}

// Imports the trace for the model, merges its measurements into the profile, and prints or writes
// the profile or the comparison.
int import_layers(const Arguments& options) {
  if (!options.compare && options.common.format != Format::text)
    throw file_error("", options.common.format == Format::csv ? "--csv" : "--markdown",
                     "is for the table of --compare", "a profile is YAML");
  if (options.compare && options.device.empty())
    throw file_error("", "--compare", "needs --as, the device that the model is asked about",
                     "a name of `lockstep list devices`, or a device file");

  StepOptions input;
  input.samples = options.batch;
  input.precision = parse_precision(options.precision);
  input.image = options.image;
  input.sequence = options.sequence;
  input.classes = options.classes;
  const TrainingStep step = build_step(*load_model(options.model), input);
  const TraceImport imported = import_trace(options.file, step, options.parts);
  // Merge into the profile of the folder, so that its measurements of other models remain.
  Profile profile = open_profile(options.folder, options.device);
  if (const auto device_note = take_device(profile, imported.profile.device))
    note("note: " + *device_note);
  profile.date = imported.profile.date;
  profile.noise = imported.profile.noise;
  profile.host = imported.profile.host;
  for (const ProfileSetting& setting : imported.profile.settings)
    set_setting(profile, setting.name, setting.value);
  for (const ProfileModel& model : imported.profile.models) merge_model(profile, model);
  for (const ProfileOptimizer& optimizer : imported.profile.optimizers)
    merge_optimizer(profile, optimizer);
  report(imported);
  if (!options.folder.empty()) note("wrote " + save_profile(options.folder, profile));
  if (options.compare)
    print_compared(imported, step, options);
  else if (options.folder.empty())
    print(profile_text(profile));
  return 0;
}

Choice declare(CLI::App& app) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& verb =
      *app.add_subcommand("import-trace", "Layer times from a PyTorch profiler trace (Kineto)");
  verb.add_option("trace", arguments->file, "Trace of training steps: .json, .json.gz")->required();
  verb.add_option("--model", arguments->model, "Model that was trained")->required();
  verb.add_option("--batch", arguments->batch, "Samples per step")
      ->required()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  verb.add_option("--precision", arguments->precision, "Numeric mode (default: fp32)");
  verb.add_option("--image", arguments->image, "Channels, height, width (default: the model's)")
      ->expected(3);
  verb.add_option("--sequence", arguments->sequence, "Tokens per sample (default: the model's)");
  verb.add_option("--classes", arguments->classes, "Classes (default: the model's)");
  verb.add_option("--step", arguments->parts.step,
                  "Annotation around the part that repeats, * for any text (default: "
                  "ProfilerStep#*, or else the time up to the end of each Optimizer.step)");
  verb.add_flag("--forward-only", arguments->parts.forward_only,
                "The repeated part is only a forward pass: no backward times");
  verb.add_option("--as", arguments->device, "Device file that the profile belongs to");
  verb.add_option("-o,--output", arguments->folder,
                  "Folder with the profile.yaml to extend (default: print)");
  verb.add_option("--compare", arguments->compare,
                  "Instead of the profile: its layers beside the modelled layers of --as")
      ->transform(CLI::CheckedTransformer(std::map<std::string, ComparedBy>{
          {"kinds", ComparedBy::kinds}, {"layers", ComparedBy::layers}}));
  add_formats(verb, arguments->common, Formats::csv_markdown);
  add_examples(verb, {"trace.json.gz --model resnet50 --batch 32 -o my-profile",
                      "trace.json.gz --model resnet50 --batch 32 --as v100-sxm2-32gb "
                      "--compare kinds",
                      "trace.json --model gpt2 --batch 8 --step 'training step *'"});
  return {&verb, [arguments] { return import_layers(*arguments); }};
}
const Verb verb{VerbGroup::measurements, declare};

}  // namespace

}  // namespace lockstep::import_trace_verb
