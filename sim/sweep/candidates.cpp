#include "sweep/candidates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "points/batch.hpp"
#include "points/step.hpp"
#include "sweep/override.hpp"

namespace lockstep {

namespace {

struct Kind {
  const char* name;
  const char* options;  // as an entry of `strategies`
  Family family;
  bool whole_nodes = false;  // is another strategy only on several nodes, all of each
  bool several = false;      // and on several GPUs
};
// What PyTorch users choose from; shards within a node differ from shards over all only where there
// are several nodes, and stages of sharding only where there is something to share.
constexpr Kind kinds[] = {
    {"ddp", "ddp: {}", Family::ddp},
    {"fsdp2", "fsdp: {version: 2}", Family::fsdp, false, true},
    {"fsdp2 shard_grad_op", "fsdp: {version: 2, sharding: shard_grad_op}", Family::fsdp, false,
     true},
    {"fsdp2 hybrid_shard", "fsdp: {version: 2, sharding: hybrid_shard}", Family::fsdp, true, true},
    {"fsdp2 offload", "fsdp: {version: 2, cpu_offload: true}", Family::fsdp},
    {"fsdp1", "fsdp: {version: 1}", Family::fsdp, false, true},
    {"sync server", "parameter_server: {consistency: sync}", Family::sync_server, false, true},
    {"async server", "parameter_server: {consistency: async}", Family::async_server, false, true},
};

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

std::vector<std::string> texts_of(const char* option, const std::string& values) {
  Setting setting = parse_setting(fmt::format("{}={}", option, values));
  return setting.texts;
}

}  // namespace

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

  std::vector<Saver> savers{{"", "activation_checkpointing: false", false},
                            {", checkpointing", "activation_checkpointing: true", true}};
  if (scenario.recompute != Recompute::blocks) {
    savers.push_back(
        {", all recomputed", "activation_checkpointing: true, recompute: blocks", true});
  }
  std::vector<Candidate> list;
  for (const std::string& platform : platforms) {
    std::vector<std::string> first;
    if (!platform.empty()) first.push_back("platform=" + platform);
    const Inputs inputs = files.of(variants.with(first));
    const bool blocks = can_checkpoint(scenario, inputs);
    for (const std::string& count : counts) {
      std::vector<std::string> second = first;
      second.push_back("gpus=" + count);
      const int gpus = variants.with(second).gpus.front();
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
        const int node = inputs.machine->gpus_per_node;
        if (kind.several && gpus == 1) continue;
        if (kind.whole_nodes && (gpus <= node || gpus % node != 0)) continue;
        for (const Saver& saver : savers) {
          if (saver.checkpointing && !blocks) continue;
          for (std::int64_t micro = *samples;; micro /= 2) {
            Candidate c;
            c.platform = inputs.machine->name;
            c.gpus = gpus;
            c.strategy = fmt::format("{}{}", kind.name, saver.name);
            c.family = kind.family;
            c.micro = micro;
            c.accumulation = *samples / micro;
            c.settings = second;
            c.settings.push_back(
                fmt::format("strategies={{{}, {}}}", kind.options, saver.settings));
            c.settings.push_back(
                fmt::format("batch={{micro: {}, accumulation: {}}}", micro, c.accumulation));
            if (c.accumulation <= most_accumulation) list.push_back(std::move(c));
            if (micro % 2 != 0) break;
          }
        }
      }
    }
  }
  return list;
}

}  // namespace lockstep
