// CSV rendering of records: one row per prediction or run, with the shortest exact decimal of every
// number. Real runs have the columns of predictions, so that one table can hold both.
#include <algorithm>
#include <utility>

#include "results/cells.hpp"
#include "results/columns.hpp"
#include "results/render.hpp"
#include "results/table.hpp"

namespace lockstep {

namespace {

template <class T>
// The cells of a row: first the columns of the record's head, then the declared columns of the
// value.
std::vector<Cell> cells_of(const RecordHead& head, const T& value) {
  ColumnCells csv;
  csv.column("scenario", head.scenario);
  csv.column("model", head.model);
  csv.field("", head.parameters, "", {.column = "parameters"});
  csv.field("", head.sequence, "", {.column = "sequence"});
  csv.column("image", head.image ? image_text(*head.image) : "");
  csv.column("platform", head.platform);
  csv.column("precision", value.precision);
  describe(csv, value);
  return std::move(csv.cells);
}

// A table with the columns of predictions. If a real run has no value for a column, its cell is
// empty.
class Rows {
 public:
  Rows() : table_(columns()) {}

  template <class T>
  void add(const RecordHead& head, const T& row) {
    const auto known = cells_of(head, row);
    std::vector<std::string> cells;
    for (const Table::Column& column : table_.columns()) {
      const auto found = std::find_if(known.begin(), known.end(), [&](const Cell& cell) {
        return cell.column == column.title;
      });
      cells.push_back(found == known.end() ? "" : found->text);
    }
    table_.add_row(std::move(cells));
  }
  std::string csv() const { return table_.csv(); }

 private:
  // All rows have the columns of an empty prediction.
  static std::vector<Table::Column> columns() {
    std::vector<Table::Column> columns;
    for (const Cell& cell : cells_of(RecordHead{}, Prediction{})) columns.push_back({cell.column});
    return columns;
  }

  Table table_;
};

}  // namespace

std::string render_csv(const ResultRecord& record) {
  Rows rows;
  for (const Prediction& p : record.predictions) rows.add(record, p);
  return rows.csv();
}
std::string render_csv(const RealRecord& record) {
  Rows rows;
  for (const RealRun& run : record.runs) rows.add(record, run);
  return rows.csv();
}
std::string render_csv(const AlternativesRecord& record) {
  Rows rows;
  for (const AlternativeRow& row : record.order) {
    const ResultRecord& answer =
        record.alternatives[static_cast<std::size_t>(row.alternative)].record;
    rows.add(answer, answer.predictions[static_cast<std::size_t>(row.prediction)]);
  }
  return rows.csv();
}

}  // namespace lockstep
