// `lockstep export SCENARIO --layers`: what every point of a scenario trains, for programs that
// build the same network with another library (calibrate/oracle). Nothing is simulated.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "strategies/ddp/buckets.hpp"
#include "strategies/ddp/ddp.hpp"
#include "strategies/fsdp/plan.hpp"

namespace lockstep {

namespace {

using Json = nlohmann::ordered_json;

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

std::int64_t whole(double bytes) {
  return static_cast<std::int64_t>(bytes);
}

Json names(const std::vector<Parameter>& parameters) {
  Json list = Json::array();
  for (const Parameter& parameter : parameters) list.push_back(parameter.name);
  return list;
}

// What the strategy communicates: DDP's buckets from the second step on, FSDP's units.
void add_plan(Json& j, const Job& job, const DdpOptions& options) {
  j["kind"] = "ddp";
  const BucketPlan plan = plan_buckets(
      gradient_tensors(job.step, ddp_gradient_bytes(options, job.step.precision)), options);
  j["bucket_cap_bytes"] = whole(options.bucket_bytes);
  j["bucket_bytes"] = Json::array();
  for (const Bucket& bucket : plan.later) j["bucket_bytes"].push_back(whole(bucket.bytes));
}

void add_plan(Json& j, const Job& job, const FsdpOptions& options) {
  j["kind"] = "fsdp";
  const FsdpLayout layout = fsdp_layout(job, options);
  j["version"] = options.version;
  j["units"] = Json::array();
  for (std::size_t i = 0; i < layout.units.size(); ++i) {
    const FsdpUnit& unit = layout.units[i];
    j["units"].push_back(
        {{"module", unit.module},
         {"root", unit.root},
         {"parameters", names(unit.parameters)},
         {"gathered_bytes", whole(layout.layouts[i].elements * layout.gather_bytes)},
         {"reduced_bytes", whole(layout.layouts[i].elements * layout.reduce_bytes)}});
  }
}

void add_plan(Json& j, const Job&, const ParameterServerOptions&) {
  j["kind"] = "parameter_server";
}

}  // namespace

int export_layers_command(const std::string& file) {
  Json document;
  document["schema_version"] = 1;
  document["points"] = Json::array();
  document["steps"] = Json::array();
  std::map<const TrainingStep*, std::size_t> steps;  // points of one workload share their step
  for (const Point& point : expand(read_scenario(file))) {
    const auto [known, is_new] = steps.emplace(point.step.get(), steps.size());
    if (is_new) document["steps"].push_back(to_json(*point.step));
    Json j{{"strategy", point.label},
           {"gpus", point.job.gpus},
           {"gradient_accumulation", point.job.accumulation},
           {"step", known->second}};
    const Job job = complete_job(point);
    std::visit([&](const auto& options) { add_plan(j, job, options); }, point.options);
    document["points"].push_back(std::move(j));
  }
  print(document.dump(1) + "\n");
  return 0;
}

}  // namespace lockstep
