// The records of a question's alternatives (scenario/alternatives.hpp) as one answer.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "results/record.hpp"

namespace lockstep {

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

struct AlternativesRecord {
  std::vector<AlternativeResult> alternatives;
  std::vector<AlternativeRow> order;  // of all predictions, as the table has them
};

enum class SortKey { none, time, cost, memory, throughput };

// What has no answer to the key (no price) comes after what has, and what does not fit into memory
// comes last; else as written. Time is that of the run, or of one sample where the run's length is
// not known.
void sort_rows(AlternativesRecord& record, SortKey key);
void sort_predictions(ResultRecord& record, SortKey key);

std::string render_text(const AlternativesRecord& record);
std::string render_json(const AlternativesRecord& record);
std::string render_csv(const AlternativesRecord& record);
std::string alternatives_schema();
std::string alternatives_fields();

}  // namespace lockstep
