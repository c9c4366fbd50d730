// JSON rendering of a record; key names carry the unit (fields.hpp).
#include "results/json_fields.hpp"
#include "results/render.hpp"

namespace lockstep {

namespace {

std::string document(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string render_json(const ResultRecord& record) {
  return document(json_of(record));
}
std::string render_json(const AlternativesRecord& record) {
  return document(json_of(record));
}
std::string render_json(const RealRecord& record) {
  return document(json_of(record));
}

std::vector<RealRun> runs_of_json(const std::string& text) {
  std::vector<RealRun> runs;
  read_json(nlohmann::ordered_json::parse(text).at("runs"), runs);
  return runs;
}

}  // namespace lockstep
