// The records of a question's alternatives (scenario/alternatives.hpp) as one answer. Used if a
// scenario lists several values for a field.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "results/record.hpp"

namespace lockstep {

// A field and its value in one alternative.
struct Chosen {
  std::string field;  // "platform", "batch.per_gpu"; "scenario" where several files are asked
  std::string value;
};

struct AlternativeResult {
  std::vector<Chosen> chosen;  // the same fields for all
  ResultRecord record;
};

// One prediction of one alternative, as indices.
struct AlternativeRow {
  int alternative = 0, prediction = 0;
};

// The answers of all alternatives of a question. REQUIRES: at least one alternative.
struct AlternativesRecord {
  std::vector<AlternativeResult> alternatives;
  std::vector<AlternativeRow> order;  // of all predictions, as the table has them
};

// An impossible alternative, and the reason.
struct RefusedAlternative {
  std::vector<Chosen> chosen;
  std::string reason;
};

// Orders of the table; `none` = as written.
enum class SortKey { none, time, cost, memory, energy, throughput };

// Rows without a value for the key (no price, no energy) follow rows with one. Rows that do not fit
// into memory come last; other ties keep the written order. Time is the time of the run, or of one
// sample if the run's length is not known.
void sort_rows(AlternativesRecord& record, SortKey key);
void sort_predictions(ResultRecord& record, SortKey key);

// The predictions of all alternatives, in the order of the table.
std::vector<Prediction> rows_of(const AlternativesRecord& record);
// Whether every prediction knows the time of its whole run. Predictions then compare by this time,
// otherwise by the time of one sample.
bool whole_runs(const std::vector<Prediction>& predictions);
// The best prediction that fits into memory and has a value for the key.
std::optional<std::size_t> best_of(const std::vector<Prediction>& predictions, SortKey key);
// "platform" of "platform", "per_gpu" of "batch.per_gpu".
std::string heading_of(const Chosen& choice);

std::string render_text(const AlternativesRecord& record);
std::string render_json(const AlternativesRecord& record);
std::string render_csv(const AlternativesRecord& record);
std::string alternatives_schema();
std::string alternatives_fields();

}  // namespace lockstep
