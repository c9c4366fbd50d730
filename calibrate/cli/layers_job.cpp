// Writes a LayersJob as a word of a command line, and reads it back. The parent starts each rank as
// a process of the same program, and passes the job in this form.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/layers.hpp"

namespace lockstep {

using nlohmann::json;

std::string layers_result_file(const std::string& folder, int rank) {
  return (std::filesystem::path(folder) / fmt::format("rank{}.layers", rank)).string();
}

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
             {"pause_seconds", job.pause_seconds},
             {"most_elements", job.most_elements}};
  if (job.hook) {
    value["hook"] = {static_cast<int>(job.hook->hook), job.hook->fraction, job.hook->rank,
                     job.hook->ranks};
  }
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
  job.pause_seconds = value.at("pause_seconds");
  job.most_elements = value.at("most_elements");
  if (value.contains("hook")) {
    const json& hook = value["hook"];
    job.hook = {static_cast<CodedHook>(hook[0].get<int>()), hook[1], hook[2], hook[3]};
  }
  return job;
}

}  // namespace lockstep
