// Combines platforms, GPU counts, forms of strategies, memory savers and micro-batches.
#include "sweep/candidates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "points/batch.hpp"
#include "points/workloads.hpp"
#include "sweep/override.hpp"

namespace lockstep {

namespace {

// How an entry of `strategies` saves memory of activations.
struct Saver {
  const char* name;
  const char* settings;
  bool checkpointing;
};

// Samples of one optimizer step on one GPU; nothing when the batch does not divide.
std::optional<std::int64_t> samples_per_gpu(BatchSpec batch, int gpus) {
  if (batch.global > 0 || batch.per_gpu > 0) batch.micro = batch.accumulation = 0;
  try {
    const BatchSplit split = split_batch(batch, gpus);
    return split.micro * split.accumulation;
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

bool can_checkpoint(const Scenario& scenario, const Inputs& inputs) {
  StepOptions options = step_options(scenario, scenario.strategies.front(), 1);
  options.activation_checkpointing = true;
  const TrainingStep step = scenario_step(scenario, *inputs.model, options);
  return std::any_of(step.layers.begin(), step.layers.end(),
                     [](const Layer& layer) { return layer.checkpointed; });
}

std::vector<Saver> savers_of(const Scenario& scenario) {
  std::vector<Saver> savers{{"", "activation_checkpointing: false", false},
                            {", checkpointing", "activation_checkpointing: true", true}};
  if (scenario.recompute != Recompute::blocks) {
    savers.push_back(
        {", all recomputed", "activation_checkpointing: true, recompute: blocks", true});
  }
  return savers;
}

// A form of a strategy with a memory saver.
struct Kind {
  StrategyForm form;
  std::string name, setting;
  std::shared_ptr<const Scenario> base;

  bool runs_on(int gpus, int per_node) const {
    if (form.several && gpus == 1) return false;
    return !form.whole_nodes || (gpus > per_node && gpus % per_node == 0);
  }
};

// The candidates of one platform.
struct Search {
  const Variants& variants;
  std::vector<std::string> settings;
  std::string platform;

  std::vector<Kind> kinds(const std::vector<Saver>& savers, bool checkpoints) const {
    std::vector<Kind> list;
    AlternativeNames<StrategyOptions>::each_form(
        [&](const char* strategy, const StrategyForm& form) {
          for (const Saver& saver : savers) {
            if (saver.checkpointing && !checkpoints) continue;
            Kind kind{form, std::string(form.name) + saver.name, {}, {}};
            kind.setting =
                fmt::format("strategies={{{}: {}, {}}}", strategy, form.options, saver.settings);
            std::vector<std::string> all = settings;
            all.push_back(kind.setting);
            kind.base = std::make_shared<const Scenario>(variants.with(all));
            list.push_back(std::move(kind));
          }
        });
    return list;
  }

  // Micro-batches of all samples of a GPU, of half of them, and so on.
  void add(const Kind& kind, int gpus, std::int64_t samples, std::vector<Candidate>& list) const {
    for (std::int64_t micro = samples;; micro /= 2) {
      Candidate c;
      c.platform = platform;
      c.gpus = gpus;
      c.strategy = kind.name;
      c.family = kind.form.family;
      c.complexity = kind.form.complexity;
      c.micro = micro;
      c.accumulation = samples / micro;
      c.base = kind.base;
      c.settings = settings;
      c.settings.push_back(fmt::format("gpus={}", gpus));
      c.settings.push_back(kind.setting);
      c.settings.push_back(
          fmt::format("batch={{micro: {}, accumulation: {}}}", micro, c.accumulation));
      if (c.accumulation <= most_accumulation) list.push_back(std::move(c));
      if (micro % 2 != 0) break;
    }
  }
};

std::vector<std::string> texts_of(const char* option, const std::string& values) {
  Setting setting = parse_setting(fmt::format("{}={}", option, values));
  return setting.texts;
}

}  // namespace

Scenario scenario_of(const Candidate& candidate) {
  Scenario scenario = *candidate.base;
  scenario.gpus = {candidate.gpus};
  scenario.batch = {};
  scenario.batch.micro = candidate.micro;
  scenario.batch.accumulation = candidate.accumulation;
  return scenario;
}

bool same_but_for_micro_batch(const Candidate& a, const Candidate& b) {
  return a.platform == b.platform && a.gpus == b.gpus && a.strategy == b.strategy;
}

Variants::Variants(const std::string& file, const std::vector<std::string>& changes)
    : file_(file), root_(with_settings(Node::parse_file(file), changes)) {
  if (root_.kind() != Node::Kind::map) return;
  root_ = root_.without("measured").without("anchor");
  const auto platform = root_.find("platform");
  if (!platform || platform->elements().empty()) return;
  for (const Node& listed : platform->elements()) platforms_.push_back(listed.scalar());
  root_ = root_.with("platform", platform->elements().front(), root_.key_location("platform"));
}

Scenario Variants::with(const std::vector<std::string>& settings) const {
  Node root = root_;
  for (const std::string& text : settings) {
    const Setting setting = parse_setting(text);
    const Node& value = setting.values.front();
    const bool list = setting.path == "strategies";
    root = put(root, setting, list ? value.with_elements({value}) : value);
  }
  return read_scenario_node(root, file_);
}

std::vector<Candidate> candidates_of(const Scenario& scenario, const RecommendOptions& options,
                                     InputFiles& files,
                                     std::map<std::string, std::size_t>& left_out) {
  const Variants variants(scenario.file, options.settings);
  std::vector<std::string> platforms = variants.platforms(), counts;
  if (platforms.empty()) platforms = {""};
  if (!options.platforms.empty()) platforms = texts_of("platform", options.platforms);
  for (const int gpus : scenario.gpus) counts.push_back(std::to_string(gpus));
  if (!options.gpus.empty()) counts = texts_of("gpus", options.gpus);

  const std::vector<Saver> savers = savers_of(scenario);
  std::vector<Candidate> list;
  for (const std::string& platform : platforms) {
    std::vector<std::string> of_platform;
    if (!platform.empty()) of_platform.push_back("platform=" + platform);
    const Inputs inputs = files.of(variants.with(of_platform));
    const Search search{variants, of_platform, inputs.machine->name};
    const std::vector<Kind> kinds = search.kinds(savers, can_checkpoint(scenario, inputs));
    for (const std::string& count : counts) {
      const int gpus = variants.with({"gpus=" + count}).gpus.front();
      if (gpus > max_gpus(*inputs.machine)) {
        ++left_out["more GPUs than the platform has (per count)"];
        continue;
      }
      const auto samples = samples_per_gpu(scenario.batch, gpus);
      if (!samples) {
        ++left_out["the batch does not divide among the GPUs (per count)"];
        continue;
      }
      for (const Kind& kind : kinds) {
        if (kind.runs_on(gpus, inputs.machine->gpus_per_node)) {
          search.add(kind, gpus, *samples, list);
        }
      }
    }
  }
  return list;
}

}  // namespace lockstep
