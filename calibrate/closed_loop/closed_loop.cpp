// Implements `lockstep closed-loop`: calibrates this machine, predicts, trains for real on it, and
// compares. The measuring program calibrates and trains; this program predicts and compares.
#include "closed_loop/closed_loop.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "closed_loop/cases.hpp"
#include "closed_loop/estimate.hpp"
#include "closed_loop/platform.hpp"
#include "closed_loop/report.hpp"
#include "core/output.hpp"
#include "core/units.hpp"
#include "costs/profile.hpp"
#include "launch/interrupts.hpp"
#include "launch/machine_state.hpp"
#include "launch/measuring.hpp"
#include "launch/network.hpp"
#include "launch/processes.hpp"
#include "probes/collective_report.hpp"
#include "questions/run.hpp"
#include "results/render.hpp"
#include "workload/model.hpp"

namespace lockstep {

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

std::string measure(const Words& words) {
  const ProgramEnd end = run_program(measuring_program("closed-loop"), words);
  if (end.exit_code == 130 || InterruptGuard::interrupted()) throw InterruptError();
  if (end.exit_code == 2) {  // that program has already reported the error
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

// Measures layers, and other work of the case `one` (Case::work), with pauses if its ranks wait
// before each step. If `too`, also measures copies and updates by size.
void calibrate_layers(const ClosedLoopOptions& options, const std::string& folder, bool too,
                      const Case& one) {
  Words words = Words{"calibrate", "--models", options.model} + input_words(options) + one.work;
  const bool pausing = waits_before_step(one);
  if (!too) words.push_back("--layers-only");
  measure(words + Words{"--batches", std::to_string(options.batch), "--ranks",
                        std::to_string(options.ranks), "--width", "1%", "--maximum",
                        std::to_string(layer_repetitions), "--pause",
                        quantity_text(pausing ? layer_pause : 0, Dimension::seconds), "--most-time",
                        quantity_text(options.layers_seconds, Dimension::seconds), "-o", folder});
}

// Sizes of the measured curves: the requested ones, and 16 KiB if all requested are larger, because
// below its smallest point a curve only repeats that point's time. Buffers of a network, for
// example, are that small. Compressed gradients may have a few kilobytes, so with communication
// hooks 1 KiB and 64 KiB are added.
std::vector<double> curve_sizes(const std::string& asked, const std::vector<Case>& cases) {
  constexpr double kib = 1024;
  std::vector<double> sizes = parse_sizes(asked);
  const auto insert = [&](double size) {
    const auto place = std::lower_bound(sizes.begin(), sizes.end(), size);
    if (place == sizes.end() || *place != size) sizes.insert(place, size);
  };
  if (sizes.front() > 16 * kib) insert(16 * kib);
  if (std::any_of(cases.begin(), cases.end(), compresses)) {
    insert(1 * kib);
    insert(64 * kib);
  }
  return sizes;
}

// `sizes`, and the size of the message with all parameters. The latter must be measured itself,
// because the part of a message that is still in the buffer when its sender is free depends on the
// size: a sender fills its buffer in pieces of a third.
std::vector<double> message_sizes(const Training& training, std::vector<double> sizes) {
  const TrainingStep step = step_of(training, AttentionKind::plain);
  const double message = 4 * static_cast<double>(step.parameter_count);  // fp32
  const auto place = std::lower_bound(sizes.begin(), sizes.end(), message);
  if (place == sizes.end() || *place != message) sizes.insert(place, message);
  return sizes;
}

// The collectives that the cases use. Servers and their workers only send messages.
std::vector<std::string> collectives_of(const std::vector<Case>& cases) {
  if (std::all_of(cases.begin(), cases.end(), has_server)) return {"send_recv"};
  std::vector<std::string> all;
  for (const Collective collective : measurable_collectives()) {
    all.push_back(enum_name(collective));
  }
  return all;
}

// Measures the curves of these collectives into the folder's profile. Messages are measured by a
// separate call if they have one more size.
void calibrate_collectives(const ClosedLoopOptions& options, const std::string& folder,
                           const std::vector<Case>& cases, bool networked) {
  const Words curves{"calibrate", "collectives",
                     "--ranks",   std::to_string(options.ranks),
                     "--seconds", fmt::format("{:g}", options.collective_seconds),
                     "-o",        folder};
  const auto of = [](const Words& collectives, const std::vector<double>& sizes) {
    Words words;
    for (const double size : sizes) words.push_back(quantity_text(size, Dimension::bytes));
    return Words{"--collectives", fmt::format("{}", fmt::join(collectives, ",")), "--sizes",
                 fmt::format("{}", fmt::join(words, ","))};
  };
  const Words network = networked ? Words{"--network", options.network} : Words{};
  const std::vector<double> sizes = curve_sizes(options.sizes, cases);
  const bool servers = std::any_of(cases.begin(), cases.end(), has_server);
  const std::vector<double> of_messages = servers ? message_sizes(options, sizes) : sizes;
  Words all = collectives_of(cases);
  if (of_messages != sizes) {
    measure(curves + of({"send_recv"}, of_messages) + network);
    std::erase(all, "send_recv");
  }
  if (!all.empty()) measure(curves + of(all, sizes) + network);
  // The server is on the first rank's host, so messages within a host are measured as well.
  if (networked) measure(curves + of({"send_recv"}, of_messages));
}

// The folder for all files: the user's, or a temporary one, which the destructor removes unless
// keep() was called.
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

// Whether a network between namespaces is requested and available. If it is not available, reports
// that and changes the option to loopback.
bool use_network(ClosedLoopOptions& options) {
  if (network_rate(options.network) <= 0) return false;
  const std::string reason = why_no_linked_hosts();
  if (reason.empty()) return true;
  print_error("no network of {} here ({}): over loopback instead\n", options.network, reason);
  options.network = "loopback";
  return false;
}

// Takes the jitter of compute from the profile's single steps, which are written to a file in the
// folder. Without them, the scenario's lognormal jitter stays.
void use_measured_jitter(const Training& training, const Profile& profile,
                         const std::string& folder, Scenario& scenario) {
  const ProfileBatch* batch = measured_batch(training, profile);
  if (batch == nullptr || batch->step_factors.empty()) return;
  write_text(folder + "/step_factors.txt",
             fmt::format("{}\n", fmt::join(batch->step_factors, "\n")));
  scenario.stragglers.per_step = Empirical{.file = "step_factors.txt"};
}

// The processor time that other programs have used since the object was made. Other means neither
// this program nor its children.
class Load {
 public:
  Disturbance so_far() const { return disturbance(before_, read_cpu_clocks(), ours() - ours_); }

 private:
  static double ours() {
    double sum = 0;
    for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
      struct rusage use {};
      ::getrusage(who, &use);
      for (const timeval& time : {use.ru_utime, use.ru_stime}) {
        sum += static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
      }
    }
    return sum;
  }

  CpuClocks before_ = read_cpu_clocks();
  double ours_ = ours();
};

// Prints the expected duration, which follows from steps by the model or by a kept profile.
LoopEstimate say_estimate(const ClosedLoopOptions& options, const std::vector<Case>& cases,
                          bool networked, const ResultRecord& modelled) {
  std::vector<double> steps;
  for (const Prediction& p : modelled.predictions) steps.push_back(p.step_seconds);
  const auto count = [&](bool (*alike)(const Case&)) {
    return static_cast<std::size_t>(std::count_if(cases.begin(), cases.end(), alike));
  };
  const std::size_t pausing = count(waits_before_step);
  // With a network, messages within one host are measured in addition to messages between hosts.
  const std::size_t collectives = collectives_of(cases).size() + (networked ? 1 : 0);
  std::vector<double> sizes = curve_sizes(options.sizes, cases);
  if (count(has_server) == cases.size()) sizes = message_sizes(options, std::move(sizes));
  const LoopEstimate estimate =
      estimate_loop(options, collectives, sizes, steps, pausing, count(compresses));
  print_error("this takes about {}: {} once, {} for {} training runs\n", about(estimate.total()),
              about(estimate.first), about(estimate.runs),
              steps.size() * static_cast<std::size_t>(options.repetitions));
  return estimate;
}

}  // namespace

int closed_loop_command(ClosedLoopOptions options) {
  const std::vector<Case> cases = chosen_cases(options, options.strategies);
  ::signal(SIGPIPE,
           SIG_IGN);  // a closed output must be an error, so that the program cleans up first
  const InterruptGuard guard;
  // Checked here, because the measuring half would report an error only after the layers.
  (void)curve_sizes(options.sizes, cases);
  (void)measuring_program("closed-loop");
  if (options.keep_profile && !fs::exists(fs::path(options.folder) / "profile.yaml")) {
    throw file_error(options.folder, "--keep-profile", "there is no profile.yaml in this folder");
  }
  const std::string crowded = shared_cores(options.ranks, describe_machine().cores);
  if (!crowded.empty()) print_error("warning: {}\n", crowded);
  WorkFolder work(options.folder);
  const std::string& folder = work.path();
  ResultRecord record;
  std::vector<Truth> truths(cases.size());
  // Prints the rows that have been measured so far.
  const auto print_report = [&] {
    LoopReport report = closed_loop_report(options, record, truths);
    print(report.text + (crowded.empty() ? "" : "Warning: " + crowded + ".\n"));
    return report;
  };
  try {
    const bool networked = use_network(options);
    write_text(folder + "/platform.yaml",
               closed_loop_platform(options, describe_machine().cores, networked));
    const auto predict = [&](const Profile& profile) {
      Scenario scenario = scenario_of(options, cases, profile);
      use_measured_jitter(options, profile, folder, scenario);
      write_text(folder + "/scenario.yaml", write_scenario(scenario));
      // The scenario is read back, so that the prediction equals a user's prediction.
      return run_scenario(read_scenario(folder + "/scenario.yaml"));
    };
    const auto measured_profile = [&] { return load_profile(folder + "/profile.yaml"); };
    const LoopEstimate estimate = say_estimate(
        options, cases, networked, predict(options.keep_profile ? measured_profile() : Profile{}));
    if (!options.keep_profile) {
      calibrate_layers(options, folder, true, cases.front());
      calibrate_collectives(options, folder, cases, networked);
    }
    record = predict(measured_profile());

    const Words common = train_words(options, options.steps) + Words{"--network", options.network};
    // Seconds that are left, by the durations of finished runs, or by the estimate if there are
    // none.
    const auto began = std::chrono::steady_clock::now();
    const auto spent = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    };
    std::size_t done = 0;
    const auto left = [&] {
      const std::size_t all = cases.size() * static_cast<std::size_t>(options.repetitions);
      const double each =
          done > 0 ? spent() / static_cast<double>(done) : estimate.runs / static_cast<double>(all);
      return each * static_cast<double>(all - done);
    };
    // Trains case i once. Its prediction uses layers that are measured directly before.
    const auto train = [&](std::size_t i, const std::string& which) {
      if (!options.keep_profile) {
        calibrate_layers(options, folder, false, cases[i]);
        record = predict(measured_profile());
      }
      print_error("training {}, {} ...\n", cases[i].label, which);
      const Load load;
      const RealRun run = runs_of_json(measure(common + cases[i].real)).at(0);
      add_repetition(truths[i], run, record.predictions[i], load.so_far());
      std::vector<double> of_ranks = run.rank_compute_seconds;
      const double layers = measured_compute(options, measured_profile());
      if (layers > 0 && !of_ranks.empty()) {
        for (double& seconds : of_ranks) seconds /= layers;
        Scenario scenario = read_scenario(folder + "/scenario.yaml");
        scenario.strategies = {scenario.strategies[i]};
        const Scenario so = with_own_compute(std::move(scenario), of_ranks);
        add_own_compute(truths[i], of_ranks, run_scenario(so).predictions.front());
      }
      ++done;
    };
    // The speed of a shared machine changes within minutes, so collectives are measured for each
    // repetition.
    for (int repetition = 0; repetition < options.repetitions; ++repetition) {
      if (repetition > 0 && !options.keep_profile) {
        calibrate_collectives(options, folder, cases, networked);
      }
      for (std::size_t i = 0; i < cases.size(); ++i) {
        train(i, fmt::format("repetition {} of {}, about {} left", repetition + 1,
                             options.repetitions, about(left())));
      }
    }
    // Disturbed repetitions are repeated, as long as that takes no longer than all runs before.
    const double planned = spent(), each = planned / static_cast<double>(done);
    for (std::size_t before = 0; before < done;) {
      before = done;
      for (std::size_t i = 0; i < cases.size(); ++i) {
        const auto asked = static_cast<std::size_t>(options.repetitions);
        if (quiet_repetitions(truths[i], options) >= asked || spent() + each > 2 * planned)
          continue;
        train(i, "again, because the machine was not quiet");
      }
    }
    const LoopReport report = print_report();
    if (options.folder.empty()) {
      print_error("profile and scenario were temporary; -o FOLDER keeps them\n");
    }
    const std::string wrong = objection(options, report);
    if (wrong.empty()) return 0;
    print_error("lockstep: {}\n", wrong);
    return exit_code(options, report);
  } catch (const InterruptError&) {
    if (!fs::exists(folder + "/profile.yaml")) {
      print_error("interrupted before anything was measured\n");
      return 130;
    }
    work.keep();
    if (!truths.back().step_seconds.empty()) print_report();
    print_error("interrupted; the results so far are in {}\n", folder);
    return 130;
  }
}

}  // namespace lockstep
