// `lockstep explain SCENARIO [OTHER]` answers: which inputs determine the predicted step?
//
//   lockstep explain my.yaml --set gpus=64
//
// For each point the answer has four parts: the step by cause (compute bound by arithmetic or by
// memory, exposed communication, ...), the device time by kind of layer, the sensitivity to each
// input, and the share of measured costs. The verb also explains the change from each GPU count to
// the next, and from the first strategy to the others. With two scenarios the verb explains the
// difference between their common points only.
//
// Exit code: 1 if a point has no answer, 3 if nothing of a scenario fits.
#include "questions/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

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
using Json = nlohmann::ordered_json;

// A scenario's points and predictions, in the same order.
struct Explained {
  Scenario scenario;
  std::vector<CostScale> scales;  // factors of the scenario's anchor
  std::vector<Point> points;
  std::vector<Prediction> predictions;
  int code = 0;  // exit code for this scenario
};

// Reads and simulates a scenario as `run` does.
Explained predict_all(const std::string& file, const CommonOptions& common,
                      const RunOptions& options) {
  Explained e;
  e.scenario = scenario_of(file, common);
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

// The name of a point, such as "fsdp on 8 GPUs".
std::string title(const Prediction& p) {
  return point_text(p.strategy, p.gpus);
}

// Sum of the parts, in seconds.
double total(const Attribution& attribution) {
  double sum = 0;
  for (const auto& [quantity, seconds] : attribution) sum += seconds;
  return sum;
}

// The parts as a JSON object, in seconds.
Json json_of(const Attribution& attribution) {
  Json json = Json::object();
  for (const auto& [quantity, seconds] : attribution) json[quantity] = seconds;
  return json;
}

std::string milliseconds(double seconds) {
  return fmt::format("{:.3f}", 1e3 * seconds);
}

// The explanation of one point.
struct Reasons {
  Attribution parts;                 // the step by cause
  Attribution kinds;                 // the device time of a micro-batch by kind of layer
  std::vector<Sensitivity> changes;  // change of the step with each input
};

// Explains point `i`; simulates it once per input.
Reasons reasons_of(const Explained& e, std::size_t i, const RunOptions& run) {
  return {attribute(e.predictions[i], e.points[i]), device_time_by_kind(e.points[i]),
          sensitivities(e.scenario, e.points[i], e.scales, run)};
}

// Prints the explanation of one point: a sentence, three tables, and a sentence.
void print_point(const Prediction& p, const Reasons& why, Format format) {
  const double step = total(why.parts);
  print(wrapped(fmt::format("{}: {} per step. {}", title(p), human(step, Dimension::seconds, 4),
                            p.bottleneck)) +
        "\n\n");
  Table where({{"where the step goes", Align::left}, {"ms"}, {"share"}});
  for (const auto& [quantity, seconds] : why.parts) {
    if (seconds > 0) {
      where.add_row(
          {quantity, milliseconds(seconds), fmt::format("{:.1f} %", 100 * seconds / step)});
    }
  }
  print(rendered(where, format) + "\n");

  const double device = total(why.kinds);
  Table layers({{"device time by kind of layer", Align::left}, {"ms per micro-batch"}, {"share"}});
  for (std::size_t k = 0; k < why.kinds.size() && k < 8; ++k) {
    const auto& [kind, seconds] = why.kinds[k];
    layers.add_row({kind, milliseconds(seconds), fmt::format("{:.1f} %", 100 * seconds / device)});
  }
  print(rendered(layers, format) + "\n");

  Table sensitivity({{"if this changes", Align::left}, {"time per sample changes by"}});
  for (const Sensitivity& s : why.changes) {
    const double change = std::abs(s.step_change) < 5e-5 ? 0 : s.step_change;  // avoids "-0.00 %"
    // If the point does not fit even without a change, the bottleneck above says so.
    const bool no_way = !s.fits && !p.out_of_memory;
    sensitivity.add_row(
        {no_way ? s.input + " (does not fit)" : s.input, fmt::format("{:+.2f} %", 100 * change)});
  }
  print(rendered(sensitivity, format) + "\n");
  print(wrapped(fmt::format(
            "Costs: {:.0f} % measured, {:.0f} % interpolated, {:.0f} % modelled; 90 % interval "
            "{} .. {}.",
            100 * p.provenance.measured, 100 * p.provenance.interpolated,
            100 * p.provenance.modelled, human(p.step_interval.low, Dimension::seconds),
            human(p.step_interval.high, Dimension::seconds))) +
        "\n\n");
}

// The explanation of one point for --json, in SI units.
Json json_of(const Prediction& p, const Reasons& why) {
  Json changes = Json::array();
  for (const Sensitivity& s : why.changes) {
    changes.push_back({{"input", s.input}, {"change", s.step_change}, {"fits", s.fits}});
  }
  return {{"strategy", p.strategy},
          {"gpus", p.gpus},
          {"step_seconds", p.step_seconds},
          {"step_interval_seconds", {p.step_interval.low, p.step_interval.high}},
          {"bottleneck", p.bottleneck},
          {"step_parts_seconds", json_of(why.parts)},
          {"micro_batch_kinds_seconds", json_of(why.kinds)},
          {"sensitivities", changes}};
}

// One of the two points of a comparison, and its name there.
struct Side {
  std::string name;
  const Explained& of;
  const Prediction& prediction;
  const Point& point;
};

Side side_of(const Explained& e, std::size_t i) {
  return {title(e.predictions[i]), e, e.predictions[i], e.points[i]};
}

// Pairs of points whose difference is explained.
using Differences = std::vector<std::pair<Side, Side>>;

// The effect of each axis of the mesh; empty if the meshes are equal.
std::vector<AxisChange> axes_between(const Side& from, const Side& to, const RunOptions& run) {
  return axis_changes(from.of.scenario, from.point, to.of.scenario, to.point, from.of.scales, run);
}

// Prints the time per sample of `to` minus that of `from`, for each part of the step and for each
// axis of the mesh.
void print_difference(const Side& from, const Side& to, Format format, const RunOptions& run) {
  Table table({{"GPU time per sample", Align::left}, {"ms before"}, {"ms after"}, {"difference"}});
  const auto add = [&](const std::string& quantity, double a, double b) {
    const double more = 1e3 * (b - a);
    constexpr double shown = 0.00005;  // ms; a smaller difference is rounding, of either sign
    table.add_row({quantity, fmt::format("{:.4f}", 1e3 * a), fmt::format("{:.4f}", 1e3 * b),
                   fmt::format("{:+.4f}", std::abs(more) < shown ? 0.0 : more)});
  };
  double before = 0, after = 0;
  for (const auto& part : difference(from.prediction, from.point, to.prediction, to.point)) {
    add(part.what, part.before, part.after);
    before += part.before;
    after += part.after;
  }
  add("all", before, after);
  print(fmt::format("From {} to {} ({:+.1f} %):\n\n{}\n", from.name, to.name,
                    100 * (after / before - 1), rendered(table, format)));
  const std::vector<AxisChange> axes = axes_between(from, to, run);
  if (axes.empty()) return;
  Table changes({{"the mesh, one change after the other", Align::left},
                 {"difference in ms"},
                 {"mostly", Align::left}});
  for (const AxisChange& axis : axes) {
    changes.add_row({axis.change, fmt::format("{:+.4f}", 1e3 * axis.seconds), axis.mostly});
  }
  print(rendered(changes, format) + "\n");
}

// The difference of two points for --json.
Json json_of(const Side& from, const Side& to, const RunOptions& run) {
  Json parts = Json::array();
  for (const auto& part : difference(from.prediction, from.point, to.prediction, to.point)) {
    parts.push_back(
        {{"what", part.what}, {"before_seconds", part.before}, {"after_seconds", part.after}});
  }
  Json json{{"from", from.name}, {"to", to.name}, {"gpu_seconds_per_sample", parts}};
  for (const AxisChange& axis : axes_between(from, to, run)) {
    json["axes"].push_back(
        {{"change", axis.change}, {"seconds", axis.seconds}, {"mostly", axis.mostly}});
  }
  return json;
}

// The points that two scenarios have in common, that is, with equal strategy and GPU count.
Differences common_points(const Explained& first, const Explained& second) {
  Differences list;
  for (std::size_t i = 0; i < first.points.size(); ++i) {
    for (std::size_t j = 0; j < second.points.size(); ++j) {
      Side a = side_of(first, i), b = side_of(second, j);
      if (a.name != b.name) continue;
      a.name += " of " + first.scenario.name;
      b.name = "the same of " + second.scenario.name;
      list.emplace_back(a, b);
    }
  }
  return list;
}

// The changes from each GPU count to the next, and from the first strategy to the others.
Differences steps_between(const Explained& e) {
  Differences list;
  for (std::size_t i = 1; i < e.points.size(); ++i) {
    // Points are ordered by strategy, then by GPU count.
    if (e.predictions[i - 1].strategy != e.predictions[i].strategy) continue;
    list.emplace_back(side_of(e, i - 1), side_of(e, i));
  }
  for (std::size_t i = 0; i < e.points.size(); ++i) {
    const Prediction &a = e.predictions.front(), &b = e.predictions[i];
    if (a.strategy == b.strategy || a.gpus != b.gpus) continue;
    list.emplace_back(side_of(e, 0), side_of(e, i));
  }
  return list;
}

// Explains each point, then each difference.
int explain(const std::vector<std::string>& files, const CommonOptions& options) {
  const RunOptions run{options.workers, {}};
  const Explained first = predict_all(files.front(), options, run);
  std::optional<Explained> second;
  if (files.size() == 2) second = predict_all(files.back(), options, run);
  const Differences differences = second ? common_points(first, *second) : steps_between(first);
  if (second && differences.empty()) {
    throw file_error(files.back(), "", "shares no strategy and GPU count with " + files.front());
  }
  const bool json = options.format == Format::json;
  Json document{{"points", Json::array()}, {"differences", Json::array()}};
  // With two scenarios, only their differences are explained.
  for (std::size_t i = 0; !second && i < first.points.size(); ++i) {
    const Reasons why = reasons_of(first, i, run);
    if (json) {
      document["points"].push_back(json_of(first.predictions[i], why));
    } else {
      print_point(first.predictions[i], why, options.format);
    }
  }
  for (const auto& [from, to] : differences) {
    if (json) {
      document["differences"].push_back(json_of(from, to, run));
    } else {
      print_difference(from, to, options.format, run);
    }
  }
  if (json) print(document.dump(2) + "\n");
  if (!second) return first.code;
  return first.code == 1 || second->code == 1 ? 1 : std::max(first.code, second->code);
}

Choice declare(CLI::App& app) {
  struct Arguments {
    std::vector<std::string> files;
    CommonOptions common;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& verb = *app.add_subcommand(
      "explain",
      "Say why: attribution of the step, sensitivity to each input, origin of the costs");
  verb.add_option("scenarios", arguments->files, "One scenario, or two to explain the difference")
      ->required()
      ->expected(1, 2);
  add_settings(verb, arguments->common);
  add_formats(verb, arguments->common, Formats::tables);
  add_workers(verb, arguments->common);
  add_examples(verb, {"my.yaml", "my.yaml --set gpus=64 --json", "before.yaml after.yaml",
                      "my.yaml --markdown > why.md"});
  return {&verb, [arguments] { return explain(arguments->files, arguments->common); }};
}
const Verb verb{VerbGroup::questions, declare};

}  // namespace

}  // namespace lockstep::explain_verb
