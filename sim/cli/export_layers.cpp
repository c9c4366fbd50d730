// The answer of `lockstep export SCENARIO --layers`: JSON for programs that build the same network.
//
//   lockstep export my.yaml --layers | jq '.steps[0].layers[].name'
//
// `steps` has the layers of each distinct training step with attributes and parameters. `points`
// has, for each strategy and GPU count, the index of its step and its communication (DDP buckets,
// FSDP units).
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "points/points.hpp"
#include "strategies/table.hpp"

namespace lockstep {

namespace {

using Json = nlohmann::ordered_json;

// A layer: name, kind, inputs, attributes and shapes of parameters.
Json to_json(const Layer& layer) {
  Json j;
  j["name"] = layer.name;
  j["kind"] = layer.kind;
  j["block"] = layer.block;
  j["inputs"] = layer.inputs;
  j["attributes"] = Json::object();
  for (const auto& [name, value] : layer.attributes) j["attributes"][name] = value;
  j["parameters"] = Json::array();
  for (const Parameter& parameter : layer.parameters) {
    j["parameters"].push_back({{"name", parameter.name}, {"shape", parameter.shape}});
  }
  if (!layer.tied_to.empty()) j["tied_to"] = layer.tied_to;
  return j;
}

// A training step: model, precision, samples, tokens and layers.
Json to_json(const TrainingStep& step) {
  Json j;
  j["model"] = step.model;
  j["precision"] = enum_name(step.precision);
  j["samples"] = step.samples;
  j["tokens"] = step.tokens;
  j["input_shape"] = step.input_shape;
  j["parameter_count"] = step.parameter_count;
  j["layers"] = Json::array();
  for (const Layer& layer : step.layers) j["layers"].push_back(to_json(layer));
  return j;
}

}  // namespace

std::string layers_json(const Scenario& scenario) {
  Json document;
  document["schema_version"] = 1;
  document["points"] = Json::array();
  document["steps"] = Json::array();
  std::map<const TrainingStep*, std::size_t> steps;  // several points can share a step
  for (const Point& point : expand(scenario)) {
    const auto [known, is_new] = steps.emplace(point.job.step.get(), steps.size());
    if (is_new) document["steps"].push_back(to_json(*point.job.step));
    Json j{{"strategy", point.label},
           {"gpus", point.job.mesh.gpus()},
           {"gradient_accumulation", point.job.accumulation},
           {"step", known->second},
           {"kind", strategy_name(scenario.strategies[point.entry].options)}};
    j.update(point.strategy->communication(point.job));
    document["points"].push_back(std::move(j));
  }
  return document.dump(1) + "\n";
}

}  // namespace lockstep
