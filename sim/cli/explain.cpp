// `lockstep explain SCENARIO [OTHER]`: why the numbers are what they are; with two scenarios, where
// the difference of their common points comes from. Like `run` it ends with 3 when nothing fits.
#include "questions/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cli/verb.hpp"
#include "core/output.hpp"
#include "core/units.hpp"
#include "points/predict.hpp"
#include "questions/advice.hpp"
#include "questions/anchor.hpp"
#include "results/cells.hpp"
#include "results/sentences.hpp"
#include "results/table.hpp"

namespace lockstep::explain_verb {

namespace {

using Align = Table::Align;

struct Explained {
  Scenario scenario;
  std::vector<CostScale> scales;
  std::vector<Point> points;
  std::vector<Prediction> predictions;
  int code = 0;
};

Explained predict_all(const std::string& file, const RunOptions& options) {
  Explained e;
  e.scenario = read_scenario(file);
  e.scales = anchor_scales(e.scenario, options);
  Predicted predicted = predict_each(e.scenario, expand(e.scenario, e.scales), options);
  advise(e.scenario, e.scales, predicted, options);
  e.points = std::move(predicted.points);
  e.predictions = std::move(predicted.predictions);
  e.code = tell_failures(predicted.failures);
  if (e.code == 0 && !something_fits(e.predictions)) {
    print_error("{}: nothing fits into memory\n", file);
    e.code = 3;
  }
  return e;
}

std::string title(const Prediction& p) {
  return point_text(p.strategy, p.gpus);
}

double total(const Attribution& attribution) {
  double sum = 0;
  for (const auto& [what, seconds] : attribution) sum += seconds;
  return sum;
}

std::string milliseconds(double seconds) {
  return fmt::format("{:.3f}", 1e3 * seconds);
}

void explain_point(const Explained& e, std::size_t i, const CommonOptions& options,
                   const RunOptions& run) {
  const Prediction& p = e.predictions[i];
  const Attribution parts = attribute(p, e.points[i]);
  const double step = total(parts);
  print(wrapped(fmt::format("{}: {} per step. {}", title(p), human(step, Dimension::seconds, 4),
                            p.bottleneck)) +
        "\n\n");
  Table where({{"where the step goes", Align::left}, {"ms"}, {"share"}});
  for (const auto& [what, seconds] : parts) {
    if (seconds > 0) {
      where.add_row({what, milliseconds(seconds), fmt::format("{:.1f} %", 100 * seconds / step)});
    }
  }
  print(rendered(where, options.format) + "\n");

  const Attribution kinds = device_time_by_kind(e.points[i]);
  const double device = total(kinds);
  Table layers({{"device time by kind of layer", Align::left}, {"ms per micro-batch"}, {"share"}});
  for (std::size_t k = 0; k < kinds.size() && k < 8; ++k) {
    layers.add_row({kinds[k].first, milliseconds(kinds[k].second),
                    fmt::format("{:.1f} %", 100 * kinds[k].second / device)});
  }
  print(rendered(layers, options.format) + "\n");

  Table sensitivity({{"if this changes", Align::left}, {"time per sample changes by"}});
  for (const auto& s : sensitivities(e.scenario, e.points[i], e.scales, run)) {
    const double change = std::abs(s.step_change) < 5e-5 ? 0 : s.step_change;  // no "-0.00 %"
    // Where nothing fits as it is, the heading has said so.
    const bool no_way = !s.fits && !p.out_of_memory;
    sensitivity.add_row(
        {no_way ? s.input + " (does not fit)" : s.input, fmt::format("{:+.2f} %", 100 * change)});
  }
  print(rendered(sensitivity, options.format) + "\n");
  print(wrapped(fmt::format(
            "Costs: {:.0f} % measured, {:.0f} % interpolated, {:.0f} % modelled; 90 % interval "
            "{} .. {}.",
            100 * p.provenance.measured, 100 * p.provenance.interpolated,
            100 * p.provenance.modelled, human(p.step_interval.low, Dimension::seconds),
            human(p.step_interval.high, Dimension::seconds))) +
        "\n\n");
}

// Time per sample of `to` minus that of `from`, part by part.
void explain_difference(const std::string& from_name, const Prediction& from,
                        const Point& from_point, const std::string& to_name, const Prediction& to,
                        const Point& to_point, const CommonOptions& options) {
  Table table({{"GPU time per sample", Align::left}, {"ms before"}, {"ms after"}, {"difference"}});
  const auto add = [&](const std::string& what, double a, double b) {
    table.add_row({what, fmt::format("{:.4f}", 1e3 * a), fmt::format("{:.4f}", 1e3 * b),
                   fmt::format("{:+.4f}", 1e3 * (b - a))});
  };
  double before = 0, after = 0;
  for (const auto& part : difference(from, from_point, to, to_point)) {
    add(part.what, part.before, part.after);
    before += part.before;
    after += part.after;
  }
  add("all", before, after);
  print(fmt::format("From {} to {} ({:+.1f} %):\n\n{}\n", from_name, to_name,
                    100 * (after / before - 1), rendered(table, options.format)));
}

int explain(const std::vector<std::string>& files, const CommonOptions& options) {
  const RunOptions run{options.workers, {}};
  const Explained first = predict_all(files.front(), run);
  if (files.size() == 2) {
    const Explained second = predict_all(files.back(), run);
    bool any = false;
    for (std::size_t i = 0; i < first.points.size(); ++i) {
      for (std::size_t j = 0; j < second.points.size(); ++j) {
        const Prediction &a = first.predictions[i], &b = second.predictions[j];
        if (a.strategy != b.strategy || a.gpus != b.gpus) continue;
        any = true;
        explain_difference(title(a) + " of " + first.scenario.name, a, first.points[i],
                           "the same of " + second.scenario.name, b, second.points[j], options);
      }
    }
    if (!any) {
      throw file_error(files.back(), "", "shares no strategy and GPU count with " + files.front());
    }
    return first.code == 1 || second.code == 1 ? 1 : std::max(first.code, second.code);
  }
  for (std::size_t i = 0; i < first.points.size(); ++i) explain_point(first, i, options, run);
  // What changes from one strategy to the next, and from the smallest GPU count to the others.
  for (std::size_t i = 1; i < first.points.size(); ++i) {
    const Prediction &a = first.predictions[i - 1], &b = first.predictions[i];
    if (a.strategy == b.strategy) {
      explain_difference(title(a), a, first.points[i - 1], title(b), b, first.points[i], options);
    }
  }
  for (std::size_t i = 0; i < first.points.size(); ++i) {
    const Prediction &a = first.predictions.front(), &b = first.predictions[i];
    if (a.strategy != b.strategy && a.gpus == b.gpus) {
      explain_difference(title(a), a, first.points.front(), title(b), b, first.points[i], options);
    }
  }
  return first.code;
}

Choice declare(CLI::App& app) {
  struct Arguments {
    std::vector<std::string> files;
    CommonOptions common;
  };
  const auto given = std::make_shared<Arguments>();
  CLI::App& verb = *app.add_subcommand(
      "explain",
      "Say why: attribution of the step, sensitivity to each input, origin of the costs");
  verb.add_option("scenarios", given->files, "One scenario, or two to explain the difference")
      ->required()
      ->expected(1, 2);
  add_formats(verb, given->common, Formats::csv_markdown);
  add_workers(verb, given->common);
  add_examples(verb, {"my.yaml", "before.yaml after.yaml", "my.yaml --markdown > why.md"});
  return {&verb, [given] { return explain(given->files, given->common); }};
}
const Verb verb{VerbGroup::questions, declare};

}  // namespace

}  // namespace lockstep::explain_verb
