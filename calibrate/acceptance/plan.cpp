// Makes the plan of an acceptance: first the device's probes, then for each model its calibration
// and the real runs that test it. Durations are estimated from modelled steps of each unit's model,
// precision and batch (closed_loop/estimate.hpp).
#include "acceptance/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "closed_loop/cases.hpp"
#include "closed_loop/estimate.hpp"
#include "core/errors.hpp"
#include "core/statistics.hpp"
#include "points/simulate.hpp"
#include "probes/collective_report.hpp"

namespace lockstep {

namespace {

bool contains(const std::vector<std::string>& all, const std::string& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}
bool asked(const std::vector<std::string>& wanted, const std::string& one) {
  return wanted.empty() || contains(wanted, one);
}

Unit step_unit(Purpose purpose, const std::string& model, Precision precision, std::int64_t batch) {
  const std::string name =
      fmt::format("step-{}-{}-{}-{}", enum_name(purpose), model, enum_name(precision), batch);
  return {Stage::validate, name, model, precision, {batch}, 1, "ddp-25MiB", purpose};
}

void add_rank_units(std::vector<Unit>& plan, const AcceptanceScope& scope, bool on_gpu,
                    const std::string& model, int ranks) {
  const auto add = [&](const std::string& name, const std::string& strategy) {
    plan.push_back({Stage::ranks,
                    fmt::format("{}-{}-{}", name, model, ranks),
                    model,
                    Precision::fp32,
                    {scope.rank_batch},
                    ranks,
                    strategy,
                    Purpose::ranks});
  };
  // Ranks of one machine share its memory, so layers are measured with as many ranks at the same
  // time. Ranks that share a GPU are not predicted, so they need no such measurement.
  if (!on_gpu) add("calibrate-ranks", "");
  add("ranks-ddp", "ddp-25MiB");
  for (const char* strategy : {"fsdp", "ps-sync", "ps-async", "ps-ssp"}) {
    add(fmt::format("ranks-{}", strategy), strategy);
  }
}

void check_words(const char* option, const std::vector<std::string>& words,
                 const std::vector<std::string>& measured) {
  for (const std::string& word : words) {
    if (contains(measured, word)) continue;
    throw file_error("", option, fmt::format("{} is not measured here", in_quotes(word)),
                     allowed_hint(word, measured));
  }
}

using Shape = std::tuple<std::string, Precision, std::int64_t>;  // model, precision, batch

// Modelled seconds of one rank's step, without a profile.
std::map<Shape, double> modelled_steps(const std::vector<Unit>& units, bool on_gpu) {
  std::map<Shape, double> steps;
  std::vector<Shape> shapes;
  std::vector<Point> points;
  for (const Unit& unit : units) {
    for (const std::int64_t batch : unit.batches) {
      const Shape shape{unit.model, unit.precision, batch};
      if (!steps.emplace(shape, 0).second) continue;
      shapes.push_back(shape);
      Training training = training_of(unit, batch);
      training.ranks = 1;
      Scenario scenario = scenario_of(training, chosen_cases(training, {"ddp-25MiB"}), {});
      scenario.platform = on_gpu ? "h100-sxm5-80gb-x1" : "cpu-loopback-x2";
      scenario.simulation.steps = 2;
      points.push_back(expand(scenario).at(0));
    }
  }
  const std::vector<Outcome> outcomes = simulate_each(points);
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (outcomes[i].failure) continue;  // the real training will show its duration
    steps[shapes[i]] = mean(outcomes[i].result.step_seconds);
  }
  return steps;
}

AcceptanceScope gpu_scope(bool quick) {
  AcceptanceScope scope;
  scope.models = {"resnet50", "densenet121",       "vgg16",
                  "gpt2",     "efficientnet_v2_l", "convnext_large"};
  scope.others = {"resnet101", "vit_b_16"};
  scope.calibrated = {8, 32};
  scope.between = 16;
  scope.beyond = 48;
  scope.precisions = {Precision::fp32, Precision::amp_bf16, Precision::tf32, Precision::amp_fp16};
  scope.steps = 30;
  scope.rank_counts = {2, 4};
  scope.rank_models = {"resnet50", "gpt2"};
  scope.rank_batch = 8;
  scope.layers_seconds = 10;
  scope.unit_limit = 300;
  if (quick) {
    scope.models = {"resnet50", "gpt2"};
    scope.others = {};
    scope.precisions.resize(2);
    scope.steps = 15;
    scope.rank_models = {"resnet50"};
  }
  return scope;
}

AcceptanceScope cpu_scope(bool quick) {
  AcceptanceScope scope;
  scope.models = {"resnet50", "densenet121", "vgg16"};
  scope.others = {"resnet18"};
  scope.calibrated = {2, 8};
  scope.between = 4;
  scope.beyond = 12;
  scope.precisions = {Precision::fp32};
  scope.steps = 10;
  scope.rank_counts = {2};
  scope.rank_models = {"resnet50"};
  scope.rank_batch = 4;
  scope.layers_seconds = 60;
  scope.curve_sizes = "4KiB..64MiB";
  scope.curve_seconds = 8;
  scope.unit_limit = 3600;
  if (quick) {
    scope.models = scope.rank_models = {"lenet5"};
    scope.others = {};
    scope.calibrated = {8, 32};
    scope.between = scope.rank_batch = 16;
    scope.beyond = 64;
    scope.steps = 20;
    scope.layers_seconds = 5;
    scope.curve_sizes = "64KiB,1MiB";
    scope.curve_seconds = 1;
  }
  return scope;
}

}  // namespace

