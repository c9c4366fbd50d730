// lockstep-calibrate calibrate: layer times, updates and copies of a list of models, into a
// profile.
#include "cli/layers.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/options.hpp"
#include "cli/verbs.hpp"
#include "core/errors.hpp"
#include "core/statistics.hpp"
#include "core/units.hpp"
#include "imports/profile_folder.hpp"
#include "launch/interrupts.hpp"
#include "launch/machine_state.hpp"
#include "launch/processes.hpp"
#include "torch/versions.hpp"

namespace lockstep {

namespace {

using nlohmann::json;

struct Options {
  std::string device = "cpu", device_file, models, batches = "8", precisions = "fp32";
  std::string folder;
  int ranks = 1;
  std::string width = "2%", most_time = "60 s";
  int minimum = 10, maximum = 100;
  InputText input;
  OptimizerText optimizer;
};

// One line of the summary that is printed at the end.
struct Measured {
  std::string model, precision;
  std::int64_t batch = 0;
  std::size_t repetitions = 0, disturbed = 0;
  double forward = 0, backward = 0, update = 0;  // plain, medians
  double layers_over_step = 0;                   // sum of the layers' medians / plain step
  double spread = 0;                             // interquartile range / median of the step
  double layer_spread = 0;                       // median over layers of (p90 - median) / median
  double peak = 0, saved = 0;                    // bytes
  std::string skipped;                           // why nothing was measured
};

// Samples of all ranks, without those that others disturbed unless most were.
std::vector<json> pooled(const std::vector<json>& ranks, std::size_t& disturbed) {
  std::vector<json> calm, all;
  for (const json& rank : ranks) {
    for (const json& sample : rank.at("samples")) {
      all.push_back(sample);
      if (sample.at("calm").get<bool>()) calm.push_back(sample);
    }
  }
  disturbed = all.size() - calm.size();
  return 2 * calm.size() >= all.size() ? calm : all;
}

template <class Get>
std::vector<double> each(const std::vector<json>& samples, const Get& get) {
  std::vector<double> values;
  for (const json& sample : samples) values.push_back(get(sample));
  return values;
}

double spread(const std::vector<double>& values) {
  return (quantile(values, 0.75) - quantile(values, 0.25)) / median(values);
}

// The layers' medians of the observed steps, scaled so that they add up to the plain step's forward
// and backward: what the observer costs is taken out in proportion.
ProfileBatch layer_medians(const TrainingStep& step, const std::vector<json>& samples,
                           Measured& line) {
  ProfileBatch batch;
  batch.samples = step.samples;
  std::vector<double> spreads;
  double forward = 0, backward = 0;
  for (std::size_t i = 0; i < step.layers.size(); ++i) {
    const auto f = each(samples, [&](const json& s) { return s["forward"][i].get<double>(); });
    const auto b = each(samples, [&](const json& s) { return s["backward"][i].get<double>(); });
    batch.layers.push_back({step.layers[i].name, median(f), median(b)});
    forward += batch.layers.back().forward_seconds;
    backward += batch.layers.back().backward_seconds;
    for (const auto* times : {&f, &b}) {
      if (median(*times) > 2e-4) spreads.push_back(quantile(*times, 0.9) / median(*times) - 1);
    }
  }
  line.layer_spread = spreads.empty() ? 0 : median(spreads);
  line.layers_over_step = (forward + backward) / (line.forward + line.backward);
  for (ProfileLayer& layer : batch.layers) {
    if (forward > 0) layer.forward_seconds *= line.forward / forward;
    if (backward > 0) layer.backward_seconds *= line.backward / backward;
  }
  return batch;
}

int trainable_tensors(const TrainingStep& step) {
  int count = 0;
  for (const Layer& layer : step.layers) {
    for (const Parameter& parameter : layer.parameters) count += parameter.trainable ? 1 : 0;
  }
  return count;
}

ProfileOptimizer optimizer_entry(const OptimizerSpec& spec, Precision precision) {
  ProfileOptimizer entry;
  entry.name = spec.name;
  entry.implementation = spec.implementation;
  entry.momentum = spec.momentum != 0;
  entry.precision = precision;
  return entry;
}

void digest(const LayersJob& job, const std::vector<json>& ranks, Profile& profile,
            Measured& line) {
  if (ranks.front().contains("out_of_memory")) {
    line.skipped = "out of memory";
    return;
  }
  const TrainingStep step = build_step(*load_model(job.model), job.step);
  const std::vector<json> samples = pooled(ranks, line.disturbed);
  line.repetitions = samples.size();
  line.forward = median(each(samples, [](const json& s) { return s["plain"][0].get<double>(); }));
  line.backward = median(each(samples, [](const json& s) { return s["plain"][1].get<double>(); }));
  line.update = median(each(samples, [](const json& s) { return s["optimizer"].get<double>(); }));
  line.spread = spread(each(samples, [](const json& s) {
    return s["plain"][0].get<double>() + s["plain"][1].get<double>();
  }));
  line.saved = ranks.front()["memory"][3];
  line.peak = ranks.front()["memory"][5];

  ProfileModel model;
  model.model = step.model;
  model.precision = step.precision;
  model.input_bytes_per_sample = step.input_bytes / static_cast<double>(step.samples);
  model.batches.push_back(layer_medians(step, samples, line));
  merge_model(profile, model);
  ProfileOptimizer entry = optimizer_entry(job.optimizer, step.precision);
  entry.elements = static_cast<double>(step.parameter_count);
  entry.tensors = trainable_tensors(step);
  entry.seconds = line.update;
  merge_optimizer(profile, entry);
  // The noise of the whole profile: of its noisiest part.
  profile.noise.relative_spread = std::max(profile.noise.relative_spread, line.layer_spread);
  profile.noise.samples = profile.noise.samples == 0
                              ? static_cast<int>(samples.size())
                              : std::min(profile.noise.samples, static_cast<int>(samples.size()));
}

void digest_streams(const LayersJob& job, const std::vector<json>& ranks, Profile& profile) {
  const auto medians = [&](const char* what) {
    std::vector<std::pair<double, double>> points;
    for (std::size_t i = 0; i < ranks.front().at(what).size(); ++i) {
      std::vector<double> seconds;
      for (const json& rank : ranks) {
        for (const json& value : rank.at(what)[i][1]) seconds.push_back(value);
      }
      points.emplace_back(ranks.front().at(what)[i][0].get<double>(), median(seconds));
    }
    return points;
  };
  profile.copies.clear();
  for (const auto& [bytes, seconds] : medians("copies")) profile.copies.push_back({bytes, seconds});
  for (const auto& [bytes, seconds] : medians("updates")) {
    ProfileOptimizer entry = optimizer_entry(job.optimizer, Precision::fp32);
    entry.elements = bytes / 4;
    entry.seconds = seconds;
    merge_optimizer(profile, entry);
  }
}

// Starts the job's ranks; the values they wrote, or nothing when the user interrupted.
std::vector<json> measure(LayersJob job) {
  const RunFolder folder;
  job.folder = folder.path().string();
  const LaunchEnd end = run_processes(pinned_ranks(job.ranks, [&](int rank) {
    LayersJob own = job;
    own.rank = rank;
    own.result_file = layers_result_file(job.folder, rank);
    return worker_arguments("layers", to_words(own));
  }));
  if (end.how == LaunchEnd::How::interrupted) return {};
  if (end.how == LaunchEnd::How::failed) throw std::runtime_error(end.message);
  std::vector<json> values;
  for (int rank = 0; rank < job.ranks; ++rank) {
    std::ifstream file(layers_result_file(job.folder, rank));
    values.push_back(json::parse(file));
  }
  return values;
}

void describe_setting(Profile& profile, const Options& options) {
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
}

std::string table(const std::vector<Measured>& lines) {
  std::string text = fmt::format("{:<20} {:>9} {:>6} {:>5} {:>9} {:>9} {:>9} {:>7} {:>11} {:>11}\n",
                                 "model", "precision", "batch", "reps", "forward", "backward",
                                 "update", "IQR", "layers/step", "peak");
  for (const Measured& line : lines) {
    text += fmt::format("{:<20} {:>9} {:>6} ", line.model, line.precision, line.batch);
    if (!line.skipped.empty()) {
      text += fmt::format("skipped: {}\n", line.skipped);
      continue;
    }
    const auto time = [](double seconds) { return human(seconds, Dimension::seconds); };
    text += fmt::format(
        "{:>5} {:>9} {:>9} {:>9} {:>5.1f} % {:>11.3f} {:>11}{}\n", line.repetitions,
        time(line.forward), time(line.backward), time(line.update), 100 * line.spread,
        line.layers_over_step, human(line.peak, Dimension::bytes),
        line.disturbed > 0 ? fmt::format("  ({} disturbed repetitions)", line.disturbed) : "");
  }
  return text;
}

std::vector<LayersJob> jobs_of(const Options& options) {
  std::vector<LayersJob> jobs;
  LayersJob job;
  job.ranks = options.ranks;
  job.device = options.device;
  job.optimizer = options.optimizer.spec();
  job.rule.relative_width = parse_option("--width", options.width, Dimension::fraction);
  job.rule.minimum = std::max(6, options.minimum);
  job.rule.maximum = std::max(job.rule.minimum, options.maximum);
  job.most_seconds = parse_option("--most-time", options.most_time, Dimension::seconds);
  job.step = options.input.step_options();
  for (const std::string& model : split(options.models, ',')) {
    for (const std::string& precision : split(options.precisions, ',')) {
      for (const std::string& batch : split(options.batches, ',')) {
        job.model = model;
        job.step.precision = parse_precision(precision);
        job.step.samples =
            static_cast<std::int64_t>(parse_option("--batches", batch, Dimension::count));
        const TrainingStep step = build_step(*load_model(model), job.step);
        job.most_elements = std::max(job.most_elements, step.parameter_count);
        jobs.push_back(job);
      }
    }
  }
  // Copies and updates by size: up to the largest model.
  job.model.clear();
  job.step.precision = Precision::fp32;
  job.most_elements = std::max<std::int64_t>(2 * job.most_elements, 1 << 20);
  jobs.push_back(job);
  return jobs;
}

int run(const Options& options) {
  const std::vector<LayersJob> jobs = jobs_of(options);
  const std::string device =
      !options.device_file.empty() ? options.device_file
      : options.device == "cpu"
          ? "cpu-core"
          : throw file_error("", "--as", "which device file does the profile belong to?",
                             "for example h200-sxm; `lockstep list devices` shows all");
  Profile profile = open_profile(options.folder, device);
  describe_setting(profile, options);
  const InterruptGuard guard;
  std::vector<Measured> lines;
  const auto keep = [&](bool complete) {
    set_setting(profile, "layers_complete", complete ? "yes" : "no, interrupted");
    std::sort(profile.optimizers.begin(), profile.optimizers.end(),
              [](const auto& a, const auto& b) { return a.elements < b.elements; });
    if (!options.folder.empty()) save_profile(options.folder, profile);
  };
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const LayersJob& job = jobs[i];
    const std::string what = job.model.empty()
                                 ? "copies and updates"
                                 : fmt::format("{} {} batch {}", job.model,
                                               enum_name(job.step.precision), job.step.samples);
    fmt::print(stderr, "[{}/{}] {} ...\n", i + 1, jobs.size(), what);
    const std::vector<json> values = measure(job);
    if (values.empty()) {
      keep(false);
      print(table(lines));
      fmt::print(stderr, "interrupted; what was measured is {}\n",
                 options.folder.empty() ? "above" : "in " + options.folder + "/profile.yaml");
      return exit_interrupted;
    }
    if (job.model.empty()) {
      digest_streams(job, values, profile);
    } else {
      Measured line;
      line.model = job.model;
      line.precision = enum_name(job.step.precision);
      line.batch = job.step.samples;
      digest(job, values, profile, line);
      lines.push_back(line);
    }
    keep(i + 1 == jobs.size());
  }
  print(table(lines));
  if (!options.folder.empty()) fmt::print(stderr, "wrote {}/profile.yaml\n", options.folder);
  return 0;
}

}  // namespace

