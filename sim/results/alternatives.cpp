// Joins the answers of alternatives into one table in the requested order. Sentences that several
// rows share are printed once, after the numbers of their rows.
#include "results/alternatives.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "results/cells.hpp"
#include "results/learning.hpp"
#include "results/sentences.hpp"
#include "results/table.hpp"
#include "results/tables.hpp"

namespace lockstep {

namespace {

constexpr double none = std::numeric_limits<double>::infinity();  // no value: after all others

// The key of a ranking. The time of a run and the time of a sample cannot be compared, so the key
// is the time of the run only if all predictions know it.
struct Ranking {
  SortKey key;
  bool runs;
};

// The number to sort by: smaller is better; infinity = no value.
double rank_of(const Prediction& p, const Ranking& ranking) {
  switch (ranking.key) {
    case SortKey::none:
      return 0;
    case SortKey::time:
      if (ranking.runs) return p.total_seconds;
      return p.samples_per_second > 0 ? 1 / p.samples_per_second : none;
    case SortKey::cost:
      return p.dollars > 0 ? p.dollars : none;
    case SortKey::memory:
      return p.memory.device;
    case SortKey::energy:
      return p.energy ? p.energy->kilowatt_hours.high : none;
    case SortKey::throughput:
      return -p.samples_per_second;
  }
  return 0;
}

// Whether `a` is before `b`: a prediction that fits is before one that does not; otherwise the
// smaller key is first.
bool before(const Prediction& a, const Prediction& b, const Ranking& ranking) {
  if (a.out_of_memory.has_value() != b.out_of_memory.has_value()) return !a.out_of_memory;
  return rank_of(a, ranking) < rank_of(b, ranking);
}

const Prediction& prediction_of(const AlternativesRecord& record, const AlternativeRow& row) {
  return record.alternatives[static_cast<std::size_t>(row.alternative)]
      .record.predictions[static_cast<std::size_t>(row.prediction)];
}

// A record with the predictions of all alternatives, in the order of the table. The summary needs
// it, because it chooses its columns by looking at all points together.
ResultRecord joined(const AlternativesRecord& record) {
  ResultRecord all;
  all.predictions = rows_of(record);
  if (!all.predictions.empty()) all.precision = all.predictions.front().precision;
  return all;
}

// The table with the columns of the choices in front. `table` has a row for each row of the order
// for which `has` is true.
Table with_choices(const AlternativesRecord& record, const Table& table, auto has) {
  std::vector<Table::Column> columns{{"row"}};
  for (const Chosen& choice : record.alternatives.front().chosen) {
    columns.push_back({heading_of(choice), Table::Align::left});
  }
  columns.insert(columns.end(), table.columns().begin(), table.columns().end());
  Table result(columns);
  auto row = table.rows().begin();
  for (std::size_t i = 0; i < record.order.size(); ++i) {
    if (!has(prediction_of(record, record.order[i]))) continue;
    std::vector<std::string> cells{std::to_string(i + 1)};
    const auto alternative = static_cast<std::size_t>(record.order[i].alternative);
    for (const Chosen& choice : record.alternatives[alternative].chosen) {
      cells.push_back(choice.value);
    }
    cells.insert(cells.end(), row->begin(), row->end());
    result.add_row(std::move(cells));
    ++row;
  }
  return result;
}

// "row 2" or "rows 1-3, 5". `rows` is ascending.
std::string rows_text(const std::vector<std::size_t>& rows) {
  std::vector<std::string> ranges;
  for (std::size_t i = 0; i < rows.size();) {
    std::size_t last = i;
    while (last + 1 < rows.size() && rows[last + 1] == rows[last] + 1) ++last;
    ranges.push_back(last == i ? fmt::format("{}", rows[i])
                               : fmt::format("{}-{}", rows[i], rows[last]));
    i = last + 1;
  }
  return fmt::format("row{} {}", rows.size() == 1 ? "" : "s", fmt::join(ranges, ", "));
}

// Accuracy table, and the points that reach the target first and most cheaply; "" if no point was
// trained.
std::string accuracies(const AlternativesRecord& record, const ResultRecord& all) {
  const Table trained = accuracy_table(all);
  if (trained.empty()) return "";
  const Table table =
      with_choices(record, trained, [](const Prediction& p) { return p.accuracy.has_value(); });
  std::string out = "\nAccuracy on the test set, really trained in the simulated order\n";
  out += table.folded(text_width, 1);
  const bool has_target =
      std::any_of(all.predictions.begin(), all.predictions.end(),
                  [](const auto& p) { return p.accuracy && p.accuracy->target; });
  if (!has_target) return out;
  // Adds one line about the row that spends least to reach the target, and the rows whose intervals
  // overlap its interval. Returns false if there is no such row.
  const auto tell = [&](const char* title, const SpentToTarget& spent,
                        std::string (*text)(const Accuracy&)) {
    const auto least = least_to_target(all.predictions, spent);
    if (!least) return false;
    const Prediction& p = all.predictions[least->best];
    std::string line = fmt::format("{}: row {}, {}, {}", title, least->best + 1,
                                   point_text(p.strategy, p.gpus), text(*p.accuracy));
    if (!least->as_good.empty()) {
      std::vector<std::size_t> rows = least->as_good;
      for (std::size_t& row : rows) ++row;
      line += fmt::format("; {} may be as good: the intervals overlap", rows_text(rows));
    }
    out += wrapped(line) + "\n";
    return true;
  };
  out += "\n";
  if (!tell("Target first", seconds_to_target, seconds_to_target_text)) {
    out += "No row reaches the target with every seed.\n";
  }
  tell("Target most cheaply", dollars_to_target, dollars_to_target_text);
  return out;
}

// A line about the best row for a key; "" if no row has a value.
std::string best_text(const ResultRecord& all, SortKey key, const char* title) {
  const std::optional<std::size_t> best = best_of(all.predictions, key);
  if (!best) return "";
  const Prediction& p = all.predictions[*best];
  std::string text =
      fmt::format("{}: row {}, {}", title, *best + 1, point_text(p.strategy, p.gpus));
  if (key == SortKey::cost) return text + ", " + dollars_text(p.dollars) + "\n";
  if (key == SortKey::memory) return text + fmt::format(", {}\n", bytes_text(p.memory.device));
  return text + (whole_runs(all.predictions)
                     ? fmt::format(", {}\n", seconds_text(p.total_seconds))
                     : fmt::format(", {} samples/s\n", rate_text(p.samples_per_second)));
}

// The bottleneck without the numbers in its middle, which differ between rows: "compute: 89 % of
// the step ...; a faster GPU would help" becomes "compute; a faster GPU would help".
std::string limit_of(const std::string& bottleneck) {
  const std::size_t colon = bottleneck.find(':'), advice = bottleneck.rfind(';');
  if (colon == std::string::npos || advice == std::string::npos || advice < colon)
    return bottleneck;
  return bottleneck.substr(0, colon) + bottleneck.substr(advice);
}

// Bottlenecks, suggestions and notes. Each sentence is printed once, after its rows: "rows 1-3, 5:
// ...".
std::string grouped(const ResultRecord& all) {
  std::vector<std::pair<std::string, std::vector<std::size_t>>> sentences;
  // Adds a row to a sentence. The order of sentences is that of their first rows.
  const auto add = [&](const std::string& sentence, std::size_t row) {
    auto known = std::find_if(sentences.begin(), sentences.end(),
                              [&](const auto& other) { return other.first == sentence; });
    if (known == sentences.end()) known = sentences.insert(known, {sentence, {}});
    known->second.push_back(row);
  };
  for (std::size_t i = 0; i < all.predictions.size(); ++i) {
    const Prediction& p = all.predictions[i];
    add(limit_of(p.bottleneck), i + 1);
    if (p.out_of_memory) {
      for (const std::string& would : p.out_of_memory->suggestions)
        add("would fit: " + would, i + 1);
    }
    for (const std::string& note : p.notes) add("note: " + note, i + 1);
  }
  std::string out;
  for (const auto& [sentence, rows] : sentences) {
    out += wrapped(fmt::format("{}: {}", rows_text(rows), sentence)) + "\n";
  }
  return out;
}

}  // namespace

std::vector<Prediction> rows_of(const AlternativesRecord& record) {
  std::vector<Prediction> rows;
  for (const AlternativeRow& row : record.order) rows.push_back(prediction_of(record, row));
  return rows;
}

bool whole_runs(const std::vector<Prediction>& predictions) {
  return std::all_of(predictions.begin(), predictions.end(),
                     [](const Prediction& p) { return p.total_seconds > 0; });
}

std::optional<std::size_t> best_of(const std::vector<Prediction>& predictions, SortKey key) {
  const Ranking ranking{key, whole_runs(predictions)};
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    const Prediction& p = predictions[i];
    if (p.out_of_memory || rank_of(p, ranking) == none) continue;
    if (!best || before(p, predictions[*best], ranking)) best = i;
  }
  return best;
}

