// One line of a sweep's result: its settings, and the answer or the reason why there is none. A row
// depends only on the input (unless its simulation fails), so every process writes the same bytes
// for it. Rows are JSON, one per line; at the end they can be converted to CSV.
#pragma once

#include <string>
#include <vector>

#include "points/points.hpp"
#include "results/record.hpp"
#include "sweep/grid.hpp"

namespace lockstep {

// The points of a sweep in ascending order, and the data that all rows share.
struct SweepPlan {
  const Grid* grid = nullptr;      // not owned; must outlive the plan
  std::vector<PointIndex> points;  // a row's number is its index here
  std::string digest;              // identifies grid and sample
  std::vector<CostScale> scales;   // from the file's anchor: one per entry; empty without an anchor
};

// `answer`: a prediction. `refused`: the combination is impossible, for example because a batch
// does not divide. `failed`: the simulation crashed, hung, or exceeded its time or memory.
enum class RowKind { answer, refused, failed };

// Returns a row as one line of JSON with its newline. `number` is an index into plan.points.
std::string answer_row(const SweepPlan& plan, std::size_t number, const Prediction& prediction);
std::string no_answer_row(const SweepPlan& plan, std::size_t number, RowKind kind,
                          const std::string& reason);

// The beginning of a row, which identifies its sweep.
struct RowHead {
  std::string digest;
  std::size_t number = 0, all = 0;  // row number, and rows of the whole sweep
  RowKind kind = RowKind::answer;
};
// Reads the head of a row. Throws std::invalid_argument if the line is no row of a sweep.
RowHead read_row(const std::string& line);
// The kind of a row, found without parsing. Throws std::logic_error if there is none.
// REQUIRES: `line` is a row.
RowKind kind_of(const std::string& line);
// Whether the row is an answer that fits into memory, found without parsing.
bool fits_into_memory(const std::string& line);
// The reason why there is no answer; "" if there is one.
std::string reason_of(const std::string& line);

// Convert a row to CSV: the header, and the row itself. All rows of a sweep have the same header.
std::string csv_header(const std::string& line);
std::string csv_row(const std::string& line);

}  // namespace lockstep
