// `lockstep missing SCENARIO` answers: which measurements does a profile lack for this scenario,
// and which of them matter most? The answer lists layers without a measured time, the largest share
// of the device's time first. Then it prints the `lockstep calibrate` commands that would measure
// them.
//
//   lockstep missing my.yaml --set profile=my-profile
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/commands.hpp"
#include "cli/config_options.hpp"
#include "cli/verb.hpp"
#include "core/units.hpp"
#include "points/points.hpp"
#include "results/table.hpp"
#include "strategies/table.hpp"

namespace lockstep::missing_verb {
namespace {

constexpr std::size_t most_rows = 20;  // rows of the table for people; --json has all

// Equal layers of one model and batch that have no measurement.
struct Work {
  std::string model, layer, kind;
  std::int64_t samples = 0;  // micro-batch
  std::string precision;
  int layers = 0;  // number of equal layers
  // Device seconds of all equal layers in a micro-batch, forward and backward, and their share of
  // the micro-batch's device time.
  double seconds = 0;
  double share = 0;
};

// Two layers have equal keys if kind, attributes, parameter shapes, output size and the step are
// equal.
std::string key_of(const TrainingStep& step, const Layer& layer) {
  std::string key = layer.kind;
  for (const auto& [name, value] : layer.attributes) key += fmt::format(" {}={}", name, value);
  for (const Parameter& parameter : layer.parameters)
    key += fmt::format(" {}", fmt::join(parameter.shape, "x"));
  return fmt::format("{} {} {} {}", step.model, step.samples, enum_name(step.precision),
                     key + fmt::format(" {}", layer.output_bytes));
}

// The layers whose cost is not measured for both passes, over all points. Each training step is
// examined once, even if several points share it.
std::vector<Work> unmeasured(const std::vector<Point>& points) {
  std::map<std::string, Work> works;
  std::set<const TrainingStep*> seen;
  for (const Point& point : points) {
    const TrainingStep& step = *point.job.step;
    if (!seen.insert(&step).second) continue;
    double all = 0;
    std::map<std::string, Work> here;
    for (std::size_t i = 0; i < step.layers.size(); ++i) {
      const LayerCost cost = point.job.costs->layer(step, i);
      const double seconds = cost.forward.busy + cost.backward.busy;
      all += seconds;
      const bool known = cost.forward.provenance == Provenance::measured &&
                         cost.backward.provenance == Provenance::measured;
      if (known || seconds <= 0) continue;
      const Layer& layer = step.layers[i];
      Work& work = here[key_of(step, layer)];
      if (work.layers == 0)
        work = {step.model,
                layer.name,
                layer.kind,
                step.samples,
                std::string(enum_name(step.precision)),
                0,
                0,
                0};
      ++work.layers;
      work.seconds += seconds;
    }
    for (auto& [key, work] : here) {
      work.share = work.seconds / all;
      works.emplace(key, work);
    }
  }
  std::vector<Work> list;
  for (const auto& [key, work] : works) list.push_back(work);
  std::stable_sort(list.begin(), list.end(),
                   [](const Work& a, const Work& b) { return a.share > b.share; });
  return list;
}

// The command lines that measure these layers: one for each model and precision.
std::vector<std::string> commands(const std::vector<Work>& works) {
  std::map<std::pair<std::string, std::string>, std::set<std::int64_t>> batches;
  for (const Work& work : works) batches[{work.model, work.precision}].insert(work.samples);
  std::vector<std::string> lines;
  for (const auto& [key, samples] : batches)
    lines.push_back(
        fmt::format("lockstep calibrate --models {} --batches {} --precisions {} -o FOLDER",
                    key.first, fmt::join(samples, ","), key.second));
  return lines;
}

// Prints the layers and the commands. For several GPUs, always suggests measuring collectives.
int missing(const std::string& file, const CommonOptions& options) {
  const Scenario scenario = scenario_of(file, options);
  const std::vector<Work> works = unmeasured(expand(scenario));
  std::vector<std::string> lines = commands(works);
  if (std::any_of(scenario.gpus.begin(), scenario.gpus.end(), [](int gpus) { return gpus > 1; }))
    lines.emplace_back("lockstep calibrate collectives -o FOLDER");
  if (options.format == Format::json) {
    nlohmann::ordered_json document{{"layers", nlohmann::ordered_json::array()},
                                    {"commands", lines}};
    for (const Work& work : works) {
      document["layers"].push_back({{"model", work.model},
                                    {"layer", work.layer},
                                    {"kind", work.kind},
                                    {"layers", work.layers},
                                    {"micro_batch", work.samples},
                                    {"precision", work.precision},
                                    {"seconds", work.seconds},
                                    {"share", work.share}});
    }
    print(document.dump(2) + "\n");
    return 0;
  }
  if (works.empty()) {
    print_text(file + ": the profile has a measurement of every layer\n");
    return 0;
  }
  using Align = Table::Align;
  Table table({{"layer", Align::left},
               {"kind", Align::left},
               {"layers"},
               {"micro-batch"},
               {"precision", Align::left},
               {"device time"},
               {"share"}});
  for (std::size_t i = 0; i < std::min(works.size(), most_rows); ++i) {
    const Work& work = works[i];
    table.add_row({work.layer, work.kind, std::to_string(work.layers), std::to_string(work.samples),
                   work.precision, human(work.seconds, Dimension::seconds),
                   fmt::format("{:.1f} %", 100 * work.share)});
  }
  std::string text = "Not measured, the largest share of the device's time first\n" +
                     rendered(table, Format::text, 1);
  if (works.size() > most_rows)
    text += fmt::format("... and {} more (--json has all)\n", works.size() - most_rows);
  print_text(text + fmt::format("\n{}\n", fmt::join(lines, "\n")));
  return 0;
}

Choice declare(CLI::App& app) {
  struct Arguments {
    std::vector<std::string> files;
    ConfigSource from;
    CommonOptions common;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& verb = *app.add_subcommand(
      "missing", "Measurements that a profile lacks for a scenario, the most important first");
  add_from(verb, verb.add_option("scenario", arguments->files, "Scenario file")->expected(1),
           arguments->from);
  add_settings(verb, arguments->common);
  add_formats(verb, arguments->common, Formats::json);
  add_examples(verb, {"my.yaml", "my.yaml --set profile=my-profile --json"});
  return {&verb, [arguments] {
            const std::string name = scenario_from(arguments->from, !arguments->files.empty());
            return missing(name.empty() ? arguments->files.front() : name, arguments->common);
          }};
}
const Verb verb{VerbGroup::questions, declare};

}  // namespace
}  // namespace lockstep::missing_verb
