// See suggest.hpp. Candidates: smaller micro-batches at the same global batch, activation
// checkpointing, full sharding, and pairs of these.
#include "questions/suggest.hpp"

#include <fmt/format.h>

#include "points/measured.hpp"
#include "points/simulate.hpp"

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

Scenario with_full_shard(Scenario scenario) {
  FsdpOptions options;
  if (const auto* given = std::get_if<FsdpOptions>(&scenario.strategies.front().options)) {
    options = *given;
  }
  options.sharding = Sharding::full_shard;
  scenario.strategies.front().options = options;
  return scenario;
}

bool shards_fully(const StrategyOptions& options) {
  const auto* fsdp = std::get_if<FsdpOptions>(&options);
  return fsdp != nullptr && fsdp->sharding == Sharding::full_shard;
}

bool fits(const Scenario& scenario) {
  if (scenario.batch.accumulation > most_accumulation) return false;
  auto points = expand(scenario);
  for (auto& point : points) point.job.steps = 2;
  const Outcome outcome = simulate_each(points).front();
  return !outcome.failure && outcome.result.memory.device <= outcome.result.memory_capacity;
}

// 0 when not even one sample fits.
std::int64_t largest_fitting_micro(const Scenario& scenario, const Point& point) {
  for (std::int64_t micro = point.micro_batch / 2; micro >= 1; micro /= 2) {
    if (point.micro_batch % micro == 0 && fits(with_micro(scenario, point, micro))) return micro;
  }
  return 0;
}

}  // namespace

std::vector<std::string> suggest_what_fits(const Scenario& scenario, const Point& point) {
  const Scenario base = only(scenario, point.entry, point.job.gpus);
  const bool can_shard = point.job.gpus > 1 && !shards_fully(point.options);
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
      suggestions.push_back(what);
      return;
    }
    if (const std::int64_t micro = largest_fitting_micro(changed, point); micro > 0) {
      suggestions.push_back(fmt::format("{}{}micro-batch {} with {} accumulation steps", what,
                                        what.empty() ? "" : " and ", micro,
                                        point.micro_batch * point.job.accumulation / micro));
    }
  };
  try_with("", base);
  if (can_checkpoint) try_with("activation checkpointing", with_checkpointing(base));
  if (can_shard) try_with("fsdp with full_shard", with_full_shard(base));
  if (can_shard && can_checkpoint) {
    try_with("fsdp with full_shard and activation checkpointing",
             with_checkpointing(with_full_shard(base)));
  }
  return suggestions;
}

}  // namespace lockstep
