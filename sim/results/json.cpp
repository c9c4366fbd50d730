// JSON rendering of records: one document, whose key names contain the unit. The fields come from
// their declarations (fields.hpp), so this file lists none.
#include "results/json_fields.hpp"
#include "results/render.hpp"

namespace lockstep {

namespace {

// The text of a document. Bytes that are not UTF-8 are replaced, because names come from users.
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
