// See suggest.hpp. Candidates: smaller micro-batches at the same global batch, activation
// checkpointing, full sharding, and pairs of these.
#include "questions/suggest.hpp"

#include <fmt/format.h>

#include <optional>

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

// What is left to shard; the strategy itself is the suggestion. Nothing when all of it is sharded.
std::optional<Scenario> with_full_shard(Scenario scenario) {
  StrategyOptions& options = scenario.strategies.front().options;
  const auto* given = std::get_if<FsdpOptions>(&options);
  if (given != nullptr && given->sharding == Sharding::full_shard) return std::nullopt;
  FsdpOptions full = given != nullptr ? *given : FsdpOptions{};
  full.sharding = Sharding::full_shard;
  options = full;
  return scenario;
}

bool fits(const Scenario& scenario) {
  if (scenario.batch.accumulation > most_accumulation) return false;
  return fits(memory_of(expand(scenario)).front());
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
  const std::optional<Scenario> sharded = point.job.gpus > 1 ? with_full_shard(base) : std::nullopt;
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
  if (sharded) try_with("fsdp with full_shard", *sharded);
  if (sharded && can_checkpoint) {
    try_with("fsdp with full_shard and activation checkpointing", with_checkpointing(*sharded));
  }
  return suggestions;
}

}  // namespace lockstep
