// CSV rendering of a record: one row per prediction or run, shortest exact decimal of every number.
#include <algorithm>
#include <utility>

#include "results/columns.hpp"
#include "results/render.hpp"
#include "results/table.hpp"

namespace lockstep {

namespace {

template <class T>
std::vector<Cell> cells_of(const RecordHead& head, const T& value) {
  ColumnCells csv;
  csv.column("scenario", head.scenario);
  csv.column("model", head.model);
  csv.column("platform", head.platform);
  csv.column("precision", value.precision);
  describe(csv, value);
  return std::move(csv.cells);
}

// The columns are those of predictions; what a real run does not know is an empty cell.
template <class T>
std::string csv_of(const RecordHead& head, const std::vector<T>& rows) {
  std::vector<Table::Column> columns;
  for (const Cell& cell : cells_of(head, Prediction{})) columns.push_back({cell.column});
  Table table(columns);
  for (const T& row : rows) {
    const auto known = cells_of(head, row);
    std::vector<std::string> cells;
    for (const Table::Column& column : columns) {
      const auto found = std::find_if(known.begin(), known.end(), [&](const Cell& cell) {
        return cell.column == column.title;
      });
      cells.push_back(found == known.end() ? "" : found->text);
    }
    table.add_row(std::move(cells));
  }
  return table.csv();
}

}  // namespace

std::string render_csv(const ResultRecord& record) {
  return csv_of(record, record.predictions);
}
std::string render_csv(const RealRecord& record) {
  return csv_of(record, record.runs);
}

}  // namespace lockstep
