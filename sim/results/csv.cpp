// CSV rendering of a record: one row per prediction or run, shortest exact decimal of every number.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "results/json_fields.hpp"
#include "results/render.hpp"
#include "results/table.hpp"

namespace lockstep {

namespace {

// The columns of a value in the order they are declared, those of parts included. An optional part
// that is not there has empty cells.
class CsvCells {
 public:
  template <class T>
  void field(const Figure& figure, const T& value) {
    if constexpr (figures::is_optional<T>) {
      using Part = typename T::value_type;
      if constexpr (figures::has_fields<Part>) {
        if (value) {
          describe(*this, *value);
        } else {
          CsvCells none;
          describe(none, static_cast<const Part&>(Part{}));
          for (auto& [name, cell] : none.cells) cells.emplace_back(std::move(name), "");
        }
      }
    } else if constexpr (figures::is_plain<T>) {
      const bool none = figure.none_at_zero && json_of(value) == 0;
      if (*figure.column != '\0') cells.emplace_back(figure.column, none ? "" : cell_of(value));
    } else if constexpr (figures::has_fields<T>) {
      describe(*this, value);
    }
  }
  template <class T>
  void column(const char* name, const T& value) {
    cells.emplace_back(name, cell_of(value));
  }

  std::vector<std::pair<std::string, std::string>> cells;

 private:
  template <class T>
  static std::string cell_of(const T& value) {
    return fmt::format("{}", value);
  }
};

template <class T>
std::vector<std::pair<std::string, std::string>> cells_of(const RecordHead& head, const T& value) {
  CsvCells csv;
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
  for (const auto& [name, cell] : cells_of(head, Prediction{})) columns.push_back({name});
  Table table(columns);
  for (const T& row : rows) {
    const auto known = cells_of(head, row);
    std::vector<std::string> cells;
    for (const Table::Column& column : columns) {
      const auto found = std::find_if(known.begin(), known.end(),
                                      [&](const auto& cell) { return cell.first == column.title; });
      cells.push_back(found == known.end() ? "" : found->second);
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
