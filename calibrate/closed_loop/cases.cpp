// Builds the compared cases: for each strategy, the options of a scenario and the words of a
// `train` call with the same meaning. Both stand next to each other here, so that a difference is
// easy to see.
#include "closed_loop/cases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "core/errors.hpp"
#include "core/statistics.hpp"
#include "workload/model.hpp"

namespace lockstep {

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

Case diloco(const Training& training) {
  LocalSgdOptions o;
  o.every = training.every;
  o.outer = NesterovOuter{};
  return {"diloco", o, {"--strategy", "diloco", "--every", std::to_string(training.every)}};
}

Case fedavg(const Training& training) {
  ParameterServerOptions o;
  o.push = PushedValues::parameters;
  o.exchange_every = training.every;
  o.serial = true;
  Case result{"fedavg", o, {"--strategy", "fedavg", "--every", std::to_string(training.every)}};
  if (training.participants == 1) return result;
  std::get<ParameterServerOptions>(result.options).participants = training.participants;
  result.real.insert(result.real.end(),
                     {"--participants", fmt::format("{:g}", training.participants)});
  return result;
}

std::vector<Case> all_cases(const Training& training) {
  const TrainingStep step = step_of(training, AttentionKind::plain);
  const bool has_blocks = std::any_of(step.layers.begin(), step.layers.end(),
                                      [](const Layer& layer) { return !layer.block.empty(); });
  const auto ddp = [](double mib) {
    DdpOptions o;
    o.bucket_bytes = mib * 1024 * 1024;
    return Case{fmt::format("ddp-{:g}MiB", mib),
                o,
                {"--strategy", "ddp", "--bucket", fmt::format("{:g} MiB", mib)}};
  };
  const auto compressed = [&](const CommHook& hook, const Words& settings) {
    const std::string name = AlternativeNames<CommHook>::names[hook.index()];
    Case result = ddp(25);
    result.label = "ddp-" + name;
    std::get<DdpOptions>(result.options).comm_hook = hook;
    result.real.insert(result.real.end(), {"--comm-hook", name});
    result.real.insert(result.real.end(), settings.begin(), settings.end());
    result.work = {"--comm-hooks", name};
    result.work.insert(result.work.end(), settings.begin(), settings.end());
    return result;
  };
  FsdpOptions fsdp;
  fsdp.wrap.policy = has_blocks ? WrapPolicy::block : WrapPolicy::none;
  const auto server = [&](Consistency consistency, const std::string& name) {
    ParameterServerOptions o;
    o.consistency = consistency;
    o.staleness_bound = training.staleness_bound;
    o.serial = true;  // one thread receives, updates and sends
    Case result{name, o, {"--strategy", name}};
    if (consistency == Consistency::ssp) {
      result.real.insert(result.real.end(),
                         {"--staleness-bound", std::to_string(training.staleness_bound)});
    }
    return result;
  };
  return {ddp(25),
          ddp(4),
          compressed(TopKHook{.fraction = 0.01}, {"--hook-fraction", "1%"}),
          compressed(PowerSgdHook{1, Orthogonalization::gram_schmidt}, {"--hook-rank", "1"}),
          {"fsdp", fsdp, {"--strategy", "fsdp"}},
          server(Consistency::sync, "ps-sync"),
          server(Consistency::async, "ps-async"),
          server(Consistency::ssp, "ps-ssp"),
          diloco(training),
          fedavg(training)};
}

// Whether the profile was measured with fused attention, which LibTorch has since version 2
// (scaled_dot_product_attention).
bool has_fused_attention(const Profile& profile) {
  return std::any_of(profile.versions.begin(), profile.versions.end(), [](const auto& one) {
    return one.name == "libtorch" && std::atoi(one.version.c_str()) >= 2;
  });
}

}  // namespace

std::vector<Case> chosen_cases(const Training& training, const std::vector<std::string>& labels) {
  std::vector<Case> all = all_cases(training);
  if (labels.empty()) return all;
  std::vector<Case> chosen;
  std::vector<std::string> names;
  for (const Case& candidate : all) names.push_back(candidate.label);
  for (const std::string& wanted : labels) {
    const auto found = std::find(names.begin(), names.end(), wanted);
    if (found == names.end()) {
      throw file_error("", "--strategies", fmt::format("{} is not known", in_quotes(wanted)),
                       allowed_hint(wanted, names));
    }
    chosen.push_back(all[static_cast<std::size_t>(found - names.begin())]);
    if (std::count(labels.begin(), labels.end(), wanted) > 1) {
      throw file_error("", "--strategies", fmt::format("{} stands there twice", in_quotes(wanted)));
    }
  }
  return chosen;
}

