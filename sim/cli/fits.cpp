// `lockstep fits SCENARIO` answers: how does a job fit into memory? For each point it says whether
// the job fits as written, and if not, which fewest changes would make it fit. It also says which
// largest micro-batch and which fewest GPUs fit.
//
//   lockstep fits scenarios/does_not_fit.yaml
//
//   ddp on 8 GPUs: does not fit: 168 GiB short
//     would fit: fsdp with full_shard and micro-batch 1 with 4 accumulation steps (...)
//     largest micro-batch: none, otherwise as written
//     fewest GPUs: none, otherwise as written
//
// Exit code: 1 if a point has no answer, 3 if nothing fits as written.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/verb.hpp"
#include "core/output.hpp"
#include "points/predict.hpp"
#include "questions/anchor.hpp"
#include "questions/fitting.hpp"
#include "results/fields.hpp"
#include "results/json_fields.hpp"
#include "results/sentences.hpp"
#include "results/tables.hpp"

namespace lockstep::fits_verb {

namespace {

using Json = nlohmann::ordered_json;

struct Arguments {
  std::string file;
  CommonOptions common;
};

// The answer for one point.
struct Answer {
  Prediction written;               // the point as the scenario writes it
  std::vector<FittingJob> changed;  // jobs with the fewest changes, if the point does not fit
  std::optional<FittingJob> largest, fewest;  // of micro-batches; of GPUs
};

// A job that fits, with its changes in words and its main numbers.
Json json_of_job(const FittingJob& job) {
  const Prediction& p = job.prediction;
  Json json;
  json["changes"] = job.changes;
  json["gpus"] = p.gpus;
  json["micro_batch"] = p.micro_batch;
  json["accumulation"] = p.accumulation;
  json["global_batch"] = p.global_batch;
  json["step_seconds"] = p.step_seconds;
  json["samples_per_second"] = p.samples_per_second;
  json["dollars"] = p.dollars > 0 ? Json(p.dollars) : Json();
  json["memory"] = json_of(p.memory);
  return json;
}

// The answer for one point, for --json.
Json json_of_answer(const Answer& answer) {
  const auto job_json = [](const std::optional<FittingJob>& job) {
    return job ? json_of_job(*job) : Json();
  };
  Json json;
  json["strategy"] = answer.written.strategy;
  json["gpus"] = answer.written.gpus;
  json["fits"] = !answer.written.out_of_memory;
  json["written"] = json_of_job({{}, {}, answer.written});
  json["least_changes"] = Json::array();
  for (const FittingJob& job : answer.changed) json["least_changes"].push_back(json_of_job(job));
  json["largest_micro_batch"] = job_json(answer.largest);
  json["fewest_gpus"] = job_json(answer.fewest);
  return json;
}

// The answer for one point, for people.
std::string text_of(const Answer& answer) {
  const Prediction& p = answer.written;
  const bool fits = !p.out_of_memory;
  std::string text =
      wrapped(fmt::format("{}: {}", point_text(p.strategy, p.gpus),
                          fits ? "fits: " + fitting_text({{}, {}, p})
                               : "does not fit: " + shortfall_text(*p.out_of_memory) + " short")) +
      "\n";
  const auto line = [&](const std::string& label, const std::string& job) {
    text += wrapped(fmt::format("  {}: {}", label, job), 4) + "\n";
  };
  for (const FittingJob& job : answer.changed) line("would fit", fitting_text(job));
  if (!fits && answer.changed.empty()) line("would fit", "none of the changes that were tried");
  const auto best = [&](const char* label, const std::optional<FittingJob>& job) {
    line(label, job ? fitting_text(*job) : "none, otherwise as written");
  };
  best("largest micro-batch", answer.largest);
  best("fewest GPUs", answer.fewest);
  return text;
}

// Predicts all points as written, then searches for changes, point by point.
int fits_for(const Arguments& arguments) {
  const Scenario scenario = scenario_of(arguments.file, arguments.common);
  const std::vector<CostScale> scales = anchor_scales(scenario, {});
  Predicted predicted = predict_each(scenario, expand(scenario, scales));
  std::vector<Answer> answers;
  {
    ProgressLine progress("searching");
    const std::size_t all = predicted.points.size();
    for (std::size_t i = 0; i < all; ++i) {
      progress.update({.done = i, .all = all});
      const Point& point = predicted.points[i];
      Answer& answer = answers.emplace_back();
      answer.written = std::move(predicted.predictions[i]);
      if (answer.written.out_of_memory) answer.changed = least_changes(scenario, point, scales);
      answer.largest = largest_micro_batch(scenario, point, scales);
      answer.fewest = fewest_gpus(scenario, point, scales);
    }
  }
  bool some = false;
  Json points = Json::array();
  std::string text;
  for (const Answer& answer : answers) {
    some |= !answer.written.out_of_memory;
    points.push_back(json_of_answer(answer));
    text += (text.empty() ? "" : "\n") + text_of(answer);
  }
  if (arguments.common.format == Format::json) {
    print(Json{{"scenario", scenario.name}, {"points", std::move(points)}}.dump(2) + "\n");
  } else {
    print_text(text);
  }
  if (const int code = tell_failures(predicted.failures)) return code;
  return some ? 0 : 3;
}

Choice declare(CLI::App& app) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& verb = *app.add_subcommand(
      "fits",
      "Ways to fit into memory: the smallest changes, the largest micro-batch, the fewest GPUs");
  verb.add_option("scenario", arguments->file, "Scenario file; - = standard input")->required();
  add_settings(verb, arguments->common);
  add_formats(verb, arguments->common, Formats::json);
  add_examples(verb, {"my.yaml", "my.yaml --set gpus=8 --json"});
  return {&verb, [arguments] { return fits_for(*arguments); }};
}
const Verb verb{VerbGroup::questions, declare};

}  // namespace

}  // namespace lockstep::fits_verb
