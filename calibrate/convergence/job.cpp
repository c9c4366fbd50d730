// Writes a replay's job and its result as JSON, and reads them back. Enumerations are written as
// numbers, because the same build writes and reads them.
#include "convergence/job.hpp"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace lockstep {

using nlohmann::json;

std::string to_json(const ReplayJob& job) {
  const LearningPlan& p = job.plan;
  return json{{"model", job.model},
              {"samples", job.step.samples},
              {"precision", static_cast<int>(job.step.precision)},
              {"image", job.step.image},
              {"sequence", job.step.sequence},
              {"classes", job.step.classes},
              {"parameters", job.step.parameters},
              {"fused_attention", job.step.fused_attention},
              {"schedule", job.schedule},
              {"data", job.data},
              {"train_samples", job.train_samples},
              {"optimizer", static_cast<int>(p.optimizer.name)},
              {"learning_rate", p.optimizer.learning_rate},
              {"momentum", p.optimizer.momentum},
              {"weight_decay", p.optimizer.weight_decay},
              {"accumulation", p.accumulation},
              {"gradient_clipping", p.gradient_clipping},
              {"clipped", static_cast<int>(p.clipped)},
              {"momentum_at", static_cast<int>(p.momentum_at)},
              {"rate_schedule", static_cast<int>(p.rate_schedule)},
              {"warm_up_epochs", p.warm_up_epochs},
              {"initialisation", static_cast<int>(p.initialisation)},
              {"running_statistics", static_cast<int>(p.running_statistics)},
              {"epochs", p.epochs},
              {"evaluations", p.evaluations},
              {"test_samples", p.test_samples},
              {"seed", p.seed},
              {"most_batches", p.most_batches},
              {"held_out", job.held_out}}
      .dump();
}

ReplayJob replay_job_from_json(const std::string& text) {
  const json value = json::parse(text);
  ReplayJob job;
  job.model = value.at("model");
  job.step.samples = value.at("samples");
  job.step.precision = static_cast<Precision>(value.at("precision").get<int>());
  job.step.image = value.at("image").get<std::vector<std::int64_t>>();
  job.step.sequence = value.at("sequence");
  job.step.classes = value.at("classes");
  job.step.parameters = value.at("parameters").get<std::map<std::string, std::int64_t>>();
  job.step.fused_attention = value.at("fused_attention");
  job.schedule = value.at("schedule");
  job.data = value.at("data");
  job.train_samples = value.at("train_samples");
  LearningPlan& p = job.plan;
  p.optimizer.name = static_cast<OptimizerKind>(value.at("optimizer").get<int>());
  p.optimizer.learning_rate = value.at("learning_rate");
  p.optimizer.momentum = value.at("momentum");
  p.optimizer.weight_decay = value.at("weight_decay");
  p.accumulation = value.at("accumulation");
  p.gradient_clipping = value.at("gradient_clipping");
  p.clipped = static_cast<Clipped>(value.at("clipped").get<int>());
  p.momentum_at = static_cast<MomentumPlace>(value.at("momentum_at").get<int>());
  p.rate_schedule = static_cast<RateSchedule>(value.at("rate_schedule").get<int>());
  p.warm_up_epochs = value.at("warm_up_epochs");
  p.initialisation = static_cast<Initialisation>(value.at("initialisation").get<int>());
  p.running_statistics = static_cast<RunningStatistics>(value.at("running_statistics").get<int>());
  p.epochs = value.at("epochs");
  p.evaluations = value.at("evaluations");
  p.test_samples = value.at("test_samples");
  p.seed = value.at("seed");
  p.most_batches = value.at("most_batches");
  job.held_out = value.at("held_out");
  return job;
}

std::string to_json(const ReplayResult& result) {
  json curve = json::array();
  for (const AccuracyPoint& p : result.curve) {
    curve.push_back({p.time, p.epochs, p.updates, p.accuracy,
                     std::isfinite(p.loss) ? json(p.loss) : json(nullptr)});
  }
  return json{{"curve", std::move(curve)},
              {"diverged", result.diverged},
              {"complete", result.complete},
              {"wall_seconds", result.wall_seconds},
              {"batch_seconds", result.batch_seconds},
              {"train_images", result.train_images},
              {"test_images", result.test_images}}
      .dump();
}

ReplayResult replay_result_from_json(const std::string& text) {
  const json value = json::parse(text, nullptr, false);
  if (value.is_discarded()) throw std::runtime_error("a replay's answer is damaged");
  ReplayResult result;
  for (const json& p : value.at("curve")) {
    result.curve.push_back(
        {p.at(0), p.at(1), p.at(2), p.at(3),
         p.at(4).is_null() ? std::numeric_limits<double>::quiet_NaN() : p.at(4).get<double>()});
  }
  result.diverged = value.at("diverged");
  result.complete = value.at("complete");
  result.wall_seconds = value.at("wall_seconds");
  result.batch_seconds = value.at("batch_seconds");
  result.train_images = value.at("train_images");
  result.test_images = value.at("test_images");
  return result;
}

}  // namespace lockstep