AcceptanceScope scope_of(const AcceptanceOptions& options) {
  AcceptanceScope scope = options.on_gpu() ? gpu_scope(options.quick) : cpu_scope(options.quick);
  if (options.unit_limit > 0) scope.unit_limit = options.unit_limit;
  return scope;
}

std::vector<Unit> plan_of(const AcceptanceScope& scope, bool on_gpu) {
  std::vector<Unit> plan(1);
  plan[0].name = on_gpu ? "probes-device" : "probes-collectives";
  for (std::size_t from = 0; from < scope.precisions.size(); from += 2) {
    const auto first = scope.precisions.begin() + static_cast<std::ptrdiff_t>(from);
    const std::vector<Precision> pair(
        first, first + std::min<std::ptrdiff_t>(2, scope.precisions.end() - first));
    for (const std::string& model : scope.models) {
      for (const Precision precision : pair) {
        plan.push_back({Stage::models, fmt::format("calibrate-{}-{}", model, enum_name(precision)),
                        model, precision, scope.calibrated, 1, "", Purpose::calibrated});
      }
      for (const Precision precision : pair) {
        plan.push_back(step_unit(Purpose::between, model, precision, scope.between));
        plan.push_back(step_unit(Purpose::beyond, model, precision, scope.beyond));
        for (const std::int64_t batch : scope.calibrated) {
          plan.push_back(step_unit(Purpose::calibrated, model, precision, batch));
        }
      }
    }
    if (from == 0) {
      add_rank_units(plan, scope, on_gpu, scope.rank_models.front(), scope.rank_counts.front());
    }
    for (const std::string& model : scope.others) {
      for (const Precision precision : pair) {
        plan.push_back(step_unit(Purpose::other, model, precision, scope.between));
      }
    }
  }
  for (const std::string& model : scope.rank_models) {
    for (const int ranks : scope.rank_counts) {
      const bool first = model == scope.rank_models.front() && ranks == scope.rank_counts.front();
      if (!first) add_rank_units(plan, scope, on_gpu, model, ranks);
    }
  }
  return plan;
}

std::vector<Unit> chosen_units(const AcceptanceOptions& options, const AcceptanceScope& scope) {
  std::vector<std::string> models = scope.models;
  models.insert(models.end(), scope.others.begin(), scope.others.end());
  std::vector<std::string> precisions;
  for (const Precision precision : scope.precisions) precisions.push_back(enum_name(precision));
  const auto& stages = EnumNames<Stage>::names;
  check_words("--stages", options.stages, {stages.begin(), stages.end()});
  check_words("--models", options.models, models);
  check_words("--precisions", options.precisions, precisions);
  std::vector<Unit> chosen;
  for (const Unit& unit : plan_of(scope, options.on_gpu())) {
    if (!asked(options.stages, enum_name(unit.stage))) continue;
    if (unit.model.empty() || (asked(options.models, unit.model) &&
                               asked(options.precisions, enum_name(unit.precision)))) {
      chosen.push_back(unit);
    }
  }
  return chosen;
}

Training training_of(const Unit& unit, std::int64_t batch) {
  Training training;
  training.model = unit.model;
  training.batch = batch;
  training.precision = unit.precision;
  training.ranks = unit.ranks;
  training.staleness_bound = 3;
  return training;
}

std::vector<double> estimated_seconds(const std::vector<Unit>& units, const AcceptanceScope& scope,
                                      bool on_gpu) {
  const std::map<Shape, double> steps = modelled_steps(units, on_gpu);
  // Hundreds of values, each measured for a fraction of a second.
  constexpr double device_probes = 120;
  std::vector<double> all;
  for (const Unit& unit : units) {
    double seconds = 0;
    if (unit.stage == Stage::probes) {
      seconds = on_gpu ? device_probes
                       : curves_seconds(measurable_collectives().size(),
                                        parse_sizes(scope.curve_sizes), scope.curve_seconds, 0);
    }
    for (const std::int64_t batch : unit.batches) {
      // Ranks that share a GPU take turns.
      const double step = steps.at({unit.model, unit.precision, batch}) * (on_gpu ? unit.ranks : 1);
      seconds += unit.trains() ? training_seconds(scope.steps, step)
                               : layers_seconds(scope.layers_seconds, step);
    }
    if (!unit.model.empty() && !unit.trains()) seconds += streams_seconds(scope.layers_seconds);
    all.push_back(seconds);
  }
  return all;
}

}  // namespace lockstep
