// Validates with valijson. Only this source includes its templates, which take long to compile.
#include "schema/accepts.hpp"

#include <charconv>
#include <cmath>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

namespace lockstep {

namespace {

// Converts a YAML text as an editor does before it validates: a plain scalar becomes a number, a
// boolean or a string.
nlohmann::json as_editors_see(const Node& node) {
  nlohmann::json json;
  switch (node.kind()) {
    case Node::Kind::null:
      break;
    case Node::Kind::sequence:
      json = nlohmann::json::array();
      for (const auto& element : node.elements()) json.push_back(as_editors_see(element));
      break;
    case Node::Kind::map:
      json = nlohmann::json::object();
      for (const auto& [key, value] : node.entries()) json[key] = as_editors_see(value);
      break;
    case Node::Kind::scalar: {
      const std::string& text = node.scalar();
      double number = 0;
      const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
      const bool whole = end.ec == std::errc{} && end.ptr == text.data() + text.size();
      if (!node.quoted() && (text == "true" || text == "false")) {
        json = text == "true";
      } else if (!node.quoted() && whole && number == std::floor(number) &&
                 std::abs(number) < 1e15) {
        json = static_cast<std::int64_t>(number);
      } else if (!node.quoted() && whole) {
        json = number;
      } else {
        json = text;
      }
    }
  }
  return json;
}

}  // namespace

bool schema_accepts(const nlohmann::json& schema, const Node& document) {
  return schema_faults(schema, as_editors_see(document)).empty();
}

std::string schema_faults(const nlohmann::json& schema, const nlohmann::json& document) {
  using Adapter = valijson::adapters::NlohmannJsonAdapter;
  valijson::Schema parsed;
  valijson::SchemaParser(valijson::SchemaParser::kDraft7).populateSchema(Adapter(schema), parsed);
  valijson::ValidationResults results;
  if (valijson::Validator().validate(parsed, Adapter(document), &results)) return "";
  std::string faults;
  for (valijson::ValidationResults::Error error; results.popError(error);) {
    for (const std::string& key : error.context) faults += key;
    faults += ": " + error.description + "\n";
  }
  return faults.empty() ? "refused" : faults;
}

}  // namespace lockstep
