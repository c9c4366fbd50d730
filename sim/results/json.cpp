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

}  // namespace lockstep
