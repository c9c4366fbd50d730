// `lockstep import-trace TRACE.json --model NAME --batch N`: layer times from a PyTorch profiler
// trace.
#include "imports/import_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "cli/commands.hpp"
#include "core/errors.hpp"
#include "core/units.hpp"
#include "imports/profile_folder.hpp"
#include "workload/model.hpp"

namespace lockstep {
namespace {

Precision precision_of(const std::string& name) {
  const auto& names = EnumNames<Precision>::names;
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    throw file_error("", "--precision", fmt::format("unknown precision {}", in_quotes(name)),
                     allowed_hint(name, {names.begin(), names.end()}));
  return static_cast<Precision>(found - names.begin());
}

std::string time(double seconds) {
  return human(seconds, Dimension::seconds);
}

void report(const TraceImport& imported) {
  const double parts =
      imported.forward_seconds + imported.backward_seconds + imported.optimizer_seconds;
  fmt::print(stderr,
             "{} steps, medians: step {}; forward {}, backward {}, optimizer {}: together {:.1f} % "
             "of the step\n",
             imported.steps, time(imported.step_seconds), time(imported.forward_seconds),
             time(imported.backward_seconds), time(imported.optimizer_seconds),
             100 * parts / imported.step_seconds);
  fmt::print(stderr, "attributed to layers and optimizer: {:.1f} % of {}\n",
             100 * imported.attributed, imported.on_gpu ? "the GPU's busy time" : "the step");
  for (const std::string& note : imported.notes) fmt::print(stderr, "note: {}\n", note);
}

}  // namespace

int import_trace_command(const std::string& file, const ImportTraceOptions& options) {
  StepOptions input;
  input.samples = options.batch;
  input.precision = precision_of(options.precision);
  input.image = options.image;
  input.sequence = options.sequence;
  input.classes = options.classes;
  const TrainingStep step = build_step(*load_model(options.model), input);
  const TraceImport imported = import_trace(file, step);
  Profile profile = open_profile(options.folder, options.device);
  take_device(profile, imported.profile.device);
  profile.date = imported.profile.date;
  profile.noise = imported.profile.noise;
  profile.host = imported.profile.host;
  for (const ProfileSetting& setting : imported.profile.settings)
    set_setting(profile, setting.name, setting.value);
  for (const ProfileModel& model : imported.profile.models) merge_model(profile, model);
  for (const ProfileOptimizer& optimizer : imported.profile.optimizers)
    merge_optimizer(profile, optimizer);
  report(imported);
  if (options.folder.empty())
    print(profile_text(profile));
  else
    fmt::print(stderr, "wrote {}\n", save_profile(options.folder, profile));
  return 0;
}

}  // namespace lockstep
