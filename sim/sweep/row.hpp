// One line of a sweep's result: the settings, and the answer or the reason why there is none.
// Depends only on the input: the same bytes from every process.
#pragma once

#include <string>
#include <vector>

#include "points/points.hpp"
#include "results/record.hpp"
#include "sweep/grid.hpp"

namespace lockstep {

// The chosen points of a grid, in ascending order, and their common data.
struct SweepPlan {
  const Grid* grid = nullptr;
  std::vector<PointIndex> points;  // a row's number is its place here
  std::string digest;              // of the grid and the choice
  std::vector<CostScale> scales;   // of the file's anchor; one per entry, or none
};

// Rows without an answer: `refused` = the combination is impossible (a batch that does not divide,
// ...), `failed` = the simulation crashed, hung, or exceeded its time or memory.
enum class RowKind { answer, refused, failed };

// JSON, one line with its newline.
std::string answer_row(const SweepPlan& plan, std::size_t number, const Prediction& prediction);
std::string no_answer_row(const SweepPlan& plan, std::size_t number, RowKind kind,
                          const std::string& reason);

struct RowHead {
  std::string digest;
  std::size_t number = 0, all = 0;  // which of how many rows of the sweep
  RowKind kind = RowKind::answer;
};
// Throws std::invalid_argument if the line is no row of a sweep.
RowHead read_row(const std::string& line);
// The kind of a valid row, without parsing all of it.
RowKind kind_of(const std::string& line);
bool fits_into_memory(const std::string& line);
std::string reason_of(const std::string& line);  // why there is no answer; "" = there is one

// The same as CSV; the header is that of any row of the sweep.
std::string csv_header(const std::string& line);
std::string csv_row(const std::string& line);

}  // namespace lockstep
