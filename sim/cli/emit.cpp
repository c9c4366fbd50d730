// Chooses the point of a scenario for which --emit writes files, and writes them. Job scripts
// (sbatch, skypilot) state a time limit; only for them, the point is simulated.
#include "cli/emit.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "cli/commands.hpp"
#include "cli/described.hpp"
#include "core/errors.hpp"
#include "points/predict.hpp"
#include "training_configs/emitted_config.hpp"

namespace lockstep {
namespace {

// The only point with the user's strategy and GPU count. Throws ConfigError if there is none or
// more than one.
const Point& chosen(const std::vector<Point>& points, const EmitOptions& options) {
  std::vector<const Point*> fitting;
  for (const Point& point : points) {
    const bool named = options.strategy.empty() || point.label == options.strategy;
    const bool counted = options.gpus == 0 || point.job.mesh.gpus() == options.gpus;
    if (named && counted) fitting.push_back(&point);
  }
  if (fitting.size() == 1) return *fitting.front();
  throw file_error(
      "", "--emit",
      fitting.empty()
          ? "the scenario has no such point"
          : fmt::format("{} points of the scenario fit, and a file is of one", fitting.size()),
      "--strategy LABEL, --gpus N");
}

// The upper end of the whole run's 90 % interval in seconds; 0 if the scenario has no dataset.
double longest_run(const Scenario& scenario, const Point& point) {
  if (!scenario.dataset.says_length()) return 0;
  ResultRecord record = record_of(scenario, {});
  for (const Prediction& prediction : record.predictions) {
    // `same`: this is the prediction of the chosen point.
    const bool same =
        prediction.strategy == point.label && prediction.gpus == point.job.mesh.gpus();
    if (same && prediction.step_seconds > 0)
      return prediction.total_seconds * prediction.step_interval.high / prediction.step_seconds;
  }
  return 0;
}

}  // namespace

void add_emit(CLI::App& verb, EmitOptions& options) {
  verb.add_option(
          "--emit", options.formats,
          fmt::format("Write files that start the training: {}", fmt::join(emit_formats(), ", ")))
      ->delimiter(',');
  verb.add_option("-o,--output", options.folder,
                  "Folder for the files of --emit (default: print a single file)");
}

// Chooses the point, makes all files, and writes them into the folder or prints the only one. Notes
// name settings that a format cannot express.
int emit(const Scenario& scenario, const EmitOptions& options) {
  const std::vector<Point> points = expand(scenario);
  const Point& point = chosen(points, options);
  if (options.folder.empty() && options.formats.size() > 1)
    throw file_error("", "--emit", "several files are not printed", "-o FOLDER");
  // Only job scripts state a time limit; the other formats need no simulation.
  const bool timed = std::any_of(
      options.formats.begin(), options.formats.end(),
      [](const std::string& format) { return format == "sbatch" || format == "skypilot"; });
  const EmitQuestion question{&scenario, &point, timed ? longest_run(scenario, point) : 0};
  std::vector<EmittedFile> files;
  for (const std::string& format : options.formats)
    files.push_back(emitted_config(format, question));
  for (const EmittedFile& file : files) {
    for (const std::string& text : file.notes) note(fmt::format("note: {}: {}", file.name, text));
    if (options.folder.empty()) {
      print(file.text);
      continue;
    }
    std::error_code ignored;
    std::filesystem::create_directories(options.folder, ignored);
    write_answer(options.folder + "/" + file.name, file.text);
  }
  return 0;
}

}  // namespace lockstep
