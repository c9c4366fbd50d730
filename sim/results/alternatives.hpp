// Joins the records of a question's alternatives (scenario/alternatives.hpp) into one answer. If a
// scenario lists several values for some fields, each combination of these values is an
// alternative.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "results/record.hpp"

namespace lockstep {

// A field and its value in one alternative.
struct Chosen {
  std::string field;  // "platform", "batch.per_gpu"; "scenario" if several files are compared
  std::string value;
};

struct AlternativeResult {
  std::vector<Chosen> chosen;  // all alternatives have the same fields here
  ResultRecord record;
};

// One prediction of one alternative, as two indices.
struct AlternativeRow {
  int alternative = 0, prediction = 0;
};

// The answers of all alternatives of a question.
// REQUIRES: at least one alternative.
struct AlternativesRecord {
  std::vector<AlternativeResult> alternatives;
  std::vector<AlternativeRow> order;  // of all predictions, in the order of the table
};

// An alternative that cannot be simulated, and the reason.
struct RefusedAlternative {
  std::vector<Chosen> chosen;
  std::string reason;
};

// The order of the table; `none` is the order in which the scenario lists the values.
enum class SortKey { none, time, cost, memory, energy, throughput };

// Sorts by the key. Rows without a value for the key (no price, no energy) follow rows with one,
// and rows that do not fit into memory come last; equal rows stay in the scenario's order. With
// `none`, all rows have the scenario's order. The key `time` is the time of the run, or of one
// sample if the length of some run is not known.
void sort_rows(AlternativesRecord& record, SortKey key);
void sort_predictions(ResultRecord& record, SortKey key);

// The predictions of all alternatives, in the order of the table.
std::vector<Prediction> rows_of(const AlternativesRecord& record);
// Whether every prediction knows the time of its whole run. If so, predictions are compared by this
// time, otherwise by the time of one sample.
bool whole_runs(const std::vector<Prediction>& predictions);
// Index of the best prediction that fits into memory and has a value for the key; no index if there
// is none.
std::optional<std::size_t> best_of(const std::vector<Prediction>& predictions, SortKey key);
// The last part of the field's name ("per_gpu" for "batch.per_gpu"); "global batch" for
// "batch.global".
std::string heading_of(const Chosen& choice);

std::string render_text(const AlternativesRecord& record);
std::string render_json(const AlternativesRecord& record);
std::string render_csv(const AlternativesRecord& record);
std::string alternatives_schema();
std::string alternatives_fields();

}  // namespace lockstep
