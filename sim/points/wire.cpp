// The text in which a child process returns a StrategyResult or a refusal (declared in
// simulate.hpp). The format is JSON, because nlohmann prints the shortest text that reads back to
// the same double; only the same build of this program reads it.
#include "points/simulate.hpp"
#include "results/json_fields.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

namespace {

using Json = nlohmann::ordered_json;

// JSON on one line. Bytes in the user's names that are not UTF-8 are replaced, because nlohmann
// would throw.
std::string compact(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

// The fields of a result, for writing and reading. They have no descriptions, because no person
// reads them.
template <class Visitor, Either<StrategyResult> Result>
void describe(Visitor& v, Result& r) {
  v.field("steps", r.step_seconds);
  v.field("first", r.first_step_seconds);
  v.field("later", r.later_step_seconds);
  v.field("engine", r.engine);
  v.field("extrapolated", r.extrapolated);
  v.field("simulated", r.simulated_steps);
  v.field("micro_batches", r.simulated_micro_batches);
  v.field("split", r.split);
  v.field("exposed", r.split.exposed);
  v.field("stages", r.stages);
  v.field("ranks", r.ranks);
  v.field("without_stragglers", r.step_without_stragglers);
  v.field("step_of_seed", r.step_of_seed);
  v.field("staleness_of_seed", r.staleness_of_seed);
  v.field("busy", r.device_busy);
  v.field("samples", r.samples_per_step);
  v.field("traffic", r.traffic);
  v.field("staleness", r.staleness);
  v.field("worker_steps", r.worker_steps);
  v.field("memory", r.memory);
  v.field("provenance", r.provenance);
  v.field("notes", r.notes);
}

std::string to_wire(const StrategyResult& result) {
  return compact(json_of(result));
}

std::string refusal_to_wire(const ConfigError& refusal) {
  Json list = Json::array();
  for (const auto& d : refusal.diagnostics()) {
    list.push_back(
        Json::array({d.where.file, d.where.line, d.where.column, d.field, d.message, d.hint}));
  }
  return compact({{"refused", list}});
}

StrategyResult from_wire(const std::string& text, std::vector<Diagnostic>& refused) {
  const Json j = Json::parse(text);
  StrategyResult r;
  if (j.contains("refused")) {
    for (const auto& d : j["refused"]) refused.push_back({{d[0], d[1], d[2]}, d[3], d[4], d[5]});
    return r;
  }
  read_json(j, r);
  return r;
}

}  // namespace lockstep
