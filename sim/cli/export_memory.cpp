// The answer of `lockstep export SCENARIO --memory`: the live bytes at every moment of a step.
//
//   lockstep export my.yaml --memory | jq '.points[0].peak_at'
//
// For each point, `moments` has the live bytes by kind (parameters, gradients, activations, ...) in
// each phase, layer and micro-batch of a step, and `at_peak` has the tensors at the moment of the
// peak.
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "memory/moments.hpp"
#include "points/points.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

// Bytes by kind, without kinds that have no bytes.
Json to_json(const MemoryAccount& account) {
  Json bytes = Json::object();
  for (std::size_t kind = 0; kind < account.size(); ++kind) {
    if (account[kind] > 0) bytes[memory_kind_names[kind]] = account[kind];
  }
  return bytes;
}

// Replays the point's step on the simulated allocator, with a log.
Json to_json(const Point& point) {
  MemoryLog log;
  const MemoryUse use = point.strategy->memory(point.job, {.log = &log});
  Json moments = Json::array(), tensors = Json::array();
  for (const MemoryMoment& moment : log.moments) {
    moments.push_back({{"moment", moment_text(moment.phase, moment.layer, &*point.job.step)},
                       {"micro_batch", moment.micro_batch},
                       {"highest", to_json(moment.highest)},
                       {"after", to_json(moment.after)}});
  }
  for (const LiveTensors& live : log.at_peak) {
    tensors.push_back({{"name", live.name},
                       {"kind", memory_kind_names[static_cast<std::size_t>(live.kind)]},
                       {"count", live.count},
                       {"bytes", live.bytes}});
  }
  return {{"strategy", point.label},
          {"gpus", point.job.mesh.gpus()},
          {"allocated_bytes", use.allocated},
          {"reserved_bytes", use.reserved},
          {"peak_at", use.moment},
          {"moments", moments},
          {"at_peak", tensors}};
}

}  // namespace

std::string memory_json(const Scenario& scenario) {
  Json document{{"schema_version", 1}, {"points", Json::array()}};
  for (const Point& point : expand(scenario)) document["points"].push_back(to_json(point));
  return document.dump(1) + "\n";
}

}  // namespace lockstep
