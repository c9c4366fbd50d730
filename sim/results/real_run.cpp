// The report of real training, for people: like the report of a prediction, without what a run from
// outside does not tell.
#include <fmt/format.h>

#include "results/cells.hpp"
#include "results/render.hpp"
#include "results/table.hpp"

namespace lockstep {

namespace {

using Align = Table::Align;

Table table_of(const ResultRecord& record, std::vector<std::string> titles, auto cells_of) {
  std::vector<Table::Column> columns{{"strategy", Align::left}, {"ranks"}};
  for (std::string& title : titles) columns.push_back({std::move(title)});
  Table table(columns);
  for (const Prediction& p : record.predictions) {
    std::vector<std::string> cells{p.strategy, std::to_string(p.gpus)};
    const std::vector<std::string> more = cells_of(p);
    if (more.empty()) continue;
    cells.insert(cells.end(), more.begin(), more.end());
    table.add_row(std::move(cells));
  }
  return table;
}

std::string remarks(const Prediction& p) {
  std::string out;
  const RealRun& real = *p.real;
  if (!real.losses.empty()) {
    out += fmt::format("{}: loss {:.4f} in the first measured step, {:.4f} in the last\n",
                       p.strategy, real.losses.front(), real.losses.back());
  }
  if (real.test_accuracy) {
    out += fmt::format("{}: accuracy {:.2f} % on the test set\n", p.strategy,
                       100 * *real.test_accuracy);
  }
  for (const std::string& note : p.notes) out += fmt::format("  note: {}\n", note);
  return out;
}

}  // namespace

std::string render_real_text(const ResultRecord& record) {
  using Cells = std::vector<std::string>;
  std::string out = record.scenario + "\n";
  out += fmt::format("{} on {}, {}, global batch {}\n\n", record.model, record.platform,
                     record.precision, record.predictions.front().global_batch);
  out += table_of(record, {"measured steps", "step", "5 % .. 95 % of the steps", "samples/s"},
                  [](const Prediction& p) {
                    return Cells{std::to_string(p.real->step_seconds.size()),
                                 seconds_text(p.step_seconds),
                                 fmt::format("{} .. {}", seconds_text(p.step_interval.low),
                                             seconds_text(p.step_interval.high)),
                                 rate_text(p.samples_per_second)};
                  })
             .text();
  out += "\nA rank's step by its clock (mean; communication and waiting are inside)\n";
  out += table_of(record, {"forward", "backward", "optimizer"}, [](const Prediction& p) {
           const RealRun& real = *p.real;
           return Cells{seconds_text(real.forward), seconds_text(real.backward),
                        seconds_text(real.optimizer)};
         }).text();
  out += "\nPeak tensor memory of a rank\n";
  out += table_of(record, {"allocated", "reserved"}, [](const Prediction& p) {
           const double reserved = p.memory.reserved;
           return Cells{bytes_text(p.memory.allocated), reserved > 0 ? bytes_text(reserved) : "-"};
         }).text();
  const Table staleness =
      table_of(record, {"updates", "mean", "median", "99 %", "max"}, [](const Prediction& p) {
        if (!p.staleness) return Cells{};
        const Staleness& s = *p.staleness;
        return Cells{std::to_string(p.real->staleness.size()), fmt::format("{:.2f}", s.mean),
                     fmt::format("{:.0f}", s.p50), fmt::format("{:.0f}", s.p99),
                     fmt::format("{:.0f}", s.max)};
      });
  if (!staleness.empty()) out += "\nStaleness of the updates applied\n" + staleness.text();
  out += "\n";
  for (const Prediction& p : record.predictions) out += remarks(p);
  return out + "Real training: every figure was measured, none predicted.\n";
}

}  // namespace lockstep