std::string layers_result_file(const std::string& folder, int rank) {
  return (std::filesystem::path(folder) / fmt::format("rank{}.layers", rank)).string();
}

void add_layers(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<Options>();
  auto* verb = app.add_subcommand("calibrate",
                                  "Measure layers, updates and copies of models into a profile");
  verb->add_option("--device", options->device, "cpu, or cuda:0")->capture_default_str();
  verb->add_option("--as", options->device_file,
                   "Device file that the profile belongs to (default for cpu: cpu-core)");
  verb->add_option("--models", options->models, "Names or files, separated by commas")->required();
  verb->add_option("--batches", options->batches, "Samples per step, separated by commas")
      ->capture_default_str();
  verb->add_option("--precisions", options->precisions, "fp32, tf32, amp-fp16, amp-bf16, ...")
      ->capture_default_str();
  verb->add_option("--ranks", options->ranks,
                   "Processes that compute at the same time, as in the training to be predicted")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  options->input.add_to(*verb);
  options->optimizer.add_to(*verb);
  verb->add_option("--width", options->width,
                   "Repeat until the 95 % interval of the median step is so narrow")
      ->capture_default_str();
  verb->add_option("--minimum", options->minimum, "Repetitions at least")->capture_default_str();
  verb->add_option("--maximum", options->maximum, "Repetitions at most")->capture_default_str();
  verb->add_option("--most-time", options->most_time, "Then the minimum must do, for each batch")
      ->capture_default_str();
  verb->add_option("-o,--output", options->folder, "Folder whose profile.yaml gets the figures");
  verb->callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

// --- the job as words

std::vector<std::string> to_words(const LayersJob& job) {
  json value{{"rank", job.rank},
             {"ranks", job.ranks},
             {"folder", job.folder},
             {"result", job.result_file},
             {"device", job.device},
             {"model", job.model},
             {"samples", job.step.samples},
             {"precision", static_cast<int>(job.step.precision)},
             {"image", job.step.image},
             {"sequence", job.step.sequence},
             {"classes", job.step.classes},
             {"parameters", job.step.parameters},
             {"fused_attention", job.step.fused_attention},
             {"optimizer", static_cast<int>(job.optimizer.name)},
             {"learning_rate", job.optimizer.learning_rate},
             {"momentum", job.optimizer.momentum},
             {"width", job.rule.relative_width},
             {"minimum", job.rule.minimum},
             {"maximum", job.rule.maximum},
             {"most_seconds", job.most_seconds},
             {"most_elements", job.most_elements}};
  return {value.dump()};
}

LayersJob layers_job_from_words(const std::vector<std::string>& words) {
  const json value = json::parse(words.at(0));
  LayersJob job;
  job.rank = value.at("rank");
  job.ranks = value.at("ranks");
  job.folder = value.at("folder");
  job.result_file = value.at("result");
  job.device = value.at("device");
  job.model = value.at("model");
  job.step.samples = value.at("samples");
  job.step.precision = static_cast<Precision>(value.at("precision").get<int>());
  job.step.image = value.at("image").get<std::vector<std::int64_t>>();
  job.step.sequence = value.at("sequence");
  job.step.classes = value.at("classes");
  job.step.parameters = value.at("parameters").get<std::map<std::string, std::int64_t>>();
  job.step.fused_attention = value.at("fused_attention");
  job.optimizer.name = static_cast<OptimizerKind>(value.at("optimizer").get<int>());
  job.optimizer.implementation = OptimizerImplementation::for_loop;
  job.optimizer.learning_rate = value.at("learning_rate");
  job.optimizer.momentum = value.at("momentum");
  job.rule.relative_width = value.at("width");
  job.rule.minimum = value.at("minimum");
  job.rule.maximum = value.at("maximum");
  job.most_seconds = value.at("most_seconds");
  job.most_elements = value.at("most_elements");
  return job;
}

}  // namespace lockstep
