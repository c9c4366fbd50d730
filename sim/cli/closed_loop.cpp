// `lockstep closed-loop`: calibrate here, predict, really train here, compare. The measuring
// program does the first and the third, this one the second and the fourth.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>

#include "cli/commands.hpp"
#include "cli/measuring.hpp"
#include "core/statistics.hpp"
#include "core/units.hpp"
#include "launch/interrupts.hpp"
#include "launch/network.hpp"
#include "results/table.hpp"
#include "workload/model.hpp"

namespace lockstep {

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class Interrupted : public std::exception {};

// One strategy, as the scenario names it and as real training does.
struct Case {
  std::string label;
  StrategyOptions options;
  Words real;
};

std::vector<Case> all_cases(const ClosedLoopOptions& options, bool has_blocks) {
  const auto ddp = [](double mib) {
    DdpOptions o;
    o.bucket_bytes = mib * 1024 * 1024;
    return Case{fmt::format("ddp-{:g}MiB", mib),
                o,
                {"--strategy", "ddp", "--bucket", fmt::format("{:g} MiB", mib)}};
  };
  FsdpOptions fsdp;
  fsdp.wrap.policy = has_blocks ? WrapPolicy::block : WrapPolicy::none;
  const auto server = [&](Consistency consistency, const std::string& name) {
    ParameterServerOptions o;
    o.consistency = consistency;
    o.staleness_bound = options.staleness_bound;
    o.serial = true;  // one thread that receives, updates and sends
    Case result{name, o, {"--strategy", name}};
    if (consistency == Consistency::ssp) {
      result.real.insert(result.real.end(),
                         {"--staleness-bound", std::to_string(options.staleness_bound)});
    }
    return result;
  };
  return {ddp(25),
          ddp(4),
          {"fsdp", fsdp, {"--strategy", "fsdp"}},
          server(Consistency::sync, "ps-sync"),
          server(Consistency::async, "ps-async"),
          server(Consistency::ssp, "ps-ssp")};
}

std::vector<Case> chosen_cases(const ClosedLoopOptions& options, bool has_blocks) {
  std::vector<Case> all = all_cases(options, has_blocks);
  if (options.strategies.empty()) return all;
  std::vector<Case> chosen;
  std::vector<std::string> names;
  for (const Case& candidate : all) names.push_back(candidate.label);
  for (const std::string& wanted : options.strategies) {
    const auto found = std::find(names.begin(), names.end(), wanted);
    if (found == names.end()) {
      throw file_error("", "--strategies", fmt::format("{} is not known", in_quotes(wanted)),
                       allowed_hint(wanted, names));
    }
    chosen.push_back(all[static_cast<std::size_t>(found - names.begin())]);
  }
  return chosen;
}

Words model_words(const ClosedLoopOptions& options) {
  Words words{"--model", options.model};
  if (!options.image.empty()) {
    words.insert(words.end(), {"--image", fmt::format("{}", fmt::join(options.image, "x"))});
  }
  if (options.classes > 0)
    words.insert(words.end(), {"--classes", std::to_string(options.classes)});
  if (options.sequence > 0) {
    words.insert(words.end(), {"--sequence", std::to_string(options.sequence)});
  }
  return words;
}

std::string measure(const Words& words) {
  const ProgramEnd end = run_program(measuring_program(), words);
  if (end.exit_code == 130 || InterruptGuard::interrupted()) throw Interrupted();
  if (end.exit_code != 0) {
    throw std::runtime_error(
        fmt::format("`lockstep-calibrate {}` ended with {}", fmt::join(words, " "), end.exit_code));
  }
  return end.output;
}

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

void calibrate_layers(const ClosedLoopOptions& options, const std::string& folder) {
  const Words layers = model_words(options);
  Words words{"calibrate", "--models"};
  words.insert(words.end(), layers.begin() + 1, layers.end());
  measure(words + Words{"--batches", std::to_string(options.batch), "--ranks",
                        std::to_string(options.ranks), "--width", "1%", "--maximum", "40",
                        "--most-time", "10 s", "-o", folder});
}

// Every curve that the cases use.
void calibrate_collectives(const ClosedLoopOptions& options, const std::string& folder,
                           bool networked) {
  const Words curves{"collectives", "--ranks", std::to_string(options.ranks), "-o", folder};
  if (networked) {
    measure(curves + Words{"--network", options.network, "--sizes", options.sizes});
    // The server is on the first rank's host.
    measure(curves + Words{"--collectives", "send_recv", "--sizes", options.sizes});
  } else {
    measure(curves + Words{"--sizes", options.sizes});
  }
}

// The machine as a platform file: processes on this host, or one host for each rank.
void write_platform(const ClosedLoopOptions& options, const std::string& path, bool networked) {
  std::ofstream file(path);
  if (networked) {
    file << fmt::format(
        "base: cpu-1gbit-x2\ntitle: this machine's cores as hosts of their own\nmax_nodes: {}\n"
        "fabric: {{kind: ethernet, nics_per_node: 1, nic_rate: {}, latency: 30 us, efficiency: "
        "95.7%, gpu_direct: false}}\n",
        options.ranks, quantity_text(network_rate(options.network), Dimension::bytes_per_second));
  } else {
    file << fmt::format(
        "base: cpu-loopback-x2\ntitle: processes on this machine\ngpus_per_node: {}\n",
        options.ranks);
  }
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

Scenario scenario_of(const ClosedLoopOptions& options, const std::vector<Case>& cases,
                     const std::string& folder) {
  Scenario scenario;
  scenario.name = "closed loop";
  scenario.model = options.model;
  scenario.input = {options.image, options.sequence, options.classes};
  scenario.batch.per_gpu = options.batch;
  scenario.attention = AttentionKind::plain;
  scenario.optimizer.momentum = 0.9;
  scenario.optimizer.implementation = OptimizerImplementation::for_loop;
  scenario.data_loading.on_device = true;
  scenario.platform = folder + "/platform.yaml";
  scenario.profile = folder + "/profile.yaml";
  scenario.gpus = {options.ranks};
  scenario.stragglers.slow_ranks = options.slow_ranks;
  for (const Case& one : cases) {
    StrategyEntry entry;
    entry.options = one.options;
    entry.label = one.label;
    scenario.strategies.push_back(entry);
  }
  return scenario;
}

// What the repetitions of one case said.
struct Truth {
  std::vector<double> step_seconds;  // median step of each repetition
  std::vector<double> predicted;     // for each repetition
  std::vector<double> staleness;     // mean of each repetition
  std::map<std::int64_t, std::int64_t> histogram;
  double memory = 0;
};

void add_repetition(Truth& truth, const std::string& text) {
  const auto run = nlohmann::json::parse(text).at("runs").at(0);
  truth.step_seconds.push_back(run.at("step_seconds"));
  truth.memory = std::max(truth.memory, run.at("memory").at("allocated_bytes").get<double>());
  if (!run.contains("staleness")) return;
  truth.staleness.push_back(run.at("staleness").at("mean"));
  for (const auto& [value, count] : run.at("staleness").at("histogram").items()) {
    truth.histogram[std::stoll(value)] += count.get<std::int64_t>();
  }
}

// Half the sum of differences between two distributions: 0 = the same, 1 = nothing in common.
double total_variation(const std::map<std::int64_t, std::int64_t>& a,
                       const std::map<std::int64_t, std::int64_t>& b) {
  const auto total = [](const auto& h) {
    return std::accumulate(h.begin(), h.end(), 0.0,
                           [](double sum, const auto& bin) { return sum + double(bin.second); });
  };
  std::map<std::int64_t, double> difference;
  for (const auto& [value, count] : a) difference[value] += double(count) / total(a);
  for (const auto& [value, count] : b) difference[value] -= double(count) / total(b);
  double sum = 0;
  for (const auto& bin : difference) sum += std::abs(bin.second);
  return sum / 2;
}

std::string report(const std::vector<Case>& cases, const ResultRecord& record,
                   const std::vector<Truth>& truths, double& worst) {
  Table table({{"strategy", Table::Align::left},
               {"measured"},
               {"spread"},
               {"predicted"},
               {"error"},
               {"staleness"},
               {"predicted"},
               {"TV"},
               {"memory"},
               {"predicted"},
               {"error"}});
  const auto percent = [](double x) { return fmt::format("{:+.1f} %", 100 * x); };
  worst = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Prediction& p = record.predictions[i];
    const Truth& truth = truths[i];
    const double measured = median(truth.step_seconds);
    const double predicted = median(truth.predicted);
    const double error = predicted / measured - 1;
    worst = std::max(worst, std::abs(error));
    const auto [low, high] =
        std::minmax_element(truth.step_seconds.begin(), truth.step_seconds.end());
    std::vector<std::string> row{cases[i].label, human(measured, Dimension::seconds, 4),
                                 fmt::format("{:.1f} %", 100 * (*high - *low) / measured),
                                 human(predicted, Dimension::seconds, 4), percent(error)};
    if (p.staleness && !truth.staleness.empty()) {
      row.push_back(fmt::format("{:.2f}", median(truth.staleness)));
      row.push_back(fmt::format("{:.2f}", p.staleness->mean));
      row.push_back(
          fmt::format("{:.2f}", total_variation(truth.histogram, p.staleness->histogram)));
    } else {
      row.insert(row.end(), {"-", "-", "-"});
    }
    row.push_back(human(truth.memory, Dimension::bytes, 4));
    row.push_back(human(p.memory.allocated, Dimension::bytes, 4));
    row.push_back(percent(p.memory.allocated / truth.memory - 1));
    table.add_row(row);
  }
  return table.text();
}

// Prints what there is; returns the worst error.
double print_report(const ClosedLoopOptions& options, const std::vector<Case>& cases,
                    const ResultRecord& record, const std::vector<Truth>& truths) {
  double worst = 0;
  const std::string table = report(cases, record, truths, worst);
  const ProvenanceShare& share = record.predictions.front().provenance;
  print(fmt::format(
      "{} on {} processes over {}, batch {} each: {} repetitions of {} steps, medians\n{}"
      "Predictions: {} % measured, {} % interpolated, {} % modelled costs; worst error {:.1f} %.\n",
      options.model, options.ranks, options.network, options.batch,
      truths.back().step_seconds.size(), options.steps, table, std::lround(100 * share.measured),
      std::lround(100 * share.interpolated), std::lround(100 * share.modelled), 100 * worst));
  return worst;
}

}  // namespace

