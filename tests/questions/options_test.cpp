// Is any option of a scenario silently without effect? Each option is tried in many surroundings.
// Either a figure changes, or the record says that the option has no effect and no figure changes.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "questions/advice.hpp"
#include "questions/run.hpp"
#include "questions/strategy_options.hpp"
#include "results/render.hpp"
#include "scenario/helpers.hpp"

namespace lockstep::options_test {
namespace {

// Settings of the scenario itself, as `field: value` or `block: {field: value}`.
const std::string free_host = "a step that the device bounds leaves the host free";
const std::string idle_link = "other links set the pace";
const std::vector<Option> scenario_options{
    {"model", "resnet34"},
    {"model_parameters", "{heads: 6}"},
    {"input.image", "{image: [3, 96, 96]}"},
    {"input.sequence", "{sequence: 96}"},
    {"input.classes", "{classes: 20}"},
    {"dataset.samples", "{samples: 123}"},
    {"dataset.epochs", "{samples: 10000, epochs: 2}"},
    {"dataset.tokens", "{tokens: 1M}"},
    {"batch.global", "{global: 48}"},
    {"batch.per_gpu", "{per_gpu: 4}"},
    {"batch.micro", "{micro: 4}"},
    {"batch.accumulation", "{per_gpu: 4, accumulation: 2}"},
    {"precision", "pure-bf16"},
    {"optimizer.name", "{name: adam}"},
    {"optimizer.momentum", "{momentum: 0.9}"},
    {"optimizer.momentum", "{name: adamw, momentum: 0.9}", "", "{name: adamw}", true},
    {"optimizer.weight_decay", "{weight_decay: 0.1}"},
    {"optimizer.weight_decay", "{implementation: fused, weight_decay: 0.1}", "",
     "{implementation: fused}", true},
    {"optimizer.implementation", "{implementation: fused}", "", "", true},
    {"optimizer.implementation", "{momentum: 0.9, implementation: fused}", "", "{momentum: 0.9}"},
    {"optimizer.implementation", "{implementation: for-loop}"},
    {"gradient_clipping", "1"},
    {"activation_checkpointing", "true"},
    {"recipe", "deepspeed"},
    {"precision", "master-bf16"},
    {"precision", "master-bf16-fp32-gradients"},
    {"recompute", "attention"},
    {"recompute", "operators"},
    {"attention", "plain"},
    {"memory_format", "channels_last"},
    {"framework.name", "{name: megatron}", free_host},
    {"framework.operator_seconds", "{operator_seconds: 300 us}"},
    {"framework.backward_share", "{backward_share: 300%}", free_host},
    {"framework.update_share", "{update_share: 300%}", "", "", true},  // for a for-loop optimizer
    {"framework.flash_attention", "{flash_attention: 1}"},
    {"framework.controller.dispatch", "{controller: in-turn}"},
    {"framework.controller.dispatch", "{controller: {dispatch: ahead, fixed: 10 s}}"},
    {"framework.controller.fixed", "{controller: {dispatch: in-turn, fixed: 50 ms}}", "",
     "{controller: in-turn}"},
    {"framework.controller.per_host", "{controller: {dispatch: in-turn, per_host: 50 ms}}", "",
     "{controller: in-turn}"},
    {"data_loading.on_device", "{on_device: true}"},
    {"data_loading.samples_per_second", "{samples_per_second: 1}"},
    {"platform", "dgx-h100"},
    {"fabric.nic_rate", "{nic_rate: 1 Gbit/s}"},
    {"fabric.nics_per_node", "{nics_per_node: 1}", idle_link},
    {"fabric.latency", "{latency: 1 ms}", idle_link},
    {"fabric.in_network_sums", "{in_network_sums: true}", idle_link},
    {"fabric.oversubscription", "{nodes_per_leaf: 1, oversubscription: 30}", idle_link,
     "{nodes_per_leaf: 1}"},
    {"fabric.nodes_per_leaf", "{nodes_per_leaf: 1, oversubscription: 30}", idle_link,
     "{nodes_per_leaf: 2, oversubscription: 30}"},
    {"fabric.trunks", "{trunks: [{between: [0], and: [1], rate: 1 Gbit/s}]}", idle_link},
    {"fabric.trunks[].between", "{trunks: [{between: [0], and: [1], rate: 1 Gbit/s}]}", idle_link,
     "{trunks: [{between: [2], and: [1], rate: 1 Gbit/s}]}"},
    {"fabric.trunks[].and", "{trunks: [{between: [0], and: [1], rate: 1 Gbit/s}]}", idle_link,
     "{trunks: [{between: [0], and: [2], rate: 1 Gbit/s}]}"},
    {"fabric.trunks[].rate", "{trunks: [{between: [0], and: [1], rate: 1 Gbit/s}]}", idle_link,
     "{trunks: [{between: [0], and: [1], rate: 2 Gbit/s}]}"},
    {"price_per_gpu_hour", "3 USD/h"},
    {"gpus", "[2]"},
    {"stragglers.per_step", "{per_step: {lognormal: {sigma: 5%}}}"},
    {"stragglers.per_step", "{per_step: {exponential: {mean: 5%}}}"},
    {"stragglers.per_step", "{per_step: {pareto: {alpha: 2}}}"},
    {"stragglers.per_step.lognormal.sigma", "{per_step: {lognormal: {sigma: 5%}}}", "",
     "{per_step: {lognormal: {}}}"},
    {"stragglers.per_step.exponential.mean", "{per_step: {exponential: {mean: 5%}}}", "",
     "{per_step: {exponential: {}}}"},
    {"stragglers.per_step.pareto.alpha", "{per_step: {pareto: {alpha: 2}}}", "",
     "{per_step: {pareto: {}}}"},
    {"stragglers.per_step.pareto.scale", "{per_step: {pareto: {scale: 9%}}}", "",
     "{per_step: {pareto: {}}}"},
    {"stragglers.slow_periods.every", "{slow_periods: {every: 5, lasts: 2}}", "",
     "{slow_periods: {every: 3, lasts: 2}}"},
    {"stragglers.slow_periods.lasts", "{slow_periods: {every: 3, lasts: 1}}", "",
     "{slow_periods: {every: 3, lasts: 2}}"},
    {"stragglers.slow_periods.factor", "{slow_periods: {every: 3, lasts: 2, factor: 3}}", "",
     "{slow_periods: {every: 3, lasts: 2}}"},
    {"stragglers.loader_hiccups.every", "{loader_hiccups: {every: 3}}", "more are behind the first",
     "{loader_hiccups: {every: 5}}"},
    {"stragglers.loader_hiccups.lasts", "{loader_hiccups: {every: 1, lasts: 3 s}}", "",
     "{loader_hiccups: {every: 1}}"},
    {"stragglers.slow_links[].link", "{slow_links: [{link: NVLink, speed: 1%}]}", idle_link,
     "{slow_links: [{speed: 1%}]}"},
    {"stragglers.slow_links[].node", "{slow_links: [{speed: 1%, node: 1}]}",
     "all wait for the slowest", "{slow_links: [{speed: 1%}]}"},
    {"stragglers.slow_links[].speed", "{slow_links: [{speed: 1%}]}", idle_link,
     "{slow_links: [{speed: 100%}]}"},
    {"stragglers.slow_links[].from", "{slow_links: [{speed: 1%, from: 100 ms}]}", idle_link,
     "{slow_links: [{speed: 1%}]}"},
    {"stragglers.neighbours[].link", "{neighbours: [{link: NVLink, share: 99%}]}", idle_link,
     "{neighbours: [{share: 99%}]}"},
    {"stragglers.neighbours[].nodes", "{neighbours: [{share: 99%, nodes: 1}]}",
     "all wait for the slowest", "{neighbours: [{share: 99%}]}"},
    {"stragglers.neighbours[].share", "{neighbours: [{share: 99%}]}", idle_link,
     "{neighbours: [{share: 50%}]}"},
    {"stragglers.neighbours[].lasts", "{neighbours: [{share: 99%, lasts: 9 ms, every: 10 ms}]}",
     idle_link, "{neighbours: [{share: 99%, lasts: 1 ms, every: 10 ms}]}"},
    {"stragglers.neighbours[].every", "{neighbours: [{share: 99%, lasts: 1 ms, every: 90 ms}]}",
     idle_link, "{neighbours: [{share: 99%, lasts: 1 ms, every: 2 ms}]}"},
    {"stragglers.other_devices[].device", "{other_devices: [{device: v100-sxm2-16gb, nodes: 0}]}",
     "where the host sets the pace"},
    {"stragglers.other_devices[].nodes",
     "{other_devices: [{device: v100-sxm2-16gb, nodes: [0, 1]}]}", "where the host sets the pace",
     "{other_devices: [{device: v100-sxm2-16gb, nodes: 0}]}"},
    {"stragglers.other_devices[].ranks",
     "{other_devices: [{device: v100-sxm2-16gb, ranks: [0, 1]}]}", "where the host sets the pace",
     "{other_devices: [{device: v100-sxm2-16gb, ranks: 0}]}"},
    {"stragglers.per_rank", "{per_rank: 9%}", "where the network sets the pace, ranks wait for it"},
    {"stragglers.slow_ranks", "{slow_ranks: [{rank: 0, factor: 2}]}"},
    {"stragglers.slow_ranks[].rank", "{slow_ranks: [{rank: 1, factor: 2}]}",
     "ranks of one node are alike", "{slow_ranks: [{rank: 0, factor: 2}]}"},
    {"stragglers.slow_ranks[].factor", "{slow_ranks: [{rank: 0, factor: 3}]}", "",
     "{slow_ranks: [{rank: 0, factor: 2}]}"},
    {"dataset.steps", "{steps: 1000}"},
    {"dataset.time", "{time: 1 d}"},
    {"simulation.seed", "{steps: 8, seed: 7}", "nothing is drawn"},
    {"simulation.seeds", "{steps: 8, seeds: 2}", "nothing is drawn"},
    {"simulation.steps", "{steps: 4}", "steps repeat"},
    {"simulation.interference", "{steps: 8, interference: false}", "nothing overlaps"},
    {"simulation.network", "{steps: 8, network: analytic}", "nothing is shared"},
    {"simulation.engine", "{steps: 8, engine: simgrid}", "times are the same"},
    {"anchor", "[{gpus: 2, step_time: 3 s}]"},
};
const std::vector<Option> entry_options{
    {"precision", "pure-bf16"}, {"activation_checkpointing", "true"}, {"recompute", "operators"},
    {"compile", "whole"},       {"cuda_graphs", "true", free_host},   {"label", "other"},
};
const std::vector<Surroundings> scenario_surroundings{
    {"gpus: 2\nstrategies: [ddp]\n"},
    {"gpus: 1\nstrategies: [ddp]\n"},
    {"gpus: [1, 2]\nstrategies: [ddp, fsdp]\n"},
    {"gpus: 2\nmodel: vgg11\nprecision: amp-fp16\nstrategies: [fsdp: {cpu_offload: true}]\n"},
    {"gpus: 2\nmodel: lenet5\nstrategies: [parameter_server]\n"},
    {"gpus: 2\nmodel: lenet5\nstrategies: [parameter_server: {consistency: async}]\n"},
    {"gpus: 2\nbatch: {per_gpu: 2}\nstrategies: [ddp, fsdp: {version: 2}]\n" + gpt},
    {"gpus: 2\nbatch: {per_gpu: 2}\nattention: plain\nstrategies: [ddp]\n" + gpt},
    {"gpus: 2\nbatch: {per_gpu: 2}\nactivation_checkpointing: true\n" + gpt +
     "strategies: [ddp]\n"},
    {"gpus: 2\nmodel: gpt\nbatch: {per_gpu: 1}\nstrategies: [ddp]\n"},
    {"dataset: {samples: 10000}\nstrategies: [ddp]\n"},
    {cpu + "strategies: [ddp]\n"},
    {cpu + "strategies: [parameter_server]\n"},
    {"gpus: 16\nmodel: vgg11\nbatch: {per_gpu: 2}\nstrategies: [ddp, parameter_server: {placement: "
     "worker-host, servers: 2}]\n"},
    {"gpus: 16\nmodel: vgg11\nbatch: {per_gpu: 2}\nstrategies: [ddp]\n"},
};

struct Told {
  std::string figures;
  std::set<std::string> remarks;
};

const Told& told(const std::string& fields) {
  static std::map<std::string, Told> known;  // many options share their surroundings
  if (const auto entry = known.find(fields); entry != known.end()) return entry->second;
  ResultRecord record = run_scenario(scenario_of(fields));
  Told& result = known[fields];
  const auto take = [&](std::vector<std::string>& remarks) {
    result.remarks.insert(remarks.begin(), remarks.end());
    remarks.clear();
  };
  take(record.warnings);
  for (Prediction& prediction : record.predictions) {
    take(prediction.notes);
    prediction.bottleneck.clear();  // advice depends on other settings as well
  }
  result.figures = render_json(record);
  EXPECT_THAT(result.figures, testing::Not(testing::HasSubstr("ended by signal"))) << fields;
  return result;
}

// `with` returns the scenario's text with the option at a value, or without the option ("").
// `tried` becomes true if the option changes a figure in any surroundings.
template <class With>
void try_option(const Option& option, With with, std::set<std::string>& tried) {
  Told usual, changed;
  try {
    usual = told(with(option.instead));
    changed = told(with(option.value));
  } catch (const ConfigError&) {
    return;  // refused with an error, so not silent
  }
  const bool differs = usual.figures != changed.figures;
  if (differs) tried.insert(option.path + ": " + option.value);
  const bool said = usual.remarks != changed.remarks;
  EXPECT_TRUE(differs || said || !option.finding.empty()) << "silently without effect:\n"
                                                          << with(option.value);
  for (const std::string& remark : changed.remarks) {
    const bool idle = remark.find(option.path + " has no effect") != std::string::npos;
    EXPECT_FALSE(idle && differs) << remark << "; but it has:\n" << with(option.value);
  }
}

// `at` returns the text of a scenario with `field: value` (or nothing) in surroundings; "" if that
// is impossible.
template <class At>
void try_all(const std::vector<Option>& options, const std::vector<Surroundings>& places, At at) {
  std::set<std::string> tried;
  for (const Option& option : options) {
    const std::string key = option.path.substr(0, option.path.find('.'));
    const auto line = [&](const std::string& value) {
      return value.empty() ? "" : key + ": " + value;
    };
    for (const Surroundings& place : places) {
      if (at(place, key, "").empty()) continue;
      try_option(
          option, [&](const std::string& value) { return at(place, key, line(value)); }, tried);
    }
    EXPECT_EQ(tried.count(option.path + ": " + option.value), option.never ? 0U : 1U)
        << option.path << ": " << option.value;
  }
}

void try_all(const char* strategy, const std::vector<Option>& options,
             const std::vector<Surroundings>& places) {
  try_all(options, places,
          [&](const Surroundings& place, const std::string& key, const std::string& option) {
            if (place.strategy.find(key + ":") != std::string::npos) return std::string();
            return fmt::format("{}strategies:\n- {}: {{{}{}}}\n", place.fields, strategy,
                               place.strategy, option);
          });
}

TEST(Options, NoneOfDdpIsSilentlyWithoutEffect) {
  try_all("ddp", ddp_options, ddp_surroundings);
}
TEST(Options, NoneOfFsdpIsSilentlyWithoutEffect) {
  try_all("fsdp", fsdp_options, fsdp_surroundings);
  try_all("fsdp", offload_options, fsdp_surroundings);
}
TEST(Options, NoneOfLocalSgdIsSilentlyWithoutEffect) {
  try_all("local_sgd", local_sgd_options, local_sgd_surroundings);
}
TEST(Options, NoneOfGossipIsSilentlyWithoutEffect) {
  try_all("gossip", gossip_options, gossip_surroundings);
}
TEST(Options, NoneOfZeroIsSilentlyWithoutEffect) {
  try_all("zero", zero_options, zero_surroundings);
  try_all("zero", offload_options, zero_surroundings);
}
TEST(Options, NoneOfAParameterServerIsSilentlyWithoutEffect) {
  try_all("parameter_server", server_options, server_surroundings);
}

TEST(Options, NoneOfTheScenarioIsSilentlyWithoutEffect) {
  try_all(scenario_options, scenario_surroundings,
          [](const Surroundings& place, const std::string& key, const std::string& option) {
            const bool given = ("\n" + place.fields).find("\n" + key + ":") != std::string::npos;
            return given ? std::string() : place.fields + option + "\n";
          });
}

TEST(Options, NoneOfAnEntryIsSilentlyWithoutEffect) {
  try_all(entry_options, scenario_surroundings,
          [](const Surroundings& place, const std::string& key, const std::string& option) {
            const bool given = ("\n" + place.fields).find("\n" + key + ":") != std::string::npos;
            if (given) return std::string();
            return place.fields.substr(0, place.fields.find("strategies:")) +
                   "strategies:\n- ddp:\n  " + option + "\n";
          });
}

const std::string rare = "{mean_time_between_failures: {node: 1 d}, repair: 1 h, ";
const std::string lost = "{at: [{time: 3 h, node: 1}], repair: 1 h, ";
const std::string whole = "workers with servers on hosts of their own go on anyway";
const std::string on_their_own = "the others have no servers on hosts of their own";
const std::string slow = "{at: [{time: 3 h, slows: 1}], degraded: {";
const std::string idle_host = "where the host sets the pace";
const std::vector<Option> faults_options{
    {"faults.mean_time_between_failures.gpu",
     "{repair: 1 h, mean_time_between_failures: {gpu: 20 d}}"},
    {"faults.mean_time_between_failures.node",
     "{repair: 1 h, mean_time_between_failures: {node: 1 d}}"},
    {"faults.mean_time_between_failures.server", "{mean_time_between_failures: {server: 1 d}}", "",
     "{}"},
    {"faults.mean_time_between_failures.job", "{mean_time_between_failures: {job: 1 d}}"},
    {"faults.mean_time_between_failures.worker", "{mean_time_between_failures: {worker: 20 d}}"},
    {"faults.mean_time_between_failures.link",
     "{mean_time_between_failures: {link: 1 d}, link_outage: 1 h}"},
    {"faults.at[].time", "{at: [{time: 3 h}]}", "", "{at: [{time: 4 h}]}"},
    {"faults.at[].node", lost + "}"},
    {"faults.at[].server", "{at: [{time: 3 h, server: 0}]}", on_their_own},
    {"faults.at[].worker", "{at: [{time: 3 h, worker: 9}]}"},
    {"faults.at[].link", "{at: [{time: 3 h, link: 1}], link_outage: 1 h}"},
    {"faults.at[].leaves", "{at: [{time: 3 h, leaves: 1}, {time: 9 h, joins: 1}]}"},
    {"faults.at[].joins", "{at: [{time: 9 h, joins: 1}]}"},
    {"faults.link_outage", "{at: [{time: 3 h, link: 1}], link_outage: 4 h}", "",
     "{at: [{time: 3 h, link: 1}], link_outage: 1 h}"},
    {"faults.detection", rare + "detection: 1 h}", whole, rare + "}"},
    {"faults.restart", rare + "restart: 1 h}", "", rare + "}"},
    {"faults.repair", "{at: [{time: 3 h, node: 1}], repair: 4 h}", "", lost + "}"},
    {"faults.spare_nodes", lost + "spare_nodes: 2}", "", lost + "}"},
    {"faults.recovery", lost + "recovery: elastic}", whole, lost + "}"},
    {"faults.recovery", lost + "recovery: restart}", "that is what the others do", lost + "}"},
    {"faults.min_nodes", lost + "recovery: elastic, min_nodes: 2}", "",
     lost + "recovery: elastic}"},
    {"faults.runs", rare + "runs: 3}", "", rare + "}"},
    {"faults.until.interval", rare + "until: {interval: 0.01%, runs: 60}}", "", rare + "}"},
    {"faults.until.runs", rare + "until: {interval: 0.01%, runs: 30}}", "",
     rare + "until: {interval: 0.01%, runs: 25}}"},
    {"faults.hot_restart", lost + "spare_nodes: 1, hot_restart: 2 s}", "",
     lost + "spare_nodes: 1}"},
    {"faults.recovery", lost + "recovery: replicas}", "", lost + "}"},
    {"faults.reconfigure", lost + "recovery: replicas, reconfigure: 10 min}", "",
     lost + "recovery: replicas}"},
    {"faults.at[].slows", slow + "factor: 2}}", idle_host, "{}"},
    {"faults.degraded.mean_time", "{degraded: {mean_time: 3 d, factor: 8}}", idle_host, "{}"},
    {"faults.degraded.factor", slow + "factor: 9}}", idle_host, slow + "factor: 1}}"},
    {"faults.degraded.evict_after",
     slow + "factor: 9, evict_after: 1 h}, repair: 1 h, spare_nodes: 1}", idle_host,
     slow + "factor: 9}, repair: 1 h, spare_nodes: 1}"},
};
const std::string job_fails = "faults: {at: [{time: 3 h}, {time: 20 h}]}\n";
const std::vector<Option> checkpoint_options{
    {"checkpoint.every", "{every: 1 h}"},
    {"checkpoint.size", "{size: 1 TB}"},
    {"checkpoint.bandwidth", "{bandwidth: 1 MB/s}"},
    {"checkpoint.write", "{size: 1 TB, write: staged}", "", "{size: 1 TB}"},
    {"checkpoint.peers.copies", "{peers: {copies: 1}}", "", "{peers: {copies: 2}}"},
    {"checkpoint.peers.every", "{peers: {every: 1 h}}", "", "{peers: {}}"},
};
const std::string two_nodes =
    "gpus: 16\nbatch: {per_gpu: 2}\ndataset: {time: 2 d}\nmodel: lenet5\n";
const std::vector<std::string> failing_strategies{
    "strategies: [ddp]\n", "strategies: [fsdp]\n",
    "strategies: [parameter_server: {consistency: async, placement: own-hosts}]\n"};

const std::vector<Option> energy_options{
    {"energy.overhead", "{overhead: 1.2}", "", "{}"},
    {"energy.carbon_intensity", "{carbon_intensity: 400}", "", "{}"},
};

TEST(Options, NoneOfFailuresOrEnergyIsSilentlyWithoutEffect) {
  std::vector<Surroundings> failing, going_back;
  for (const std::string& strategy : failing_strategies) {
    failing.push_back({two_nodes + strategy});
    going_back.push_back({two_nodes + job_fails + strategy});
  }
  const auto at = [](const Surroundings& place, const std::string&, const std::string& option) {
    return place.fields + option + "\n";
  };
  try_all(faults_options, failing, at);
  try_all(checkpoint_options, going_back, at);
  try_all(energy_options, failing, at);
}

const std::string sequence = "{tensor: {size: 2, sequence: true}}";
const std::vector<Option> mesh_options{
    {"parallel.tensor.size", "{tensor: 2}"},
    {"parallel.tensor.sequence", sequence, "", "{tensor: 2}"},
    {"parallel.tensor.keep_gathered", "{tensor: {size: 2, sequence: true, keep_gathered: false}}",
     "", sequence},
    {"parallel.tensor.shared_exchanges",
     "{tensor: {size: 2, sequence: true, shared_exchanges: true}}", "", sequence},
    {"parallel.tensor.split_loss", "{tensor: {size: 2, split_loss: true}}", "", "{tensor: 2}"},
    {"parallel.tensor.overlap", "{tensor: {size: 2, overlap: backward}}", "", "{tensor: 2}"},
    {"parallel.tensor.copies", "{tensor: {size: 2, sequence: true, copies: false}}", "", sequence},
    {"parallel.tensor.dtensor", "{tensor: {size: 2, sequence: true, dtensor: false}}", "",
     sequence},
    {"parallel.tensor.repeat_last_exchange", "{tensor: {size: 2, repeat_last_exchange: true}}",
     "nothing is computed again", "{tensor: 2}"},
    {"parallel.context.size", "{context: 2}"},
    {"parallel.context.exchange", "{context: {size: 2, exchange: gather}}", "", "{context: 2}"},
    {"parallel.context.exchange", "{context: {size: 2, exchange: all-to-all}}", "", "{context: 2}"},
    {"parallel.context.balance", "{context: {size: 2, balance: none}}", "", "{context: 2}"},
    {"parallel.context.wide_gradients", "{context: {size: 2, wide_gradients: false}}", "",
     "{context: 2}"},
    {"parallel.expert.size", "{expert: 4}"},
    {"parallel.expert.tensor", "{tensor: {size: 2, sequence: true}, expert: {size: 2, tensor: 1}}",
     "", "{tensor: {size: 2, sequence: true}, expert: 2}"},
    {"parallel.expert.dispatch", "{expert: {size: 2, dispatch: gather}}", "", "{expert: 2}"},
    {"parallel.expert.capacity", "{expert: {size: 2, capacity: 0.5}}", "", "{expert: 2}"},
    {"parallel.expert.imbalance", "{expert: {size: 2, imbalance: 1.5}}", "", "{expert: 2}"},
    {"parallel.expert.load.zipf.exponent", "{expert: {size: 2, load: {zipf: {exponent: 2}}}}", "",
     "{expert: {size: 2, load: {zipf: {exponent: 0.5}}}}"},
    {"parallel.expert.load.listed.shares",
     "{expert: {size: 2, load: {listed: {shares: [3, 1, 1, 1, 1, 1, 1, 1]}}}}", "", "{expert: 2}"},
    {"parallel.expert.keep_exchanged", "{expert: {size: 2, keep_exchanged: false}}",
     "nothing is computed again", "{expert: 2}"},
    {"parallel.expert.overlap", "{expert: {size: 2, overlap: shared}}", "", "{expert: 2}"},
    {"parallel.pipeline.stages", "{pipeline: 2}"},
    {"parallel.pipeline.schedule", "{pipeline: {stages: 2, schedule: gpipe}}", "", "{pipeline: 2}"},
    {"parallel.pipeline.chunks", "{pipeline: {stages: 2, schedule: looped-bfs, chunks: 2}}", "",
     "{pipeline: {stages: 2, schedule: looped-bfs, chunks: 1}}"},
    {"parallel.pipeline.layers", "{pipeline: {stages: 2, layers: [3, 1]}}", "", "{pipeline: 2}"},
    {"parallel.pipeline.transfers", "{pipeline: {stages: 2, transfers: host}}", "",
     "{pipeline: 2}"},
    {"parallel.pipeline.slices", "{pipeline: {stages: 2, schedule: gpipe, slices: 4}}", "",
     "{pipeline: {stages: 2, schedule: gpipe}}"},
    {"parallel.pipeline.return_outputs", "{pipeline: {stages: 2, return_outputs: true}}", "",
     "{pipeline: 2}"},
    {"parallel.pipeline.keep_outputs", "{pipeline: {stages: 2, keep_outputs: false}}", "",
     "{pipeline: 2}"},
};
const std::string on_eight =
    "platform: dgx-h100\ngpus: 8\nbatch: {micro: 2, accumulation: 4}\nprecision: amp-bf16\n"
    "strategies: [ddp]\n";
const std::vector<Surroundings> mesh_surroundings{
    {on_eight + gpt},
    {on_eight + "activation_checkpointing: true\n" + gpt},
    {on_eight + "model: mixtral\nmodel_parameters: {layers: 2, hidden: 1024, heads: 16, mlp: 1024, "
                "sequence: 512, vocabulary: 5000}\n"},
    {on_eight + "activation_checkpointing: true\nrecompute: operators\nmodel: deepseek-v2-lite\n"
                "model_parameters: {layers: 2, hidden: 512, heads: 4, mlp: 1024, expert_mlp: 256, "
                "experts: 8, sequence: 512, vocabulary: 5000}\n"},
};

TEST(Options, NoneOfAMeshIsSilentlyWithoutEffect) {
  try_all(mesh_options, mesh_surroundings,
          [](const Surroundings& place, const std::string&, const std::string& option) {
            return place.fields + option + "\n";
          });
}

const std::vector<Option> fine_tuning_options{
    {"adapters.rank", "{rank: 8}", "", "{rank: 4}"},
    {"adapters.targets", "{rank: 4, targets: c_attn}", "", "{rank: 4}"},
    {"adapters.dropout", "{rank: 4, dropout: 0.1}", "", "{rank: 4}"},
    {"adapters.whole", "{rank: 4, whole: wpe}", "", "{rank: 4}"},
    {"frozen.parameters", "{parameters: wpe}"},
    {"frozen.half", "{half: true}"},
    {"frozen.quantization", "{quantization: nf4}"},
    {"frozen.quantization", "{quantization: int8}"},
    {"frozen.nested", "{quantization: nf4, nested: true}", "", "{quantization: nf4}"},
};
const std::string tuned =
    "gpus: 2\nbatch: {per_gpu: 2}\nprecision: amp-bf16\nstrategies: [ddp]\n" + gpt;
const std::vector<Surroundings> fine_tuning_surroundings{{tuned},
                                                         {tuned + "adapters: {rank: 4}\n"}};

TEST(Options, NoneOfFineTuningIsSilentlyWithoutEffect) {
  try_all(fine_tuning_options, fine_tuning_surroundings,
          [](const Surroundings& place, const std::string& key, const std::string& option) {
            const bool given = ("\n" + place.fields).find("\n" + key + ":") != std::string::npos;
            return given ? std::string() : place.fields + option + "\n";
          });
}

const std::vector<Option> fast_path_options{
    {"compile", "blocks"},
    {"compile", "whole"},
    {"fused_kernels", "true"},
    {"cuda_graphs", "true", free_host},
    {"framework.flash_attention", "{flash_attention: 3}"},
    {"framework.expandable_segments", "{expandable_segments: true}"},
    {"low_precision.recipe", "fp8-tensorwise"},
    {"low_precision.recipe", "fp8-rowwise"},
    {"low_precision.recipe", "fp8-delayed"},
    {"low_precision.recipe", "fp8-current"},
    {"low_precision.recipe", "fp8-blockwise"},
    {"low_precision.gather", "{recipe: fp8-tensorwise, gather: true}", "",
     "{recipe: fp8-tensorwise}"},
};
const std::string on_two =
    "platform: dgx-h100\ngpus: 2\nbatch: {per_gpu: 2}\nprecision: amp-bf16\n";
const std::vector<Surroundings> fast_path_surroundings{
    {on_two + "strategies: [{fsdp: {version: 2}}]\n" + gpt},
    {on_two + "strategies: [ddp]\nmodel: resnet18\n"},
    {on_two + "compile: whole\nstrategies: [ddp]\n" + gpt}};

TEST(Options, NoneOfTheFastPathIsSilentlyWithoutEffect) {
  try_all(fast_path_options, fast_path_surroundings,
          [](const Surroundings& place, const std::string& key, const std::string& option) {
            const bool given = ("\n" + place.fields).find("\n" + key + ":") != std::string::npos;
            return given ? std::string() : place.fields + option + "\n";
          });
}

// If no point could be predicted, remarks about options are pointless.
TEST(Options, OfNothingThereAreNoRemarks) {
  EXPECT_TRUE(remarks(scenario_of(""), {}).empty());
}

// The lists above must have every field of a scenario, except descriptions, figures to compare
// with, and files, which have tests of their own.
TEST(Options, EveryFieldIsTried) {
  std::set<std::string> tried{"name", "description", "profile",
                              "stragglers.per_step.empirical.file",
                              "parallel.expert.load.listed.file"};  // tests/points/mesh_test.cpp
  const auto add = [&](const std::string& prefix, const std::vector<Option>& options) {
    for (const Option& option : options) tried.insert(prefix + option.path);
  };
  add("", scenario_options);
  add("", fine_tuning_options);
  add("", fast_path_options);
  add("", faults_options);
  add("", checkpoint_options);
  add("", energy_options);
  add("", mesh_options);
  add("strategies[].", entry_options);
  add("strategies[].ddp.", ddp_options);
  add("strategies[].fsdp.", fsdp_options);
  add("strategies[].fsdp.", offload_options);
  add("strategies[].gossip.", gossip_options);
  add("strategies[].local_sgd.", local_sgd_options);
  add("strategies[].zero.", zero_options);
  add("strategies[].zero.", offload_options);
  add("strategies[].parameter_server.", server_options);
  std::istringstream rows(scenario_fields());
  std::vector<std::string> fields;
  for (std::string row; std::getline(rows, row);) {
    if (row.starts_with("| `")) fields.push_back(row.substr(3, row.find('`', 3) - 3));
  }
  ASSERT_GT(fields.size(), 90U);
  for (const std::string& field : fields) {
    const auto inner = [&](const std::string& other) {
      return other.starts_with(field + ".") || other.starts_with(field + "[]");
    };
    // a block, or a list with blocks
    if (std::any_of(fields.begin(), fields.end(), inner)) continue;
    if (field.starts_with("measured[]") || field.starts_with("anchor[]")) continue;
    // These values are refused: whole parameters are on every device, and master parameters are
    // Megatron-LM's.
    if (field == "strategies[].zero.offload.parameters") continue;
    if (field == "strategies[].zero.offload.chunks") continue;
    if (field == "strategies[].fsdp.offload.keep_master") continue;
    if (field.starts_with("convergence.")) continue;  // tests/calibrate/accuracy_command_test.cpp
    if (field.starts_with("recommend.")) continue;    // tests/sweep/recommend_test.cpp
    // the scenario's fields, for one entry
    if (field.starts_with("strategies[].parallel.")) continue;
    if (field.starts_with("strategies[].low_precision.")) continue;  // likewise
    if (field.find(" / ") != std::string::npos) continue;  // the names of the strategies themselves
    EXPECT_EQ(tried.count(field), 1U) << field;
  }
}

}  // namespace
}  // namespace lockstep::options_test
