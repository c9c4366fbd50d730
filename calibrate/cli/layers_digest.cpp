// Computes the values of a profile from the samples of all ranks: medians over undisturbed samples,
// and their spreads. Layer times are scaled so that their sum is the plain step's time, because
// observation slows a step. The samples are JSON (layers_worker.cpp).
#include "cli/layers_digest.hpp"

#include <algorithm>
#include <cmath>

#include "core/random.hpp"
#include "core/statistics.hpp"
#include "imports/profile_folder.hpp"

namespace lockstep {

namespace {

using nlohmann::json;

// The samples of all ranks. Disturbed samples are left out, unless more than half are disturbed.
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

// Interquartile range divided by the median.
double spread(const std::vector<double>& values) {
  const double middle = median(values);
  return middle > 0 ? (quantile(values, 0.75) - quantile(values, 0.25)) / middle : 0;
}

double rounded(double value, double steps_in_one) {
  return std::round(value * steps_in_one) / steps_in_one;
}

// Seconds of a repetition's observed step: the sum over layers, forward and backward.
double observed_seconds(const json& sample) {
  double sum = 0;
  for (const char* pass : {"forward", "backward"}) {
    for (const json& seconds : sample.at(pass)) sum += seconds.get<double>();
  }
  return sum;
}

double plain_seconds(const json& sample) {
  return sample.at("plain")[0].get<double>() + sample.at("plain")[1].get<double>();
}

// Standard deviation of ln(step time) without drift, from differences between successive steps (von
// Neumann et al., "The mean square successive difference", 1941). The median of the differences is
// used, which single interruptions do not change. Differences are between every second repetition,
// because a repetition begins in turn with the plain and with the observed step.
double step_sigma(const std::vector<json>& ranks) {
  std::vector<double> differences;
  for (const json& rank : ranks) {
    const json& samples = rank.at("samples");
    for (std::size_t i = 2; i < samples.size(); ++i) {
      differences.push_back(
          std::abs(std::log(plain_seconds(samples[i]) / plain_seconds(samples[i - 2]))));
    }
  }
  if (differences.empty()) return 0;
  return median(differences) / (normal_quantile(0.75) * std::sqrt(2.0));
}

// Each plain step divided by the median of the steps around it, which shows interruptions and noise
// without drift. The steps around it are every second of the eight before and after (see
// step_sigma()).
std::vector<double> step_factors(const std::vector<json>& ranks) {
  constexpr std::ptrdiff_t reach = 8;
  std::vector<double> factors;
  for (const json& rank : ranks) {
    std::vector<double> steps;
    for (const json& sample : rank.at("samples")) steps.push_back(plain_seconds(sample));
    const auto count = static_cast<std::ptrdiff_t>(steps.size());
    for (std::ptrdiff_t i = 0; i < count; ++i) {
      std::vector<double> around;
      for (std::ptrdiff_t j = i - reach; j <= i + reach; j += 2) {
        if (j >= 0 && j < count) around.push_back(steps[static_cast<std::size_t>(j)]);
      }
      factors.push_back(rounded(steps[static_cast<std::size_t>(i)] / median(around), 1e4));
    }
  }
  return factors;
}

// For each layer, the median of its share of the repetition's observed step, because a machine that
// is slower for a second slows all layers of a repetition. The shares are scaled so that the layers
// add up to the plain step's forward and backward, which removes the cost of observation.
ProfileBatch layer_medians(const TrainingStep& step, const std::vector<json>& samples,
                           Measured& line) {
  ProfileBatch batch;
  batch.samples = step.samples;
  const std::vector<double> observed = each(samples, observed_seconds);
  std::vector<double> spreads;
  const auto share = [&](const char* pass, std::size_t layer, double& iqr) {
    std::vector<double> shares;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      shares.push_back(samples[i].at(pass)[layer].get<double>() / observed[i]);
    }
    const double middle = median(shares);
    if (middle * median(observed) > 2e-4) spreads.push_back(quantile(shares, 0.9) / middle - 1);
    iqr = spread(shares);
    return middle;
  };
  double forward = 0, backward = 0;
  for (std::size_t i = 0; i < step.layers.size(); ++i) {
    ProfileLayer& layer = batch.layers.emplace_back();
    layer.name = step.layers[i].name;
    forward += layer.forward_seconds = share("forward", i, layer.forward_iqr);
    backward += layer.backward_seconds.emplace(share("backward", i, layer.backward_iqr));
  }
  line.layer_spread = spreads.empty() ? 0 : median(spreads);
  const double observer =
      median(each(samples, [](const json& s) { return observed_seconds(s) / plain_seconds(s); }));
  line.layers_over_step = (forward + backward) * observer;
  for (ProfileLayer& layer : batch.layers) {
    if (forward > 0) layer.forward_seconds *= line.forward / forward;
    if (backward > 0) *layer.backward_seconds *= line.backward / backward;
    // A profile has thousands of values, so insignificant digits are rounded away.
    for (double* seconds : {&layer.forward_seconds, &*layer.backward_seconds})
      *seconds = rounded(*seconds, 1e10);
    for (double* iqr : {&layer.forward_iqr, &layer.backward_iqr}) *iqr = rounded(*iqr, 1e4);
  }
  return batch;
}

// Adds the memory that a library used during convolutions, which is not measured on CPUs.
void note_workspaces(const TrainingStep& step, const json& rank, ProfileBatch& batch) {
  const json &memory = rank.at("memory"), &forward = memory.at("forward_workspace"),
             &backward = memory.at("backward_workspace");
  for (std::size_t i = 0; i < forward.size(); ++i) {
    if (!uses(step.layers[i].forward, KernelKind::convolution)) continue;
    batch.layers[i].forward_workspace = forward[i].get<double>();
    batch.layers[i].backward_workspace = backward[i].get<double>();
  }
}

ProfileMemory memory_of(const json& rank) {
  const auto bytes = [&](const char* name) { return rank.at("memory").at(name).get<double>(); };
  return {bytes("parameters"),
          bytes("buffers"),
          bytes("optimizer_state"),
          bytes("saved_activations"),
          bytes("peak"),
          bytes("reserved"),
          bytes("kept")};
}

// Host seconds of one operator in a pass (0: forward, 1: backward, 2: update).
double operator_seconds(const std::vector<json>& samples, std::size_t pass, int operators) {
  return median(each(samples, [&](const json& s) { return s.at("host")[pass].get<double>(); })) /
         std::max(1, operators);
}

int operators_of(const std::vector<Kernel>& kernels) {
  int sum = 0;
  for (const Kernel& kernel : kernels) sum += kernel.operators;
  return sum;
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

}  // namespace

void digest(const LayersJob& job, const std::vector<json>& ranks, Profile& profile,
            Measured& line) {
  const TrainingStep step = build_step(*load_model(job.model), job.step);
  const std::vector<json> samples = pooled(ranks, line.disturbed);
  line.repetitions = samples.size();
  line.forward = median(each(samples, [](const json& s) { return s["plain"][0].get<double>(); }));
  line.backward = median(each(samples, [](const json& s) { return s["plain"][1].get<double>(); }));
  line.update = median(each(samples, [](const json& s) { return s["optimizer"].get<double>(); }));
  line.spread = spread(each(samples, plain_seconds));
  int forward_operators = 0, backward_operators = 0;
  for (const Layer& layer : step.layers) {
    forward_operators += operators_of(layer.forward);
    backward_operators += operators_of(layer.backward);
  }

  ProfileModel model;
  model.model = step.model;
  model.precision = step.precision;
  model.input_bytes_per_sample = step.input_bytes / static_cast<double>(step.samples);
  model.batches.push_back(layer_medians(step, samples, line));
  line.step_sigma = model.batches.back().step_sigma = step_sigma(ranks);
  ProfileBatch& batch = model.batches.back();
  batch.step_factors = step_factors(ranks);
  batch.operator_seconds = operator_seconds(samples, 0, forward_operators);
  batch.backward_operator_seconds = operator_seconds(samples, 1, backward_operators);
  const OptimizerTraffic update =
      optimizer_traffic(for_model(job.optimizer, step), step.precision,
                        static_cast<double>(step.parameter_count), trainable_tensors(step));
  // With a scaled loss the host waits for the device before the update, so its time says nothing of
  // operators.
  if (step.precision != Precision::amp_fp16) {
    batch.update_operator_seconds = operator_seconds(samples, 2, update.operators);
  }
  batch.memory = memory_of(ranks.front());
  note_workspaces(step, ranks.front(), batch);
  line.peak = batch.memory->peak;
  merge_model(profile, model);
  ProfileOptimizer entry = optimizer_entry(job.optimizer, step.precision);
  entry.elements = static_cast<double>(step.parameter_count);
  entry.tensors = trainable_tensors(step);
  entry.seconds = line.update;
  entry.iqr = spread(each(samples, [](const json& s) { return s["optimizer"].get<double>(); }));
  merge_optimizer(profile, entry);
  // The noise of the whole profile is that of its noisiest part.
  profile.noise.relative_spread = std::max(profile.noise.relative_spread, line.layer_spread);
  profile.noise.samples = profile.noise.samples == 0
                              ? static_cast<int>(samples.size())
                              : std::min(profile.noise.samples, static_cast<int>(samples.size()));
}

void summarise_models(Profile& profile) {
  std::vector<double> forward, backward, update, kept;
  for (const ProfileModel& model : profile.models) {
    for (const ProfileBatch& batch : model.batches) {
      if (batch.operator_seconds > 0) forward.push_back(batch.operator_seconds);
      if (batch.backward_operator_seconds > 0) backward.push_back(batch.backward_operator_seconds);
      if (batch.update_operator_seconds > 0) update.push_back(batch.update_operator_seconds);
      if (batch.memory && batch.memory->kept > 0) kept.push_back(batch.memory->kept);
    }
  }
  if (!forward.empty()) profile.host.operator_seconds = median(forward);
  if (!backward.empty()) profile.host.backward_operator_seconds = median(backward);
  if (!update.empty()) profile.host.update_operator_seconds = median(update);
  if (!kept.empty()) profile.allocator.kept_bytes = median(kept);
}

void digest_streams(const LayersJob& job, const std::vector<json>& ranks, Profile& profile) {
  struct Point {
    double elements, seconds, iqr;
  };
  const auto points = [&](const char* what) {
    std::vector<Point> all;
    for (std::size_t i = 0; i < ranks.front().at(what).size(); ++i) {
      std::vector<double> seconds;
      for (const json& rank : ranks) {
        for (const json& value : rank.at(what)[i][1]) seconds.push_back(value);
      }
      all.push_back({ranks.front().at(what)[i][0].get<double>(), median(seconds), spread(seconds)});
    }
    return all;
  };
  if (job.device == "cpu" || profile.copies.empty()) {
    profile.copies.clear();
    for (const Point& point : points("copies")) {
      profile.copies.push_back(
          {2 * 4 * point.elements, point.seconds, point.iqr});  // read and written
    }
  }
  OptimizerSpec of_vectors = job.optimizer;  // Muon leaves vectors to AdamW
  if (of_vectors.name == OptimizerKind::muon) of_vectors.name = OptimizerKind::adamw;
  for (const Point& point : points("updates")) {
    ProfileOptimizer entry = optimizer_entry(of_vectors, Precision::fp32);
    entry.elements = point.elements;
    entry.seconds = point.seconds;
    entry.iqr = point.iqr;
    merge_optimizer(profile, entry);
  }
}

void digest_hook(const LayersJob& job, const std::vector<json>& ranks, Profile& profile) {
  ProfileHook measured{*job.hook, job.model, {}};
  for (std::size_t i = 0; i < ranks.front().at("points").size(); ++i) {
    ProfileHookPoint& point = measured.points.emplace_back();
    point.bytes = ranks.front()["points"][i].at("bytes");
    for (std::size_t stage = 0; stage < stages_of(job.hook->hook); ++stage) {
      std::vector<double> seconds;
      for (const json& rank : ranks) {
        for (const json& sample : rank.at("points")[i].at("samples")) {
          seconds.push_back(sample.at(stage));
        }
      }
      point.seconds.push_back(rounded(median(seconds), 1e10));
    }
  }
  std::erase_if(profile.hooks, [&](const ProfileHook& known) {
    return same_work(known.settings, measured.settings);
  });
  profile.hooks.push_back(std::move(measured));
}

}  // namespace lockstep
