// The report of real training for people. It resembles the report of a prediction, without the
// values that cannot be observed from outside.
#include <fmt/format.h>

#include "results/cells.hpp"
#include "results/render.hpp"
#include "results/staleness.hpp"
#include "results/table.hpp"

namespace lockstep {

namespace {

using Align = Table::Align;

// A table with one row per run. `cells_of` returns the cells after the name; a run without cells
// has no row.
Table table_of(const RealRecord& record, std::vector<std::string> titles, auto cells_of) {
  std::vector<Table::Column> columns{{"strategy", Align::left}, {"ranks"}};
  for (std::string& title : titles) columns.push_back({std::move(title)});
  Table table(columns);
  for (const RealRun& run : record.runs) {
    std::vector<std::string> cells{run.strategy, std::to_string(run.ranks)};
    const std::vector<std::string> more = cells_of(run);
    if (more.empty()) continue;
    cells.insert(cells.end(), more.begin(), more.end());
    table.add_row(std::move(cells));
  }
  return table;
}

// Losses, accuracy and notes of a run.
std::string remarks(const RealRun& run) {
  std::string out;
  if (!run.losses.empty()) {
    out += fmt::format("{}: loss {:.4f} in the first measured step, {:.4f} in the last\n",
                       run.strategy, run.losses.front(), run.losses.back());
  }
  if (run.test_accuracy) {
    out += fmt::format("{}: accuracy {:.2f} % on the test set\n", run.strategy,
                       100 * *run.test_accuracy);
  }
  for (const std::string& note : run.notes) out += fmt::format("  note: {}\n", note);
  return out;
}

}  // namespace

double step_beside(const Prediction& predicted) {
  return predicted.worker_steps ? predicted.step_seconds : predicted.median_step_seconds;
}

std::string render_text(const RealRecord& record) {
  using Cells = std::vector<std::string>;
  std::string out = record.scenario + "\n";
  out += fmt::format("{} on {}, {}, global batch {}\n\n", record.model, record.platform,
                     record.precision, record.runs.front().global_batch);
  out += table_of(record, {"measured steps", "step", "5 % .. 95 % of the steps", "samples/s"},
                  [](const RealRun& run) {
                    return Cells{std::to_string(run.each_step_seconds.size()),
                                 seconds_text(run.step_seconds),
                                 fmt::format("{} .. {}", seconds_text(run.step_interval.low),
                                             seconds_text(run.step_interval.high)),
                                 rate_text(run.samples_per_second)};
                  })
             .text();
  out += "\nA rank's step by its clock (mean; communication and waiting are inside)\n";
  out += table_of(record, {"forward", "backward", "optimizer"}, [](const RealRun& run) {
           const PhaseSeconds& phases = run.phases;
           return Cells{seconds_text(phases.forward), seconds_text(phases.backward),
                        seconds_text(phases.optimizer)};
         }).text();
  out += "\nPeak tensor memory of a rank\n";
  out +=
      table_of(record, {"allocated", "reserved"}, [](const RealRun& run) {
        const double reserved = run.memory.reserved;
        return Cells{bytes_text(run.memory.allocated), reserved > 0 ? bytes_text(reserved) : "-"};
      }).text();
  const Table staleness =
      table_of(record, {"updates", "mean", "median", "99 %", "max"}, [](const RealRun& run) {
        if (!run.staleness) return Cells{};
        Cells cells = staleness_cells(*run.staleness);
        cells.insert(cells.begin(), std::to_string(run.staleness->each_update.size()));
        return cells;
      });
  if (!staleness.empty()) out += "\nStaleness of the updates applied\n" + staleness.text();
  out += "\n";
  for (const RealRun& run : record.runs) out += remarks(run);
  return out + "Real training: every figure was measured, none predicted.\n";
}

}  // namespace lockstep