std::vector<std::string> input_words(const Training& training) {
  Words words;
  if (!training.image.empty()) {
    words = {"--image", fmt::format("{}", fmt::join(training.image, "x"))};
  }
  if (training.classes > 0) {
    words.insert(words.end(), {"--classes", std::to_string(training.classes)});
  }
  if (training.sequence > 0) {
    words.insert(words.end(), {"--sequence", std::to_string(training.sequence)});
  }
  return words;
}

std::vector<std::string> train_words(const Training& training, int steps) {
  Words words{"train",       "--json",
              "--model",     training.model,
              "--batch",     std::to_string(training.batch),
              "--precision", enum_name(training.precision),
              "--ranks",     std::to_string(training.ranks),
              "--steps",     std::to_string(steps)};
  const Words input = input_words(training);
  words.insert(words.end(), input.begin(), input.end());
  for (const SlowRank& slow : training.slow_ranks) {
    words.insert(words.end(), {"--slow-rank", fmt::format("{}:{:g}", slow.rank, slow.factor)});
  }
  return words;
}

TrainingStep step_of(const Training& training, AttentionKind attention) {
  StepOptions one;
  one.samples = training.batch;
  one.image = training.image;
  one.classes = training.classes;
  one.sequence = training.sequence;
  one.precision = training.precision;
  one.fused_attention = attention == AttentionKind::fused;
  return build_step(*load_model(training.model), one);
}

// The jitter of compute is the profile's variation of a step, unless the profile has single steps
// (use_measured_jitter() in closed_loop.cpp). It determines the order in which nearly equal ranks
// arrive, and their waits for each other.
Scenario scenario_of(const Training& training, const std::vector<Case>& cases,
                     const Profile& profile) {
  const AttentionKind attention =
      has_fused_attention(profile) ? AttentionKind::fused : AttentionKind::plain;
  const TrainingStep step = step_of(training, attention);
  Scenario scenario;
  scenario.name = "closed loop";
  const bool file =
      training.model.ends_with(".yaml") || training.model.find('/') != std::string::npos;
  scenario.model = file ? fs::absolute(training.model).string() : training.model;
  scenario.input = {training.image, training.sequence, training.classes};
  scenario.batch.per_gpu = training.batch;
  scenario.precision = training.precision;
  scenario.attention = attention;
  scenario.optimizer.momentum = 0.9;
  scenario.optimizer.implementation = OptimizerImplementation::for_loop;
  scenario.data_loading.on_device = true;
  scenario.platform = "platform.yaml";
  if (!profile.device.empty()) scenario.profile = "profile.yaml";
  scenario.gpus = {training.ranks};
  scenario.stragglers.slow_ranks = training.slow_ranks;
  if (const double sigma = measured_step_sigma(profile, step); sigma > 0) {
    scenario.stragglers.per_step = Lognormal{sigma};
  }
  for (const Case& one : cases) {
    StrategyEntry entry;
    entry.options = one.options;
    entry.label = one.label;
    scenario.strategies.push_back(entry);
  }
  return scenario;
}

bool has_server(const Case& one) {
  return std::holds_alternative<ParameterServerOptions>(one.options);
}

bool waits_before_step(const Case& one) {
  const auto* server = std::get_if<ParameterServerOptions>(&one.options);
  return server != nullptr && server->exchange_every == 1;
}

bool compresses(const Case& one) {
  return !one.work.empty();
}

const ProfileBatch* measured_batch(const Training& training, const Profile& profile) {
  const TrainingStep step = step_of(training, AttentionKind::plain);
  const ProfileModel* model = measured_model(profile, step);
  if (model == nullptr) return nullptr;
  const auto found =
      std::find_if(model->batches.begin(), model->batches.end(),
                   [&](const ProfileBatch& batch) { return batch.samples == step.samples; });
  return found == model->batches.end() ? nullptr : &*found;
}

double measured_compute(const Training& training, const Profile& profile) {
  const ProfileBatch* batch = measured_batch(training, profile);
  if (batch == nullptr) return 0;
  double seconds = 0;
  for (const ProfileLayer& layer : batch->layers) {
    seconds += layer.forward_seconds + layer.backward_seconds.value_or(0);
  }
  const std::vector<double>& factors = batch->step_factors;
  return factors.empty() ? seconds : seconds * mean(factors) / median(factors);
}

Scenario with_own_compute(Scenario scenario, const std::vector<double>& of_ranks) {
  std::vector<SlowRank>& slow = scenario.stragglers.slow_ranks;
  for (std::size_t i = 0; i < of_ranks.size(); ++i) {
    const int rank = static_cast<int>(i);
    const auto known = std::find_if(slow.begin(), slow.end(),
                                    [&](const SlowRank& one) { return one.rank == rank; });
    if (known != slow.end()) {
      known->factor *= of_ranks[i];
    } else {
      slow.push_back({rank, of_ranks[i]});
    }
  }
  return scenario;
}

}  // namespace lockstep
