// Runs one replay (convergence/replay.hpp) in a separate process. `lockstep run` starts one for
// each seed of each point. The job is a JSON file, and the result goes to standard output.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "cli/workers.hpp"
#include "convergence/job.hpp"
#include "core/errors.hpp"
#include "core/output.hpp"
#include "torch/real_network.hpp"

namespace lockstep {

namespace {

// Reads the data set. Errors name the scenario's field instead of the option of `train`.
ImageSets data_of(const ReplayJob& job, std::int64_t classes) {
  try {
    return read_data_set(job.data, classes, job.plan.seed);
  } catch (const ConfigError& error) {
    std::vector<Diagnostic> diagnostics = error.diagnostics();
    for (Diagnostic& diagnostic : diagnostics) {
      if (diagnostic.field == "--data") diagnostic.field = "convergence.data";
    }
    throw ConfigError(std::move(diagnostics));
  }
}

}  // namespace

int replay_worker(const Words& arguments) {
  at::set_num_threads(1);
  std::ifstream file(arguments.at(0));
  std::stringstream text;
  text << file.rdbuf();
  const ReplayJob job = replay_job_from_json(text.str());
  const TrainingStep step = build_step(*load_model(job.model), job.step);
  if (step.input_shape.size() != 3) {
    throw file_error("", "convergence", fmt::format("{} does not read images", step.model));
  }
  ImageSets data = data_of(job, output_classes(step));
  if (job.held_out) data.test = take_last(data.train, data.train.count / 6);
  keep_first(data.train, job.train_samples);
  const UpdateSchedule schedule = read_schedule(job.schedule);
  const std::int64_t batch = job.plan.accumulation * step.samples;
  if (data.train.count < schedule.workers * batch) {
    throw file_error("", "convergence.data",
                     fmt::format("{} images are no batch of {} for each of {} workers",
                                 data.train.count, batch, schedule.workers));
  }
  print(to_json(replay(step, schedule, data, job.plan)) + "\n");
  return 0;
}

}  // namespace lockstep