int closed_loop_command(ClosedLoopOptions options) {
  const TrainingStep step = [&] {
    StepOptions one;
    one.samples = options.batch;
    one.image = options.image;
    one.classes = options.classes;
    one.sequence = options.sequence;
    one.fused_attention = false;
    return build_step(*load_model(options.model), one);
  }();
  const bool has_blocks = std::any_of(step.layers.begin(), step.layers.end(),
                                      [](const Layer& layer) { return !layer.block.empty(); });
  const std::vector<Case> cases = chosen_cases(options, has_blocks);
  bool networked = network_rate(options.network) > 0;
  if (const std::string reason = networked ? why_no_linked_hosts() : ""; !reason.empty()) {
    fmt::print(stderr, "no network of {} here ({}): over loopback instead\n", options.network,
               reason);
    options.network = "loopback";
    networked = false;
  }
  (void)measuring_program();
  const std::string folder =
      options.folder.empty()
          ? (fs::temp_directory_path() / fmt::format("lockstep-closed-loop-{}", ::getpid()))
                .string()
          : options.folder;
  fs::create_directories(folder);
  const InterruptGuard guard;
  ResultRecord record;
  std::vector<Truth> truths(cases.size());
  try {
    if (!options.keep_profile) {
      calibrate_layers(options, folder);
      calibrate_collectives(options, folder, networked);
    }
    write_platform(options, folder + "/platform.yaml", networked);
    std::ofstream(folder + "/scenario.yaml") << write_scenario(scenario_of(options, cases, folder));
    // Read back, so that what is compared is what a user would run.
    const auto predict = [&] { return run_scenario(read_scenario(folder + "/scenario.yaml")); };
    record = predict();

    Words common =
        Words{"train", "--json"} + model_words(options) +
        Words{"--batch", std::to_string(options.batch), "--ranks",   std::to_string(options.ranks),
              "--steps", std::to_string(options.steps), "--network", options.network};
    for (const SlowRank& slow : options.slow_ranks) {
      common = common + Words{"--slow-rank", fmt::format("{}:{:g}", slow.rank, slow.factor)};
    }
    for (int repetition = 0; repetition < options.repetitions; ++repetition) {
      // A shared machine gets faster and slower by the minute: each repetition is predicted from
      // layers measured right before it.
      if (repetition > 0 && !options.keep_profile) {
        calibrate_layers(options, folder);
        record = predict();
      }
      for (std::size_t i = 0; i < cases.size(); ++i) {
        fmt::print(stderr, "training {}, repetition {} of {} ...\n", cases[i].label, repetition + 1,
                   options.repetitions);
        add_repetition(truths[i], measure(common + cases[i].real));
        truths[i].predicted.push_back(record.predictions[i].step_seconds);
      }
    }
    const double worst = print_report(options, cases, record, truths);
    if (options.folder.empty()) fs::remove_all(folder);
    if (options.max_error && worst > *options.max_error) {
      fmt::print(stderr, "lockstep: an error of {:.1f} % is more than {:.1f} %\n", 100 * worst,
                 100 * *options.max_error);
      return 4;
    }
    return 0;
  } catch (const Interrupted&) {
    if (!truths.back().step_seconds.empty()) print_report(options, cases, record, truths);
    fmt::print(stderr, "interrupted; what was measured is in {}\n", folder);
    return 130;
  }
}

}  // namespace lockstep
