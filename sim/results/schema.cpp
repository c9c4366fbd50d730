// JSON Schemas and field tables of the JSON documents that commands write. `lockstep schema` prints
// the schemas; the tables are part of the generated docs.
#include "results/json_schema.hpp"
#include "results/render.hpp"

namespace lockstep {

std::string result_schema() {
  return schema_text<ResultRecord>("Lockstep result: predictions of a scenario");
}
std::string training_schema() {
  return schema_text<RealRecord>("Lockstep result: real training");
}
std::string alternatives_schema() {
  return schema_text<AlternativesRecord>("Lockstep result: predictions of alternatives");
}
std::string alternatives_fields() {
  return field_table<AlternativesRecord>();
}
std::string result_fields() {
  return field_table<ResultRecord>();
}
std::string training_fields() {
  return field_table<RealRecord>();
}

}  // namespace lockstep
