// The columns of a value with declared fields (fields.hpp), in the order of declaration, including
// fields of parts. Used for CSV and the rows of a sweep. A field becomes a column if its
// declaration names one.
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
  std::string text;    // the shortest exact decimal of a number; "" = there is none
  bool words = false;  // text, not a number or a truth value
};

// A visitor that collects the cells of a value. Every value of a type gives the same columns, so
// that rows can stand under one header.
class ColumnCells : public FigureVisitor<ColumnCells> {
 public:
  // Absent optional parts give empty cells: the part's columns come from a default value.
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
  // A column that is not a field of its own.
  template <class T>
  void column(const char* name, const T& value) {
    cells.push_back({name, fmt::format("{}", value), !std::is_arithmetic_v<T>});
  }

  std::vector<Cell> cells;
};

}  // namespace lockstep
