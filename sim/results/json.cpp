// JSON rendering of a ResultRecord; key names carry the unit.
#include <nlohmann/json.hpp>

#include "results/render.hpp"

namespace lockstep {

namespace {

using Json = nlohmann::ordered_json;

Json to_json(const std::map<std::int64_t, std::int64_t>& histogram) {
  Json j = Json::object();
  for (const auto& [value, count] : histogram) j[std::to_string(value)] = count;
  return j;
}

Json to_json(const Staleness& s) {
  return {{"mean", s.mean},
          {"p50", s.p50},
          {"p99", s.p99},
          {"max", s.max},
          {"histogram", to_json(s.histogram)}};
}

Json to_json(const Accuracy& a) {
  Json curve = Json::array();
  for (const Accuracy::Moment& m : a.curve) {
    curve.push_back({{"seconds", m.seconds},
                     {"epochs", m.epochs},
                     {"mean", m.mean},
                     {"interval", {m.interval.low, m.interval.high}}});
  }
  Json j{{"seeds", a.seeds},
         {"diverged", a.diverged},
         {"mean", a.last},
         {"interval", {a.last_interval.low, a.last_interval.high}},
         {"curve", std::move(curve)}};
  if (a.target) {
    j["target"] = *a.target;
    j["reached"] = a.reached;
    j["seconds_to_target"] = a.seconds_to_target;
    j["dollars_to_target"] = a.dollars_to_target;
  }
  return j;
}

// Only what was measured.
Json real_to_json(const Prediction& p) {
  Json j;
  j["strategy"] = p.strategy;
  j["ranks"] = p.gpus;
  j["global_batch"] = p.global_batch;
  j["micro_batch"] = p.micro_batch;
  j["precision"] = p.precision;
  j["step_seconds"] = p.step_seconds;
  j["step_interval_seconds"] = {p.step_interval.low, p.step_interval.high};
  j["samples_per_second"] = p.samples_per_second;
  j["each_step_seconds"] = p.real->step_seconds;
  j["phase_seconds"] = {{"forward", p.real->forward},
                        {"backward", p.real->backward},
                        {"optimizer", p.real->optimizer}};
  j["memory"] = {{"allocated_bytes", p.memory.allocated}};
  if (p.memory.reserved > 0) j["memory"]["reserved_bytes"] = p.memory.reserved;
  j["each_loss"] = p.real->losses;
  if (p.real->test_accuracy) j["test_accuracy"] = *p.real->test_accuracy;
  if (p.staleness) {
    j["staleness"] = to_json(*p.staleness);
    j["staleness"]["each_update"] = p.real->staleness;
  }
  j["notes"] = p.notes;
  return j;
}

Json to_json(const Prediction& p) {
  Json j;
  j["strategy"] = p.strategy;
  j["gpus"] = p.gpus;
  j["nodes"] = p.nodes;
  j["global_batch"] = p.global_batch;
  j["micro_batch"] = p.micro_batch;
  j["gradient_accumulation"] = p.accumulation;
  j["precision"] = p.precision;
  j["step_seconds"] = p.step_seconds;
  j["median_step_seconds"] = p.median_step_seconds;
  j["step_interval_seconds"] = {p.step_interval.low, p.step_interval.high};
  j["first_step_seconds"] = p.first_step_seconds;
  j["steps"] = p.steps;
  j["total_seconds"] = p.total_seconds;
  j["samples_per_second"] = p.samples_per_second;
  if (p.tokens_per_second > 0) j["tokens_per_second"] = p.tokens_per_second;
  j["scaling_efficiency"] = p.scaling_efficiency;
  j["split_seconds"] = {{"data_loading", p.split.data_loading},
                        {"forward", p.split.forward},
                        {"backward", p.split.backward},
                        {"optimizer", p.split.optimizer},
                        {"copies", p.split.copies},
                        {"exposed_communication", p.split.exposed_communication},
                        {"host_bound", p.split.host_bound},
                        {"waiting", p.split.waiting}};
  j["gpu_utilisation"] = p.gpu_utilisation;
  j["mfu"] = p.mfu;
  Json at_peak = Json::object();
  for (const auto& [kind, bytes] : p.memory.at_peak) at_peak[kind] = bytes;
  j["memory"] = {{"allocated_bytes", p.memory.allocated},
                 {"reserved_bytes", p.memory.reserved},
                 {"device_bytes", p.memory.device},
                 {"usable_bytes", p.memory_capacity},
                 {"retries", p.memory.retries},
                 {"peak_at", p.memory.moment},
                 {"at_peak_bytes", at_peak}};
  j["fits"] = !p.out_of_memory.has_value();
  if (p.out_of_memory) {
    j["out_of_memory"] = {{"shortfall_bytes", p.out_of_memory->shortfall},
                          {"would_fit", p.out_of_memory->suggestions}};
  }
  j["traffic"] = Json::array();
  for (const auto& t : p.traffic) {
    j["traffic"].push_back({{"links", t.link_class},
                            {"busiest_link_bytes", t.bytes},
                            {"total_bytes", t.total_bytes},
                            {"busy_fraction", t.busy}});
  }
  if (p.staleness) j["staleness"] = to_json(*p.staleness);
  if (p.accuracy) j["accuracy"] = to_json(*p.accuracy);
  if (p.worker_steps) {
    j["worker_steps"] = {{"least_share", p.worker_steps->least},
                         {"most_share", p.worker_steps->most},
                         {"histogram", to_json(p.worker_steps->histogram)}};
  }
  if (p.dollars > 0) j["dollars"] = p.dollars;
  j["provenance"] = {{"measured", p.provenance.measured},
                     {"interpolated", p.provenance.interpolated},
                     {"modelled", p.provenance.modelled}};
  j["simulated_steps"] = p.simulated_steps;
  j["engine"] = p.engine;
  j["extrapolated"] = p.extrapolated;
  j["bottleneck"] = p.bottleneck;
  j["notes"] = p.notes;
  return j;
}

}  // namespace

std::string render_json(const ResultRecord& record) {
  Json j;
  j["schema_version"] = result_schema_version;
  j["program"] = "lockstep";
  j["program_version"] = LOCKSTEP_VERSION;
  j["scenario"] = record.scenario;
  j["model"] = record.model;
  j["platform"] = record.platform;
  j["precision"] = record.precision;
  j["seed"] = record.seed;
  j["warnings"] = record.warnings;
  if (is_real(record)) {
    j["runs"] = Json::array();
    for (const auto& run : record.predictions) j["runs"].push_back(real_to_json(run));
  } else {
    j["predictions"] = Json::array();
    for (const auto& point : record.predictions) j["predictions"].push_back(to_json(point));
    j["failures"] = Json::array();
    for (const Failure& f : record.failures) {
      j["failures"].push_back({{"strategy", f.strategy}, {"gpus", f.gpus}, {"reason", f.reason}});
    }
  }
  return j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep
