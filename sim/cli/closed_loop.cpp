// `lockstep closed-loop`: calibrate here, predict, really train here, compare. The measuring
// program does the first and the third, this one the second and the fourth.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "cli/closed_loop_platform.hpp"
#include "cli/closed_loop_report.hpp"
#include "cli/commands.hpp"
#include "cli/measuring.hpp"
#include "core/units.hpp"
#include "costs/profile.hpp"
#include "launch/interrupts.hpp"
#include "launch/machine_state.hpp"
#include "launch/network.hpp"
#include "launch/processes.hpp"
#include "probes/collective_report.hpp"
#include "workload/model.hpp"

namespace lockstep {

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

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
    if (std::count(options.strategies.begin(), options.strategies.end(), wanted) > 1) {
      throw file_error("", "--strategies", fmt::format("{} stands there twice", in_quotes(wanted)));
    }
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
  const ProgramEnd end = run_program(measuring_program("closed-loop"), words);
  if (end.exit_code == 130 || InterruptGuard::interrupted()) throw InterruptError();
  if (end.exit_code == 2) {  // it has said what is wrong
    throw file_error("", "closed-loop",
                     fmt::format("cannot be measured: {}", fmt::join(words, " ")));
  }
  if (end.exit_code != 0) {
    const std::string what =
        fmt::format("`lockstep {}` ended with {}", fmt::join(words, " "), end.exit_code);
    if (end.exit_code == exit_rank_lost) throw RankLost(what);
    if (end.exit_code == exit_not_written) throw OutputError(what);
    throw std::runtime_error(what);
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
                        "--most-time", quantity_text(options.layers_seconds, Dimension::seconds),
                        "-o", folder});
}

// Of the measured curves: as asked, and a small one. Buffers of a network, the first bucket, a
// server's small tensors are that small, and below its smallest point a curve has no more to say
// than that point's time.
std::string curve_sizes(const std::string& asked) {
  constexpr double small = 16 * 1024;
  std::vector<double> sizes = parse_sizes(asked);
  if (sizes.front() > small) sizes.insert(sizes.begin(), small);
  std::vector<std::string> words;
  for (const double size : sizes) words.push_back(quantity_text(size, Dimension::bytes));
  return fmt::format("{}", fmt::join(words, ","));
}

// Every curve that the cases use.
void calibrate_collectives(const ClosedLoopOptions& options, const std::string& folder,
                           bool networked) {
  const std::string sizes = curve_sizes(options.sizes);
  const Words curves{"calibrate", "collectives",
                     "--ranks",   std::to_string(options.ranks),
                     "--seconds", fmt::format("{:g}", options.collective_seconds),
                     "-o",        folder};
  if (networked) {
    measure(curves + Words{"--network", options.network, "--sizes", sizes});
    // The server is on the first rank's host.
    measure(curves + Words{"--collectives", "send_recv", "--sizes", sizes});
  } else {
    measure(curves + Words{"--sizes", sizes});
  }
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  if (!(file << text).flush()) throw OutputError("cannot write " + path);
}

TrainingStep step_of(const ClosedLoopOptions& options, AttentionKind attention) {
  StepOptions one;
  one.samples = options.batch;
  one.image = options.image;
  one.classes = options.classes;
  one.sequence = options.sequence;
  one.fused_attention = attention == AttentionKind::fused;
  return build_step(*load_model(options.model), one);
}

// scaled_dot_product_attention came with LibTorch 2; before it every operator runs by itself.
bool has_fused_attention(const Profile& profile) {
  return std::any_of(profile.versions.begin(), profile.versions.end(), [](const auto& one) {
    return one.name == "libtorch" && std::atoi(one.version.c_str()) >= 2;
  });
}

