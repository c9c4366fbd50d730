// One rank of `lockstep-calibrate calibrate`: measures until all ranks have enough repetitions, and
// writes its samples as JSON. layers_digest.cpp reads them.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cli/layers.hpp"
#include "cli/workers.hpp"
#include "launch/stopping.hpp"
#include "probes/hooks.hpp"
#include "probes/layers.hpp"
#include "probes/streams.hpp"

namespace lockstep {

namespace {

using nlohmann::json;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Lets all ranks end together. While one rank still measures, the others must continue, because it
// would otherwise have the whole memory bandwidth.
class Together {
 public:
  Together(const LayersJob& job) : job_(job) {}
  // Must be called after each repetition. Returns true if all ranks have enough.
  bool all_done(bool this_one) {
    if (this_one) std::ofstream(job_.result_file + ".done") << '\n';
    for (int rank = 0; rank < job_.ranks; ++rank) {
      if (!std::filesystem::exists(layers_result_file(job_.folder, rank) + ".done")) return false;
    }
    return true;
  }

 private:
  const LayersJob& job_;
};

// A repetition does not count if other processes used the core for more than this share of the
// time.
constexpr double most_disturbance = 0.05;

json measure_layers(const LayersJob& job) {
  const TrainingStep step = build_step(*load_model(job.model), job.step);
  Together together(job);
  const double began = now();
  LayerProbeOptions options;
  options.device = job.device;
  options.optimizer = job.optimizer;
  options.pause_seconds = job.pause_seconds;
  options.enough = [&](const std::vector<LayerSamples>& samples) {
    // Creates the result file, which shows readers of the run's folder that the measurement has
    // begun.
    if (samples.size() == 1) std::ofstream{job.result_file};
    std::vector<double> calm;
    for (const LayerSamples& sample : samples) {
      if (sample.disturbance <= most_disturbance) {
        calm.push_back(sample.plain_forward + sample.plain_backward);
      }
    }
    double paused = 0;
    for (const LayerSamples& sample : samples) paused += sample.paused;
    const bool out_of_time = now() - began - paused > job.most_seconds &&
                             samples.size() >= static_cast<std::size_t>(job.rule.minimum);
    return together.all_done(enough(calm, job.rule) || out_of_time ||
                             samples.size() >= static_cast<std::size_t>(2 * job.rule.maximum));
  };
  const LayerProbeResult result = probe_layers(step, options);
  json value;
  for (const LayerSamples& sample : result.samples) {
    value["samples"].push_back(
        {{"forward", sample.forward},
         {"backward", sample.backward},
         {"plain", {sample.plain_forward, sample.plain_backward}},
         {"optimizer", sample.optimizer},
         {"host", {sample.host_forward, sample.host_backward, sample.host_update}},
         {"calm", sample.disturbance <= most_disturbance}});
  }
  const MeasuredMemory& m = result.memory;
  value["memory"] = {{"parameters", m.parameters},
                     {"buffers", m.buffers},
                     {"optimizer_state", m.optimizer_state},
                     {"saved_activations", m.after_forward},
                     {"peak", m.peak},
                     {"reserved", m.reserved},
                     {"kept", m.kept},
                     {"forward_workspace", m.forward_workspace},
                     {"backward_workspace", m.backward_workspace}};
  return value;
}

json measure_streams(const LayersJob& job) {
  Together together(job);
  StreamProbeOptions options;
  options.device = job.device;
  options.optimizer = job.optimizer;
  for (std::int64_t elements = 1 << 12; elements <= job.most_elements; elements *= 4) {
    options.elements.push_back(elements);
  }
  // Each of a dozen measurements takes a second, or a tenth of the time for layers if that is
  // shorter.
  const double most_seconds = std::min(1.0, job.most_seconds / 10);
  double began = now();
  std::size_t last = 0;
  options.enough = [&](const std::vector<double>& seconds) {
    if (seconds.size() < last) began = now();  // the next size has begun
    last = seconds.size();
    return enough(seconds, job.rule) || (now() - began > most_seconds && seconds.size() > 5);
  };
  const StreamProbeResult result = probe_streams(options);
  while (!together.all_done(true)) {
    (void)probe_streams(options);  // keeps the memory busy while other ranks still measure
  }
  const auto points = [](const std::vector<StreamPoint>& all) {
    json list = json::array();
    for (const StreamPoint& point : all) list.push_back({point.elements, point.seconds});
    return list;
  };
  return {{"copies", points(result.copies)}, {"updates", points(result.updates)}};
}

json measure_hook(const LayersJob& job) {
  Together together(job);
  HookProbeOptions options;
  options.settings = *job.hook;
  constexpr double mib = 1024 * 1024;
  options.bucket_bytes = {4 * mib, 25 * mib};
  // There are about ten buckets.
  const double most_seconds = std::min(2.0, job.most_seconds / 5);
  double began = now();
  options.enough = [&](const std::vector<StageSeconds>& samples) {
    if (samples.size() == 1) began = now();  // the next bucket has begun
    std::vector<double> whole;
    for (const StageSeconds& stages : samples) {
      whole.push_back(std::accumulate(stages.begin(), stages.end(), 0.0));
    }
    return enough(whole, job.rule) || (now() - began > most_seconds && samples.size() > 5);
  };
  const TrainingStep step = build_step(*load_model(job.model), job.step);
  json points = json::array();
  for (const HookPoint& point : probe_hook(step, options)) {
    points.push_back({{"bytes", point.bytes}, {"samples", point.samples}});
  }
  options.enough = [](const auto&) { return true; };
  while (!together.all_done(true)) (void)probe_hook(step, options);
  return {{"points", points}};
}

}  // namespace

int layers_worker(const Words& arguments) {
  const LayersJob job = layers_job_from_words(arguments);
  json value;
  try {
    value = job.hook            ? measure_hook(job)
            : job.model.empty() ? measure_streams(job)
                                : measure_layers(job);
  } catch (const OutOfDeviceMemory& error) {
    value = {{"out_of_memory", error.what()}};
    std::ofstream(job.result_file + ".done") << '\n';
  }
  std::ofstream file(job.result_file);
  file << value;
  return file.flush() ? 0 : 1;
}

}  // namespace lockstep
