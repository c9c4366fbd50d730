// See wire.hpp. JSON, because nlohmann prints the shortest text that reads back to the same double.
#include "points/wire.hpp"

#include <nlohmann/json.hpp>

namespace lockstep {

namespace {

using Json = nlohmann::json;

Json split_to_json(const StepSplit& s) {
  return Json::array({s.data_loading, s.forward, s.backward, s.optimizer, s.copies,
                      s.exposed_communication, s.host_bound, s.waiting});
}

using Histogram = std::map<std::int64_t, std::int64_t>;

Json histogram_to_json(const Histogram& histogram) {
  Json list = Json::array();
  for (const auto& [value, count] : histogram) list.push_back(Json::array({value, count}));
  return list;
}

Histogram histogram_from_json(const Json& list) {
  Histogram histogram;
  for (const auto& pair : list) histogram[pair[0]] = pair[1];
  return histogram;
}

StepSplit split_from_json(const Json& j) {
  return {j[0], j[1], j[2], j[3], j[4], j[5], j[6], j[7]};
}

}  // namespace

std::string to_wire(const StrategyResult& r) {
  Json j;
  j["steps"] = r.step_seconds;
  j["first"] = r.first_step_seconds;
  j["engine"] = static_cast<int>(r.engine);
  j["extrapolated"] = r.extrapolated;
  j["simulated"] = r.simulated_steps;
  j["split"] = split_to_json(r.split);
  j["busy"] = r.device_busy;
  j["samples"] = r.samples_per_step;
  j["traffic"] = Json::array();
  for (const auto& t : r.traffic) {
    j["traffic"].push_back(Json::array({t.link_class, t.bytes, t.total_bytes, t.busy}));
  }
  if (r.staleness) {
    j["staleness"] = Json::array({r.staleness->mean, r.staleness->p50, r.staleness->p99,
                                  r.staleness->max, histogram_to_json(r.staleness->histogram)});
  }
  if (r.worker_steps) {
    j["worker_steps"] = Json::array({histogram_to_json(r.worker_steps->histogram),
                                     r.worker_steps->least, r.worker_steps->most});
  }
  j["memory"] = Json::array({r.memory.allocated, r.memory.reserved, r.memory.device,
                             r.memory.moment, r.memory.retries, r.memory.at_peak});
  j["capacity"] = r.memory_capacity;
  j["provenance"] =
      Json::array({r.provenance.measured, r.provenance.interpolated, r.provenance.modelled});
  j["notes"] = r.notes;
  return j.dump(-1, ' ', false, Json::error_handler_t::replace);  // names are the user's
}

std::string refusal_to_wire(const ConfigError& refusal) {
  Json list = Json::array();
  for (const auto& d : refusal.diagnostics()) {
    list.push_back(
        Json::array({d.where.file, d.where.line, d.where.column, d.field, d.message, d.hint}));
  }
  return Json{{"refused", list}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

StrategyResult from_wire(const std::string& text, std::vector<Diagnostic>& refused) {
  const Json j = Json::parse(text);
  StrategyResult r;
  if (j.contains("refused")) {
    for (const auto& d : j["refused"]) refused.push_back({{d[0], d[1], d[2]}, d[3], d[4], d[5]});
    return r;
  }
  r.step_seconds = j["steps"].get<std::vector<double>>();
  r.first_step_seconds = j["first"];
  r.engine = static_cast<Engine>(j["engine"].get<int>());
  r.extrapolated = j["extrapolated"];
  r.simulated_steps = j["simulated"];
  r.split = split_from_json(j["split"]);
  r.device_busy = j["busy"];
  r.samples_per_step = j["samples"];
  for (const auto& t : j["traffic"]) r.traffic.push_back({t[0], t[1], t[2], t[3]});
  if (j.contains("staleness")) {
    const auto& s = j["staleness"];
    r.staleness = Staleness{s[0], s[1], s[2], s[3], histogram_from_json(s[4])};
  }
  if (j.contains("worker_steps")) {
    const auto& w = j["worker_steps"];
    r.worker_steps = WorkerSteps{histogram_from_json(w[0]), w[1], w[2]};
  }
  const auto& m = j["memory"];
  r.memory = {m[0], m[1], m[2], m[3], m[4], m[5].get<std::map<std::string, double>>()};
  r.memory_capacity = j["capacity"];
  const auto& p = j["provenance"];
  r.provenance = {p[0], p[1], p[2]};
  r.notes = j["notes"].get<std::vector<std::string>>();
  return r;
}

}  // namespace lockstep