// The jitter of compute is what the profile says that a step varies by: who comes first where two
// ranks are nearly equal, and how long equals wait for each other, follows from it.
Scenario scenario_of(const ClosedLoopOptions& options, const std::vector<Case>& cases,
                     const std::string& folder) {
  const std::string path = folder + "/profile.yaml";
  const Profile profile = load_profile(path);
  const AttentionKind attention =
      has_fused_attention(profile) ? AttentionKind::fused : AttentionKind::plain;
  const TrainingStep step = step_of(options, attention);
  Scenario scenario;
  scenario.name = "closed loop";
  scenario.model = options.model;
  scenario.input = {options.image, options.sequence, options.classes};
  scenario.batch.per_gpu = options.batch;
  scenario.attention = attention;
  scenario.optimizer.momentum = 0.9;
  scenario.optimizer.implementation = OptimizerImplementation::for_loop;
  scenario.data_loading.on_device = true;
  scenario.platform = folder + "/platform.yaml";
  scenario.profile = path;
  scenario.gpus = {options.ranks};
  scenario.stragglers.slow_ranks = options.slow_ranks;
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

// The folder that everything is written to: the user's; or one of our own, which goes unless kept.
class WorkFolder {
 public:
  explicit WorkFolder(const std::string& given) : path_(given), keep_(!given.empty()) {
    if (!keep_) {
      path_ = (fs::temp_directory_path() / "lockstep-closed-loop-XXXXXX").string();
      if (::mkdtemp(path_.data()) == nullptr) {
        throw OutputError(fmt::format("cannot write {}: {}", path_, std::strerror(errno)));
      }
      return;
    }
    std::error_code error;
    fs::create_directories(path_, error);
    if (error) throw OutputError(fmt::format("cannot write {}: {}", path_, error.message()));
  }
  ~WorkFolder() {
    std::error_code ignored;
    if (!keep_) fs::remove_all(path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  const std::string& path() const { return path_; }
  void keep() { keep_ = true; }

 private:
  std::string path_;
  bool keep_;
};

// Whether there will be hosts of their own; where they cannot be had, says so and takes loopback.
bool use_network(ClosedLoopOptions& options) {
  if (network_rate(options.network) <= 0) return false;
  const std::string reason = why_no_linked_hosts();
  if (reason.empty()) return true;
  fmt::print(stderr, "no network of {} here ({}): over loopback instead\n", options.network,
             reason);
  options.network = "loopback";
  return false;
}

}  // namespace

int closed_loop_command(ClosedLoopOptions options) {
  const TrainingStep step = step_of(options, AttentionKind::plain);
  const bool has_blocks = std::any_of(step.layers.begin(), step.layers.end(),
                                      [](const Layer& layer) { return !layer.block.empty(); });
  const std::vector<Case> cases = chosen_cases(options, has_blocks);
  ::signal(SIGPIPE, SIG_IGN);  // a reader that has gone is an error like others: clean up first
  const InterruptGuard guard;
  parse_sizes(options.sizes);  // the measuring half would say so after the layers only
  (void)measuring_program("closed-loop");
  if (options.keep_profile && !fs::exists(fs::path(options.folder) / "profile.yaml")) {
    throw file_error(options.folder, "--keep-profile", "there is no profile.yaml in this folder");
  }
  WorkFolder work(options.folder);
  const std::string& folder = work.path();
  ResultRecord record;
  std::vector<Truth> truths(cases.size());
  // What there is; returns the worst error.
  const auto print_report = [&] {
    const LoopReport report = closed_loop_report(options, record, truths);
    print(report.text);
    return report.worst;
  };
  try {
    const bool networked = use_network(options);
    if (!options.keep_profile) {
      calibrate_layers(options, folder);
      calibrate_collectives(options, folder, networked);
    }
    write_text(folder + "/platform.yaml",
               closed_loop_platform(options, describe_machine().cores, networked));
    const auto predict = [&] {
      write_text(folder + "/scenario.yaml", write_scenario(scenario_of(options, cases, folder)));
      // Read back, so that what is compared is what a user would run.
      return run_scenario(read_scenario(folder + "/scenario.yaml"));
    };
    record = predict();

    Words common =
        Words{"train", "--json"} + model_words(options) +
        Words{"--batch", std::to_string(options.batch), "--ranks",   std::to_string(options.ranks),
              "--steps", std::to_string(options.steps), "--network", options.network};
    for (const SlowRank& slow : options.slow_ranks) {
      common = common + Words{"--slow-rank", fmt::format("{}:{:g}", slow.rank, slow.factor)};
    }
    for (int repetition = 0; repetition < options.repetitions; ++repetition) {
      for (std::size_t i = 0; i < cases.size(); ++i) {
        // A shared machine gets faster and slower by the minute: each run is predicted from layers
        // measured right before it.
        if (!options.keep_profile) {
          calibrate_layers(options, folder);
          record = predict();
        }
        fmt::print(stderr, "training {}, repetition {} of {} ...\n", cases[i].label, repetition + 1,
                   options.repetitions);
        add_repetition(truths[i], measure(common + cases[i].real), record.predictions[i]);
      }
    }
    const double worst = print_report();
    if (options.folder.empty()) {
      fmt::print(stderr, "profile and scenario were temporary; -o FOLDER keeps them\n");
    }
    if (options.max_error && worst > *options.max_error) {
      fmt::print(stderr, "lockstep: an error of {:.1f} % is more than {:.1f} %\n", 100 * worst,
                 100 * *options.max_error);
      return 4;
    }
    return 0;
  } catch (const InterruptError&) {
    if (!fs::exists(folder + "/profile.yaml")) {
      fmt::print(stderr, "interrupted before anything was measured\n");
      return 130;
    }
    work.keep();
    if (!truths.back().step_seconds.empty()) print_report();
    fmt::print(stderr, "interrupted; what was measured is in {}\n", folder);
    return 130;
  }
}

}  // namespace lockstep
