// Lists the columns of a value whose fields are declared (fields.hpp), in the order of declaration
// and including the fields of its parts. CSV output and the rows of a sweep use it. A field becomes
// a column only if its declaration names one. Lists and histograms have no columns.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "results/json_fields.hpp"

namespace lockstep {

// One cell with the name of its column.
struct Cell {
  std::string column;
  std::string text;    // the shortest exact decimal of a number; "" = no value
  bool words = false;  // true for text, false for numbers and truth values
};

// A visitor that collects the cells of a value. All values of one type give the same columns, so
// that one header fits all rows.
class ColumnCells : public FigureVisitor<ColumnCells> {
 public:
  // An absent optional part gives empty cells; the names of its columns come from a default value.
  template <class T>
  void visit(const Figure& figure, const T& value) {
    if constexpr (figures::is_optional<T>) {
      using Part = typename T::value_type;
      if constexpr (figures::has_fields<Part>) {
        if (value) {
          describe(*this, *value);
        } else {
          ColumnCells none;
          describe(none, static_cast<const Part&>(Part{}));
          for (Cell& cell : none.cells) cells.push_back({std::move(cell.column), "", cell.words});
        }
      } else if constexpr (figures::is_plain<Part>) {
        if (*figure.column == '\0') return;
        column(figure.column, value.value_or(Part{}));
        if (!value) cells.back().text.clear();
      }
    } else if constexpr (figures::is_plain<T>) {
      if (*figure.column == '\0') return;
      column(figure.column, value);
      if constexpr (std::is_arithmetic_v<T>) {
        if (figure.none_at_zero && value == 0) cells.back().text.clear();
      }
    } else if constexpr (figures::has_fields<T>) {
      describe(*this, value);
    }
  }
  // Adds a column that does not belong to a field.
  template <class T>
  void column(const char* name, const T& value) {
    cells.push_back({name, fmt::format("{}", value), !std::is_arithmetic_v<T>});
  }

  std::vector<Cell> cells;
};

}  // namespace lockstep
