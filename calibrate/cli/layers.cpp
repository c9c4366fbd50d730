// Implements `lockstep calibrate`: measures layers, updates and copies for a list of models, and
// writes them to a profile. The profile is saved after every job, so that an interruption loses one
// job at most.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/declarations.hpp"
#include "cli/layers_digest.hpp"
#include "cli/verbs.hpp"
#include "core/errors.hpp"
#include "core/output.hpp"
#include "core/units.hpp"
#include "imports/profile_folder.hpp"
#include "launch/interrupts.hpp"
#include "launch/machine_state.hpp"
#include "launch/processes.hpp"
#include "torch/devices.hpp"
#include "torch/versions.hpp"

namespace lockstep {

namespace {

using nlohmann::json;

// Results of a job's ranks, or the reason for having none.
struct Answers {
  std::vector<json> ranks;  // empty if the job was skipped or interrupted
  std::string skipped;
};

// The exit code of a rank that SIGKILL ended. We send SIGKILL only after a rank has failed, so a
// first failure by SIGKILL comes from the kernel for lack of memory, or from another program. The
// remaining batches are still measured.
constexpr int killed = 128 + 9;

Answers measure(LayersJob job) {
  const RunFolder folder;
  job.folder = folder.path().string();
  auto ranks = pinned_ranks(job.ranks, [&](int rank) {
    LayersJob own = job;
    own.rank = rank;
    own.result_file = layers_result_file(job.folder, rank);
    return worker_arguments("layers", to_words(own));
  });
  if (job.device != "cpu") unpin(ranks);
  const LaunchEnd end = run_processes(ranks);
  Answers answers;
  if (end.how == LaunchEnd::How::interrupted) return answers;
  if (end.how == LaunchEnd::How::failed) {
    if (end.exit_code != killed) throw_failure(end, end.message);
    print_error("{}\n", end.message);
    answers.skipped = "killed (signal 9), out of memory perhaps";
    return answers;
  }
  for (int rank = 0; rank < job.ranks; ++rank) {
    std::ifstream file(layers_result_file(job.folder, rank));
    json value = json::parse(file);
    if (value.contains("out_of_memory")) {
      answers.skipped = "out of memory";
      print_error("rank {}: {}\n", rank, value["out_of_memory"].get<std::string>());
    }
    answers.ranks.push_back(std::move(value));
  }
  if (!answers.skipped.empty()) answers.ranks.clear();
  return answers;
}

void describe_setting(Profile& profile, const LayersText& options) {
  const std::time_t now = std::time(nullptr);
  std::tm date{};
  ::localtime_r(&now, &date);
  profile.date =
      fmt::format("{:04}-{:02}-{:02}", date.tm_year + 1900, date.tm_mon + 1, date.tm_mday);
  for (const auto& version : library_versions())
    set_version(profile, version.name, version.version);
  for (const auto& variable : measuring_environment()) {
    set_setting(profile, variable.name, variable.value);
  }
  const MachineDescription machine = describe_machine();
  set_setting(profile, "cpu", machine.cpu);
  set_setting(profile, "cores", std::to_string(machine.cores));
  set_setting(profile, "kernel", machine.kernel);
  if (!machine.governor.empty()) set_setting(profile, "governor", machine.governor);
  set_setting(profile, "layers_device", options.device);
  set_setting(profile, "layers_ranks_at_once", std::to_string(options.ranks));
  set_setting(profile, "layers_pause", options.pause);
}

std::string table(const std::vector<Measured>& lines) {
  std::string text =
      fmt::format("{:<20} {:>9} {:>6} {:>5} {:>9} {:>9} {:>9} {:>7} {:>7} {:>11} {:>11}\n", "model",
                  "precision", "batch", "reps", "forward", "backward", "update", "IQR", "sigma",
                  "layers/step", "peak");
  for (const Measured& line : lines) {
    text += fmt::format("{:<20} {:>9} {:>6} ", line.model, line.precision, line.batch);
    if (!line.skipped.empty()) {
      text += fmt::format("skipped: {}\n", line.skipped);
      continue;
    }
    const auto time = [](double seconds) { return human(seconds, Dimension::seconds); };
    text += fmt::format(
        "{:>5} {:>9} {:>9} {:>9} {:>5.1f} % {:>5.1f} % {:>11.3f} {:>11}{}\n", line.repetitions,
        time(line.forward), time(line.backward), time(line.update), 100 * line.spread,
        100 * line.step_sigma, line.layers_over_step, human(line.peak, Dimension::bytes),
        line.disturbed > 0 ? fmt::format("  ({} disturbed repetitions)", line.disturbed) : "");
  }
  return text;
}

std::int64_t parse_batch(const std::string& text) {
  const double samples = parse_option("--batches", text, Dimension::count);
  if (samples < 1 || samples > 1 << 20 || samples != std::floor(samples)) {
    throw file_error("", "--batches", fmt::format("{} is not possible", in_quotes(text)),
                     "whole numbers of samples from 1 to 1048576");
  }
  return static_cast<std::int64_t>(samples);
}

std::vector<HookSettings> hooks_of(const LayersText& options) {
  std::vector<HookSettings> hooks;
  for (const std::string& name : options.comm_hooks) {
    if (options.ranks < 2) {
      throw file_error("", "--comm-hooks", "one rank sends no gradients", "for example --ranks 2");
    }
    if (options.device != "cpu") {
      throw file_error("", "--comm-hooks", "are measured on CPUs", "--device cpu");
    }
    hooks.push_back(options.hook.settings(options.ranks));
    hooks.back().hook = parse_name<CodedHook>("--comm-hooks", name);
  }
  return hooks;
}

std::vector<LayersJob> jobs_of(const LayersText& options) {
  if (options.models.empty()) {
    throw file_error("", "--models", "whose layers?", "for example --models resnet18,vgg16");
  }
  std::vector<LayersJob> jobs;
  LayersJob job, of_largest;
  job.ranks = options.ranks;
  job.device = options.device;
  job.optimizer = options.optimizer.spec();
  job.rule.relative_width = parse_share("--width", options.width);
  if (!(job.rule.relative_width > 0)) {
    throw file_error("", "--width", fmt::format("{} is too narrow", in_quotes(options.width)),
                     "more than 0 %, for example 2%");
  }
  job.rule.minimum = options.minimum;
  job.rule.maximum = std::max(job.rule.minimum, options.maximum);
  job.most_seconds = parse_option("--most-time", options.most_time, Dimension::seconds);
  job.pause_seconds = parse_option("--pause", options.pause, Dimension::seconds);
  if (job.pause_seconds < 0 || job.pause_seconds > 60) {
    throw file_error("", "--pause", fmt::format("{} is not possible", in_quotes(options.pause)),
                     "0 s to 1 min, for example 100ms");
  }
  job.step = options.input.step_options();
  adapt_to_library(job.step);
  for (const std::string& model : split(options.models, ',')) {
    for (const std::string& precision : split(options.precisions, ',')) {
      for (const std::string& batch : split(options.batches, ',')) {
        job.model = model;
        job.step.precision = parse_precision(precision);
        job.step.samples = parse_batch(batch);
        const TrainingStep step = build_step(*load_model(model), job.step);
        if (step.parameter_count > job.most_elements) of_largest = job;
        job.most_elements = std::max(job.most_elements, step.parameter_count);
        jobs.push_back(job);
      }
    }
  }
  for (const HookSettings& hook : hooks_of(options)) {
    jobs.push_back(of_largest);
    jobs.back().hook = hook;
  }
  if (options.layers_only) return jobs;
  // Copies and updates are measured for sizes up to the largest model's.
  job.model.clear();
  job.step.precision = Precision::fp32;
  job.most_elements = std::max<std::int64_t>(2 * job.most_elements, 1 << 20);
  jobs.push_back(job);
  return jobs;
}

// The device file to which the profile belongs. For a GPU it is that of the existing profile, which
// lockstep-calibrate-cuda has determined.
std::string device_of(const LayersText& options) {
  if (!options.device_file.empty()) return options.device_file;
  if (options.device == "cpu") return "cpu-core";
  const std::string known = options.folder.empty() ? "" : open_profile(options.folder, "").device;
  if (known.empty()) {
    throw file_error("", "--as", "which device file does the profile belong to?",
                     "for example h200-sxm; `lockstep list devices` shows all; "
                     "`lockstep-calibrate-cuda -o FOLDER` finds it out");
  }
  return known;
}

int run(const LayersText& options) {
  check_device(options.device);
  const std::vector<LayersJob> jobs = jobs_of(options);
  for (const LayersJob& job : jobs) {
    check_precision("--precisions", job.step.precision, options.device);
  }
  Profile profile = open_profile(options.folder, device_of(options));
  profile.noise = {};  // only of this run; otherwise the worst value of all runs would remain
  describe_setting(profile, options);
  const InterruptGuard guard;
  std::vector<Measured> lines;
  const auto keep = [&](bool complete) {
    set_setting(profile, "layers_complete", complete ? "yes" : "no, interrupted");
    summarise_models(profile);
    std::sort(profile.optimizers.begin(), profile.optimizers.end(),
              [](const auto& a, const auto& b) { return a.elements < b.elements; });
    if (!options.folder.empty()) save_profile(options.folder, profile);
  };
  keep(false);  // an unwritable folder must be reported at once, not after minutes
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const LayersJob& job = jobs[i];
    const std::string what =
        job.hook            ? fmt::format("{} of {}", enum_name(job.hook->hook), job.model)
        : job.model.empty() ? "copies and updates"
                            : fmt::format("{} {} batch {}", job.model,
                                          enum_name(job.step.precision), job.step.samples);
    print_error("[{}/{}] {} ...\n", i + 1, jobs.size(), what);
    const Answers answers = measure(job);
    if (answers.ranks.empty() && answers.skipped.empty()) {
      keep(false);
      print(table(lines));
      print_error("interrupted; the results so far are {}\n",
                  options.folder.empty() ? "above" : "in " + options.folder + "/profile.yaml");
      return exit_interrupted;
    }
    if (!answers.skipped.empty()) print_error("skipped: {}\n", answers.skipped);
    if (job.hook) {
      if (answers.skipped.empty()) digest_hook(job, answers.ranks, profile);
    } else if (!job.model.empty()) {
      Measured line;
      line.model = job.model;
      line.precision = enum_name(job.step.precision);
      line.batch = job.step.samples;
      line.skipped = answers.skipped;
      if (line.skipped.empty()) digest(job, answers.ranks, profile, line);
      lines.push_back(line);
    } else if (answers.skipped.empty()) {
      digest_streams(job, answers.ranks, profile);
    }
    keep(i + 1 == jobs.size());
  }
  print(table(lines));
  if (!options.folder.empty()) print_error("wrote {}/profile.yaml\n", options.folder);
  return 0;
}

}  // namespace

void add_layers(CLI::App& app, Chosen& chosen) {
  const auto text = std::make_shared<LayersText>();
  CLI::App* verb = declare_layers(app, *text);
  add_collectives(*verb, chosen);
  verb->callback([verb, text, &chosen] {
    if (verb->get_subcommands().empty()) chosen = [text] { return run(*text); };
  });
}

}  // namespace lockstep
