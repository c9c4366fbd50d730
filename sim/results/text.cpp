// The report for people: a summary table, a table of the parts of a step, further tables for values
// that only some points have, then sentences about bottlenecks. Optional sections without rows are
// left out.
#include <fmt/format.h>

#include "results/cells.hpp"
#include "results/render.hpp"
#include "results/sentences.hpp"
#include "results/tables.hpp"

namespace lockstep {

namespace {

// A table, folded to the width of a terminal. Each block begins with the first `keys` columns,
// usually strategy and GPUs.
std::string of_points(const Table& table, std::size_t keys = 2) {
  return table.folded(text_width, keys);
}

// A titled table; "" if it has no rows.
std::string section(const std::string& title, const Table& table, std::size_t keys = 2) {
  return table.empty() ? "" : "\n" + wrapped(title) + "\n" + of_points(table, keys);
}

// For example "3 seeds", for the points that were trained.
std::string seeds_text(const ResultRecord& record) {
  int seeds = 0;
  for (const Prediction& p : record.predictions) {
    if (p.accuracy) seeds = p.accuracy->seeds;
  }
  return fmt::format("{} seed{}", seeds, seeds == 1 ? "" : "s");
}

// For example "20 runs", for the points that were simulated with failures.
std::string runs_text(const ResultRecord& record) {
  int runs = 0;
  for (const Prediction& p : record.predictions) {
    if (p.with_failures) runs = p.with_failures->runs;
  }
  return fmt::format("{} run{}", runs, runs == 1 ? "" : "s");
}

// Bottlenecks, suggestions, notes and failures; similar sentences of several points are merged.
std::string remarks(const ResultRecord& record) {
  PointSentences sentences;
  for (const auto& p : record.predictions) {
    sentences.add(p.strategy, p.gpus, p.bottleneck);
    if (p.out_of_memory) {
      for (const auto& suggestion : p.out_of_memory->suggestions) {
        sentences.add(p.strategy, p.gpus, "would fit: " + suggestion);
      }
    }
    for (const auto& note : p.notes) sentences.add(p.strategy, p.gpus, "note: " + note);
  }
  for (const Failure& failure : record.failures) {
    sentences.add(failure.strategy, failure.gpus, "no prediction: " + failure.reason);
  }
  std::string out = "\n";
  for (const std::string& sentence : sentences.texts()) out += wrapped(sentence) + "\n";
  if (record.recipe) out += wrapped("Recipe " + *record.recipe + ".") + "\n";
  for (const std::string& line : origins(record)) out += wrapped(line) + "\n";
  return out;
}

}  // namespace

std::string render_text(const ResultRecord& record) {
  // Tables that every answer has come first, then tables for options that the scenario uses.
  std::string out = wrapped(record.scenario) + "\n" + wrapped(subject_text(record));
  out += "\n\n" + of_points(summary_table(record));
  if (const std::string missing = missing_price(record); !missing.empty()) {
    out += "\n" + wrapped(missing) + "\n";
  }
  out += "\nWhere the step goes (mean of the ranks; the parts add up to the step)\n" +
         of_points(split_table(record));
  out += section("Exposed communication by axis of the mesh", exposed_table(record));
  out += "\nPeak memory per GPU\n" + of_points(memory_table(record));
  out += section("Stages of the pipeline, one GPU of each", stages_table(record), 3);
  out += section("Traffic per step, one way", traffic_table(record), 3);
  out += section("Staleness of the updates applied", staleness_table(record));
  out += section("How stale the updates are", staleness_bars(record));
  out += section("One worker's share of the steps", workers_table(record));
  out += section("Over seeds: the mean step and staleness", seeds_table(record));
  out += section("Cost of stragglers for a step (step without them; own work and waiting of ranks)",
                 stragglers_table(record));
  out += section("Energy of the GPUs for the whole run, at full board power: while busy, always",
                 energy_table(record));
  out += section("The whole run with failures (mean of " + runs_text(record) + ")",
                 failures_table(record));
  out += section("Where the whole run goes", run_split_table(record));
  out += section("Accuracy on the test set, really trained in the simulated order (" +
                     seeds_text(record) + ")",
                 accuracy_table(record));
  for (const std::string& finding : record.findings) out += "\n" + wrapped(finding) + "\n";
  out += remarks(record);
  return out;
}

}  // namespace lockstep