std::string heading_of(const Chosen& choice) {
  const std::string& field = choice.field;
  return field == "batch.global" ? "global batch" : field.substr(field.rfind('.') + 1);
}

void sort_rows(AlternativesRecord& record, SortKey key) {
  record.order.clear();
  for (std::size_t a = 0; a < record.alternatives.size(); ++a) {
    const auto& predictions = record.alternatives[a].record.predictions;
    for (std::size_t p = 0; p < predictions.size(); ++p) {
      record.order.push_back({static_cast<int>(a), static_cast<int>(p)});
    }
  }
  if (key == SortKey::none) return;
  const Ranking ranking{key, whole_runs(rows_of(record))};
  std::stable_sort(record.order.begin(), record.order.end(), [&](const auto& a, const auto& b) {
    return before(prediction_of(record, a), prediction_of(record, b), ranking);
  });
}

void sort_predictions(ResultRecord& record, SortKey key) {
  if (key == SortKey::none) return;
  const Ranking ranking{key, whole_runs(record.predictions)};
  std::stable_sort(record.predictions.begin(), record.predictions.end(),
                   [&](const Prediction& a, const Prediction& b) { return before(a, b, ranking); });
}

std::string render_text(const AlternativesRecord& record) {
  const ResultRecord all = joined(record);
  std::string out = record.alternatives.front().record.scenario + "\n";
  out += fmt::format("{} alternatives\n\n", record.alternatives.size()) +
         with_choices(record, alternatives_table(all), [](const Prediction&) {
           return true;
         }).folded(text_width, 1);
  out += "\n" + best_text(all, SortKey::time, "Fastest") +
         best_text(all, SortKey::cost, "Cheapest") +
         best_text(all, SortKey::memory, "Least memory");
  if (std::all_of(all.predictions.begin(), all.predictions.end(),
                  [](const Prediction& p) { return p.out_of_memory.has_value(); })) {
    out += "Nothing fits into memory.\n";
  }
  return out + accuracies(record, all) + "\n" + grouped(all);
}

}  // namespace lockstep
