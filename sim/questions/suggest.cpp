// See suggest.hpp. Candidates: smaller micro-batches at the same global batch, activation
// checkpointing, full sharding, and pairs of these;
// where none fits, more GPUs.
#include "questions/suggest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "points/measured.hpp"
#include "points/predict.hpp"
#include "points/simulate.hpp"
#include "results/cells.hpp"

namespace lockstep {

namespace {

Scenario with_micro(Scenario scenario, const Point& point, std::int64_t micro) {
  scenario.batch = {};
  scenario.batch.micro = micro;
  scenario.batch.accumulation = point.micro_batch * point.job.accumulation / micro;
  return scenario;
}

Scenario with_checkpointing(Scenario scenario) {
  scenario.strategies.front().activation_checkpointing = true;
  return scenario;
}

// What is left to shard; the strategy itself is the suggestion. Nothing when all of it is sharded, or
// the scenario asks for what shards do not go with.
std::optional<Scenario> with_full_shard(Scenario scenario, const Point& point) {
  StrategyOptions& options = scenario.strategies.front().options;
  const auto* given = std::get_if<FsdpOptions>(&options);
  if (given != nullptr && given->sharding == Sharding::full_shard) return std::nullopt;
  FsdpOptions full = given != nullptr ? *given : FsdpOptions{};
  full.sharding = Sharding::full_shard;
  const auto strategy = make_strategy(full);
  if (strategy->misfit(point.precision) ||
      strategy->optimizer_misfit(scenario.optimizer, point.job.machine.device)) {
    return std::nullopt;
  }
  options = full;
  return scenario;
}

bool fits(const Scenario& scenario) {
  if (scenario.batch.accumulation > most_accumulation) return false;
  return fits(memory_of(expand(scenario)).front());
}

constexpr int most_suggested_gpus = 4096;
// Few steps: the others hardly change a mean that decides nothing.
constexpr std::int64_t most_steps = 10;

// " (312 ms a step, 2.1 GiB free, $12.30)".
std::string figures_of(Scenario scenario) {
  scenario.simulation.steps = std::min(scenario.simulation.steps, most_steps);
  const Predicted predicted = predict_each(scenario, expand(scenario));
  if (predicted.predictions.empty()) return "";
  const Prediction& p = predicted.predictions.front();
  std::string text = fmt::format(" ({} a step, {} free", seconds_text(p.step_seconds),
                                 bytes_text(p.memory.capacity - p.memory.device));
  if (p.dollars > 0) text += ", " + dollars_text(p.dollars);
  return text + ")";
}

// 0 when not even one sample fits.
std::int64_t largest_fitting_micro(const Scenario& scenario, const Point& point) {
  for (std::int64_t micro = point.micro_batch / 2; micro >= 1; micro /= 2) {
    if (point.micro_batch % micro == 0 && fits(with_micro(scenario, point, micro))) return micro;
  }
  return 0;
}

// The least power-of-two multiple of the GPUs on which one sample a GPU fits when everything is
// sharded; "" when there is none on this platform.
std::string more_gpus(const Scenario& base, const Point& point, bool can_checkpoint) {
  const std::optional<Scenario> sharded = with_full_shard(base, point);
  Scenario changed = sharded ? *sharded : base;
  if (!std::holds_alternative<FsdpOptions>(changed.strategies.front().options)) return "";
  if (can_checkpoint) changed = with_checkpointing(changed);
  changed.batch = {};
  changed.batch.micro = 1;
  for (int gpus = 2 * point.job.gpus; gpus <= most_suggested_gpus; gpus *= 2) {
    changed.gpus = {gpus};
    try {
      if (!fits(changed)) continue;
    } catch (const ConfigError&) {  // the platform has no more
      return "";
    }
    return fmt::format("about {} GPUs: fsdp with full_shard{}, micro-batch 1{}", gpus,
                       can_checkpoint ? " and activation checkpointing" : "", figures_of(changed));
  }
  return "";
}

}  // namespace

std::vector<std::string> suggest_what_fits(const Scenario& scenario, const Point& point) {
  const Scenario base = only(scenario, point.entry, point.job.gpus);
  const std::optional<Scenario> sharded =
      point.job.gpus > 1 ? with_full_shard(base, point) : std::nullopt;
  const bool can_checkpoint = [&] {
    for (const auto& layer : point.step->layers) {
      if (layer.checkpointed) return false;
    }
    for (const auto& layer : point.step->layers) {
      if (!layer.block.empty()) return true;
    }
    return false;
  }();

  std::vector<std::string> suggestions;
  auto try_with = [&](const std::string& what, const Scenario& changed) {
    if (suggestions.size() >= 3) return;
    if (!what.empty() && fits(changed)) {
      suggestions.push_back(what + figures_of(changed));
      return;
    }
    if (const std::int64_t micro = largest_fitting_micro(changed, point); micro > 0) {
      suggestions.push_back(fmt::format("{}{}micro-batch {} with {} accumulation steps{}", what,
                                        what.empty() ? "" : " and ", micro,
                                        point.micro_batch * point.job.accumulation / micro,
                                        figures_of(with_micro(changed, point, micro))));
    }
  };
  try_with("", base);
  if (can_checkpoint) try_with("activation checkpointing", with_checkpointing(base));
  if (sharded) try_with("fsdp with full_shard", *sharded);
  if (sharded && can_checkpoint) {
    try_with("fsdp with full_shard and activation checkpointing", with_checkpointing(*sharded));
  }
  if (suggestions.empty()) {
    if (const std::string more = more_gpus(base, point, can_checkpoint); !more.empty()) {
      suggestions.push_back(more);
    }
  }
  return suggestions;
}

}  // namespace lockstep
