// `lockstep compare A [B]`: the strategies of one scenario against its first, or two scenarios
// point by point.
#include <fmt/format.h>

#include "cli/commands.hpp"
#include "core/units.hpp"
#include "results/table.hpp"

namespace lockstep {

namespace {

std::string ratio_text(double seconds, double base_seconds) {
  const double ratio = base_seconds / seconds;
  if (ratio >= 1.005) return fmt::format("{:.2f} times faster", ratio);
  if (ratio <= 0.995) return fmt::format("{:.2f} times slower", 1 / ratio);
  return "the same";
}

std::string memory_text(double bytes, double base_bytes) {
  return base_bytes > 0 ? fmt::format("{:+.1f} %", 100 * (bytes / base_bytes - 1)) : "-";
}

void add_row(Table& table, const std::string& what, const Prediction& p, const Prediction& base,
             const std::string& base_name) {
  table.add_row({what, std::to_string(p.gpus), human(p.step_seconds, Dimension::seconds, 4),
                 base_name, human(base.step_seconds, Dimension::seconds, 4),
                 ratio_text(1 / p.samples_per_second, 1 / base.samples_per_second),
                 memory_text(p.memory.allocated, base.memory.allocated)});
}

}  // namespace

int compare_command(const std::vector<std::string>& files, const CommonOptions& options) {
  using Align = Table::Align;
  Table table({{"this", Align::left},
               {"GPUs"},
               {"step"},
               {"against", Align::left},
               {"step"},
               {"per sample it is", Align::left},
               {"memory"}});
  ProgressLine progress("simulating");
  const RunOptions run = progress.run_options(options.workers);
  const ResultRecord first = run_scenario(read_scenario(files.front()), run);
  if (files.size() == 1) {
    for (const auto& p : first.predictions) {
      for (const auto& base : first.predictions) {
        const bool is_first = base.strategy == first.predictions.front().strategy;
        if (is_first && base.gpus == p.gpus && p.strategy != base.strategy) {
          add_row(table, p.strategy, p, base, base.strategy);
        }
      }
    }
    if (table.empty()) {
      throw file_error(files.front(), "strategies", "has one strategy: nothing to compare",
                       "name a second scenario or a second strategy");
    }
  } else {
    const ResultRecord second = run_scenario(read_scenario(files.back()), run);
    for (const auto& p : second.predictions) {
      for (const auto& base : first.predictions) {
        if (base.strategy == p.strategy && base.gpus == p.gpus) {
          add_row(table, fmt::format("{} of {}", p.strategy, second.scenario), p, base,
                  first.scenario);
        }
      }
    }
    if (table.empty()) {
      throw file_error(files.back(), "", "shares no strategy and GPU count with " + files.front());
    }
  }
  switch (options.format) {
    case Format::csv:
      print(table.csv());
      break;
    case Format::markdown:
      print(table.markdown());
      break;
    default:
      print(table.text());
      break;
  }
  return 0;
}

}  // namespace lockstep
