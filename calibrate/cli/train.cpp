// Implements `lockstep train`, real distributed training: starts the ranks, waits for them, and
// summarises their reports. Each rank is a process with the same command line plus hidden options.
#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <sstream>

#include "cli/declarations.hpp"
#include "cli/verbs.hpp"
#include "convergence/real_order.hpp"
#include "core/errors.hpp"
#include "core/output.hpp"
#include "launch/interrupts.hpp"
#include "launch/machine_state.hpp"
#include "launch/network.hpp"
#include "launch/processes.hpp"
#include "results/render.hpp"
#include "runs/summary.hpp"
#include "runs/train_options.hpp"
#include "torch/devices.hpp"
#include "torch/versions.hpp"

namespace lockstep {

namespace {

void parse_hook(const TrainText& text, TrainOptions& options) {
  options.comm_hook = parse_name<RealHook>("--comm-hook", text.comm_hook);
  if (options.comm_hook != RealHook::none && options.strategy != RunStrategy::ddp) {
    throw file_error("", "--comm-hook", "is DDP's", "--strategy ddp");
  }
  const HookSettings settings = text.hook.settings(options.ranks);
  options.hook_fraction = settings.fraction;
  options.hook_rank = settings.rank;
}

// Rounds steps and warm-up up to multiples of `every`, so that all ranks end after the same
// exchange.
void parse_rounds(const TrainText& text, TrainOptions& options) {
  options.participants = parse_portion("--participants", text.participants);
  if (options.participants < 1 && options.strategy != RunStrategy::fedavg) {
    throw file_error("", "--participants", "are drawn for the rounds of federated averaging",
                     "--strategy fedavg");
  }
  if (!steps_locally(options.strategy)) {
    if (options.every == TrainOptions{}.every) return;
    throw file_error("", "--every", "is of ranks that meet now and then",
                     "--strategy diloco or fedavg");
  }
  for (int* steps : {&options.steps, &options.warm_up}) {
    *steps = (*steps + options.every - 1) / options.every * options.every;
  }
}

TrainOptions train_options(const TrainText& text) {
  TrainOptions options = text.options;
  options.strategy = parse_name<RunStrategy>("--strategy", text.strategy);
  parse_hook(text, options);
  parse_rounds(text, options);
  const std::int64_t samples = options.step.samples;
  options.step = text.input.step_options();
  adapt_to_library(options.step);
  options.step.samples = samples;
  options.step.precision = parse_precision(text.precision);
  options.optimizer = text.optimizer.spec();
  if (options.optimizer.name == OptimizerKind::muon && options.strategy == RunStrategy::fsdp) {
    throw file_error("", "--optimizer",
                     "muon orthogonalises whole matrices, and FSDP's ranks keep shards of them",
                     "--strategy ddp, or adamw");
  }
  options.bucket_bytes = parse_option("--bucket", text.bucket, Dimension::bytes);
  options.first_bucket_bytes = parse_option("--first-bucket", text.first_bucket, Dimension::bytes);
  options.reshard_after_forward = !text.shard_grad_op;
  options.jitter = parse_share("--jitter", text.jitter);
  if (options.jitter < 0) {
    throw file_error("", "--jitter", fmt::format("{} is not possible", in_quotes(text.jitter)),
                     "0% or more");
  }
  for (const std::string& slow : text.slow_ranks) {
    const SlowRankText one = parse_slow_rank(slow, options.ranks);
    options.slow_ranks[one.rank] = one.factor;
  }
  return options;
}

std::string text_of_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Replays the run's order of updates. It runs in a process with the same number of threads as a
// rank, because libraries with more threads add up in another order.
void replay_reports(const TrainText& text, const TrainOptions& options) {
  std::vector<RankReport> reports;
  for (const std::string& path : text.reports) {
    reports.push_back(rank_report_from_json(text_of_file(path)));
  }
  const ReplayedRun replayed = replay_real_run(options, reports);
  std::ofstream(text.result) << fmt::format(
      "replayed in the order of its updates: every loss within {:.1e} of its size; its "
      "parameters classify {:.2f} % of the test set",
      replayed.loss_difference, 100 * replayed.test_accuracy);
}

std::string replay_note(const Arguments& arguments, const RunFolder& folder, int processes) {
  const std::filesystem::path result = folder.file("replayed");
  std::vector<RankProcess> one = pinned_ranks(1, [&](int) {
    Arguments child = arguments;
    for (int rank = 0; rank < processes; ++rank) {
      child.insert(child.end(), {"--reports", folder.result_file(rank).string()});
    }
    child.insert(child.end(), {"--result", result.string()});
    return child;
  });
  const LaunchEnd end = run_processes(one);
  if (end.how != LaunchEnd::How::finished) throw_failure(end, end.message + ": the replay");
  return text_of_file(result);
}

void check_replay(const TrainText& text, const TrainOptions& options, const TrainingStep& step) {
  if (!text.replay) return;
  if (options.strategy == RunStrategy::fsdp) {
    throw file_error("", "--replay", "repeats the updates of whole models",
                     "--strategy ddp, ps-sync, ps-async, ps-ssp, diloco or fedavg");
  }
  if (options.data.empty()) {
    throw file_error("", "--replay", "needs images to learn from",
                     "--data synthetic, fashion-mnist, or a folder");
  }
  const double gradients = 4.0 * static_cast<double>(step.parameter_count);
  if (is_coded(options.comm_hook) && gradients > options.first_bucket_bytes) {
    throw file_error("", "--replay",
                     "repeats top-k and powersgd where all gradients are in one bucket",
                     fmt::format("--first-bucket {:.0f}B", gradients));
  }
}

int train(const TrainText& text, const Arguments& arguments) {
  const TrainOptions options = train_options(text);
  check_device(options.device);
  if (text.rank < 0) check_precision("--precision", options.step.precision, options.device);
  if (text.rank >= 0) {
    try {
      run_rank(options, {text.rank, text.store, text.address, text.result});
    } catch (const OutOfDeviceMemory& error) {
      throw RankLost(fmt::format("rank {} is out of memory: {}", text.rank, error.what()));
    }
    // _exit() avoids a race between Gloo's threads and the libraries' destructors.
    std::fflush(nullptr);
    ::_exit(0);
  }
  if (!text.reports.empty()) {
    replay_reports(text, options);
    return 0;
  }
  // Errors in the model and the data are reported once here, and not by every rank.
  const TrainingStep step = build_step(*load_model(options.model), options.step);
  check_replay(text, options, step);
  check_data(options, step);
  const int processes = options.ranks + (has_server(options.strategy) ? 1 : 0);
  const double rate = network_rate(text.network);
  // A parameter server runs on the first rank's host.
  const auto host = [&](int rank) { return rank == options.ranks ? 0 : rank; };
  const InterruptGuard guard;  // so that folder and network are removed after Ctrl-C
  const RunFolder folder;
  std::optional<LinkedHosts> hosts;
  if (rate > 0) {
    hosts.emplace(options.ranks, rate);
  }
  std::vector<RankProcess> ranks = pinned_ranks(processes, [&](int rank) {
    Arguments child = arguments;
    for (const std::string& more :
         {std::string("--rank"), std::to_string(rank), std::string("--store"),
          folder.file("store").string(), std::string("--address"),
          hosts ? hosts->host(host(rank)).address : std::string("127.0.0.1"),
          std::string("--result"), folder.result_file(rank).string()}) {
      child.push_back(more);
    }
    return child;
  });
  // On CPUs it also shares the first rank's core, as in the simulator, even if other cores are
  // free.
  if (processes > options.ranks && options.device == "cpu") ranks.back().core = ranks.front().core;
  if (options.device != "cpu") unpin(ranks);
  for (int rank = 0; hosts && rank < processes; ++rank) {
    ranks[static_cast<std::size_t>(rank)].network_namespace =
        hosts->host(host(rank)).network_namespace;
  }
  const LaunchEnd end = run_processes(ranks);
  if (end.how == LaunchEnd::How::interrupted) {
    print_error("interrupted; all ranks were ended\n");
    return exit_interrupted;
  }
  if (end.how == LaunchEnd::How::failed) {
    throw_failure(end, end.message + (end.rank == options.ranks ? ": the parameter server" : ""));
  }
  std::vector<RankReport> reports;
  for (int rank = 0; rank < processes; ++rank) {
    reports.push_back(rank_report_from_json(text_of_file(folder.result_file(rank))));
  }
  RealRecord record = summarise_run(options, text.network, reports);
  if (text.replay) record.runs.front().notes.push_back(replay_note(arguments, folder, processes));
  if (const std::string crowded = shared_cores(options.ranks, describe_machine().cores);
      options.device == "cpu" && !crowded.empty()) {
    record.warnings.push_back(crowded);
    print_error("note: {}\n", crowded);
  }
  print(text.json ? render_json(record) : text.csv ? render_csv(record) : render_text(record));
  return 0;
}

}  // namespace

void add_train(CLI::App& app, Chosen& chosen, const Arguments& arguments) {
  const auto text = std::make_shared<TrainText>();
  declare_train(app, *text)->callback([text, arguments, &chosen] {
    chosen = [text, arguments] { return train(*text, arguments); };
  });
}

}  // namespace lockstep
