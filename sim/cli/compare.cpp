// `lockstep compare A [B]`: the strategies of one scenario against its first, or two scenarios
// point by point. Like `check` it ends with 3 when nothing of one of them fits.
#include <fmt/format.h>

#include <cstdio>

#include "cli/verb.hpp"
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

std::string fits_text(const Prediction& p, const Prediction& base) {
  if (p.out_of_memory) return base.out_of_memory ? "NEITHER" : "only the other";
  return base.out_of_memory ? "only this" : "both";
}

// Where the two compute in different precisions, each name says its own.
std::string named(const std::string& name, const Prediction& p, const Prediction& other) {
  return p.precision == other.precision ? name : fmt::format("{} ({})", name, p.precision);
}

void add_row(Table& table, const std::string& what, const Prediction& p, const Prediction& base,
             const std::string& base_name) {
  table.add_row({named(what, p, base), std::to_string(p.gpus),
                 human(p.step_seconds, Dimension::seconds, 4), named(base_name, base, p),
                 human(base.step_seconds, Dimension::seconds, 4),
                 ratio_text(1 / p.samples_per_second, 1 / base.samples_per_second),
                 memory_text(p.memory.allocated, base.memory.allocated), fits_text(p, base)});
}

int compare(const std::vector<std::string>& files, const CommonOptions& options) {
  using Align = Table::Align;
  Table table({{"this", Align::left},
               {"GPUs"},
               {"step"},
               {"against", Align::left},
               {"step"},
               {"per sample it is", Align::left},
               {"memory"},
               {"fits", Align::left}});
  std::vector<ResultRecord> records;
  {
    ProgressLine progress("simulating");
    for (const std::string& file : files) {
      records.push_back(run_scenario(read_scenario(file), progress.run_options(options.workers)));
    }
  }
  const ResultRecord& first = records.front();
  int code = 0;
  for (const ResultRecord& record : records) {
    tell_warnings(record);
    if (tell_failures(record.failures) != 0) code = 1;
  }
  if (files.size() == 1) {
    for (const auto& p : first.predictions) {
      for (const auto& base : first.predictions) {
        const bool is_first = base.strategy == first.predictions.front().strategy;
        if (is_first && base.gpus == p.gpus && p.strategy != base.strategy) {
          add_row(table, p.strategy, p, base, base.strategy);
        }
      }
    }
    if (table.empty() && code == 0) {
      throw file_error(files.front(), "strategies", "has one strategy: nothing to compare",
                       "name a second scenario or a second strategy");
    }
  } else {
    const ResultRecord& second = records.back();
    for (const auto& p : second.predictions) {
      for (const auto& base : first.predictions) {
        if (base.strategy == p.strategy && base.gpus == p.gpus) {
          add_row(table, fmt::format("{} of {}", p.strategy, second.scenario), p, base,
                  first.scenario);
        }
      }
    }
    if (table.empty() && code == 0) {
      throw file_error(files.back(), "", "shares no strategy and GPU count with " + files.front());
    }
  }
  print(rendered(table, options.format));
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (code == 1 || something_fits(records[i].predictions)) continue;
    fmt::print(stderr, "{}: nothing fits into memory\n", files[i]);
    code = 3;
  }
  return code;
}

Choice declare(CLI::App& app) {
  struct Arguments {
    std::vector<std::string> files;
    CommonOptions common;
  };
  const auto given = std::make_shared<Arguments>();
  CLI::App& verb = *app.add_subcommand(
      "compare", "Compare the strategies of one scenario, or two scenarios point by point");
  verb.add_option("scenarios", given->files, "One or two scenario files")
      ->required()
      ->expected(1, 2);
  add_formats(verb, given->common, Formats::csv_markdown);
  add_workers(verb, given->common);
  add_examples(verb, {"scenarios/one_slow_gpu.yaml", "before.yaml after.yaml --markdown"});
  return {&verb, [given] { return compare(given->files, given->common); }};
}
const Verb verb{VerbGroup::questions, declare};

}  // namespace

}  // namespace lockstep
