// Renders a recommendation as `recommend --json` and `--csv`, with its schema. Fields and columns
// come from their declarations in recommend_fields.hpp; CSV has one row per ranked candidate.
#include "results/columns.hpp"
#include "results/json_schema.hpp"
#include "results/table.hpp"
#include "sweep/recommend_fields.hpp"

namespace lockstep {

std::string recommendation_json(const Recommendation& recommendation) {
  return json_of(recommendation)
             .dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

std::string recommendation_csv(const Recommendation& recommendation) {
  const auto cells_of = [](const Candidate& candidate) {
    ColumnCells columns;
    describe(columns, candidate);
    return columns.cells;
  };
  std::vector<Table::Column> titles{{"rank"}};
  for (const Cell& cell : cells_of({})) titles.push_back({cell.column});
  Table table(titles);
  for (std::size_t i = 0; i < recommendation.ranked.size(); ++i) {
    std::vector<std::string> row{std::to_string(i + 1)};
    for (const Cell& cell : cells_of(recommendation.ranked[i])) row.push_back(cell.text);
    table.add_row(std::move(row));
  }
  return table.csv();
}

std::string recommendation_schema() {
  return schema_text<Recommendation>("Lockstep recommendation");
}
std::string recommendation_fields() {
  return field_table<Recommendation>();
}

}  // namespace lockstep
