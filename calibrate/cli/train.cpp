// Real distributed training: starts the ranks, waits, and puts their reports together.
#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <sstream>

#include "cli/options.hpp"
#include "cli/verbs.hpp"
#include "core/errors.hpp"
#include "launch/interrupts.hpp"
#include "launch/network.hpp"
#include "launch/processes.hpp"
#include "results/render.hpp"
#include "runs/summary.hpp"
#include "runs/train_options.hpp"
#include "torch/devices.hpp"

namespace lockstep {

namespace {

struct TrainText {
  TrainOptions options;
  std::string strategy = "ddp", precision = "fp32";
  std::string bucket = "25 MiB", first_bucket = "1 MiB", network = "loopback";
  std::vector<std::string> slow_ranks;
  std::string jitter = "0%";
  bool shard_grad_op = false, json = false, csv = false;
  InputText input;
  OptimizerText optimizer;
  // Of a child process.
  int rank = -1;
  std::string store, address = "127.0.0.1", result;
};

void add_options(CLI::App& verb, TrainText& text) {
  TrainOptions& options = text.options;
  options.step.samples = 8;
  verb.add_option("--strategy", text.strategy, "ddp, fsdp, ps-sync, ps-async or ps-ssp")
      ->capture_default_str();
  verb.add_option("--ranks", options.ranks, "Processes that train; a server is one more")
      ->check(CLI::Range(1, 512))
      ->capture_default_str();
  verb.add_option("--model", options.model, "Name or file")->required();
  verb.add_option("--batch", options.step.samples, "Samples of one rank and step")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  verb.add_option("--precision", text.precision, "fp32, amp-bf16, ...")->capture_default_str();
  text.input.add_to(verb);
  text.optimizer.add_to(verb);
  verb.add_option("--device", options.device, "cpu, or cuda:0 (all ranks on it)")
      ->capture_default_str();
  verb.add_option("--steps", options.steps, "Measured steps")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  verb.add_option("--warm-up", options.warm_up, "Steps before them")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  verb.add_option(
      "--data", options.data,
      "Images to train on, and to judge the trained model by: synthetic, or a folder "
      "with the unpacked IDX files of MNIST or Fashion-MNIST (default: one random batch)");
  verb.add_option("--seed", options.seed, "Of parameters, data and jitter")->capture_default_str();
  verb.add_option("--network", text.network,
                  "loopback, or a rate such as 1Gbit/s between network namespaces (needs root)")
      ->capture_default_str();
  verb.add_option("--bucket", text.bucket, "DDP: size of a bucket")->capture_default_str();
  verb.add_option("--first-bucket", text.first_bucket, "DDP: of the first one")
      ->capture_default_str();
  verb.add_flag("--gradient-as-bucket-view", options.gradient_as_bucket_view,
                "DDP: gradients lie in the buckets");
  verb.add_flag("--shard-grad-op", text.shard_grad_op, "FSDP: keep parameters after forward");
  verb.add_option("--staleness-bound", options.staleness_bound,
                  "ps-ssp: steps ahead of the slowest")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  verb.add_option("--slow-rank", text.slow_ranks,
                  "RANK:FACTOR: its work takes so many times as long, e.g. 1:1.5")
      ->take_all();
  verb.add_option("--jitter", text.jitter, "Every step takes 1 + Exp(jitter) times as long")
      ->capture_default_str();
  auto* output = verb.add_option_group("Output");
  output->add_flag("--json", text.json, "One JSON document");
  output->add_flag("--csv", text.csv, "CSV with a header line");
  output->require_option(0, 1);
  auto* hidden = verb.add_option_group("");
  hidden->add_option("--rank", text.rank);
  hidden->add_option("--store", text.store);
  hidden->add_option("--address", text.address);
  hidden->add_option("--result", text.result);
}

TrainOptions train_options(const TrainText& text) {
  TrainOptions options = text.options;
  const auto& names = EnumNames<RunStrategy>::names;
  const auto found = std::find(names.begin(), names.end(), text.strategy);
  if (found == names.end()) {
    throw file_error("", "--strategy", fmt::format("{} is not known", in_quotes(text.strategy)),
                     allowed_hint(text.strategy, {names.begin(), names.end()}));
  }
  options.strategy = static_cast<RunStrategy>(found - names.begin());
  const std::int64_t samples = options.step.samples;
  options.step = text.input.step_options();
  options.step.samples = samples;
  options.step.precision = parse_precision(text.precision);
  options.optimizer = text.optimizer.spec();
  options.bucket_bytes = parse_option("--bucket", text.bucket, Dimension::bytes);
  options.first_bucket_bytes = parse_option("--first-bucket", text.first_bucket, Dimension::bytes);
  options.reshard_after_forward = !text.shard_grad_op;
  options.jitter = parse_option("--jitter", text.jitter, Dimension::fraction);
  if (options.jitter < 0) {
    throw file_error("", "--jitter", fmt::format("{} is not possible", in_quotes(text.jitter)),
                     "0% or more");
  }
  for (const std::string& slow : text.slow_ranks) {
    const std::vector<std::string> parts = split(slow, ':');
    const double rank =
        parts.size() == 2 ? parse_option("--slow-rank", parts[0], Dimension::none) : -1;
    const double factor =
        parts.size() == 2 ? parse_option("--slow-rank", parts[1], Dimension::none) : 0;
    if (rank < 0 || rank >= options.ranks || rank != static_cast<int>(rank) || factor < 1) {
      throw file_error(
          "", "--slow-rank", fmt::format("{} is not possible", in_quotes(slow)),
          fmt::format("RANK:FACTOR with a rank from 0 to {} and a factor of at least 1",
                      options.ranks - 1));
    }
    options.slow_ranks[static_cast<int>(rank)] = factor;
  }
  return options;
}

RankReport read_report(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return rank_report_from_json(text.str());
}

int train(const TrainText& text, const Arguments& arguments) {
  const TrainOptions options = train_options(text);
  check_device(options.device);
  if (text.rank >= 0) {
    try {
      run_rank(options, {text.rank, text.store, text.address, text.result});
    } catch (const OutOfDeviceMemory& error) {
      throw std::runtime_error(
          fmt::format("rank {} is out of memory: {}", text.rank, error.what()));
    }
    // Gloo's threads and the libraries' destructors race at exit: leave without them.
    std::fflush(nullptr);
    ::_exit(0);
  }
  // Mistakes about the model and the data are found here, once, and not by every rank.
  check_data(options, build_step(*load_model(options.model), options.step));
  const int processes = options.ranks + (has_server(options.strategy) ? 1 : 0);
  const double rate = network_rate(text.network);
  // A parameter server runs on the first rank's host.
  const auto host = [&](int rank) { return rank == options.ranks ? 0 : rank; };
  const InterruptGuard guard;  // folder and network are removed on Ctrl-C, too
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
  // ... and, on CPUs, on its core, as the simulator has it: however many cores there are.
  if (processes > options.ranks && options.device == "cpu") ranks.back().core = ranks.front().core;
  for (int rank = 0; hosts && rank < processes; ++rank) {
    ranks[static_cast<std::size_t>(rank)].network_namespace =
        hosts->host(host(rank)).network_namespace;
  }
  const LaunchEnd end = run_processes(ranks);
  if (end.how == LaunchEnd::How::interrupted) {
    fmt::print(stderr, "interrupted; all ranks were ended\n");
    return exit_interrupted;
  }
  if (end.how == LaunchEnd::How::failed) {
    throw std::runtime_error(end.message +
                             (end.rank == options.ranks ? ": the parameter server" : ""));
  }
  std::vector<RankReport> reports;
  for (int rank = 0; rank < processes; ++rank) {
    reports.push_back(read_report(folder.result_file(rank)));
  }
  const ResultRecord record = summarise_run(options, text.network, reports);
  print(text.json ? render_json(record) : text.csv ? render_csv(record) : render_text(record));
  return 0;
}

}  // namespace

void add_train(CLI::App& app, Chosen& chosen, const Arguments& arguments) {
  auto* verb = app.add_subcommand(
      "train", "Train for real, one process per rank, and report as the simulator does");
  const auto text = std::make_shared<TrainText>();
  add_options(*verb, *text);
  verb->callback([text, arguments, &chosen] {
    chosen = [text, arguments] { return train(*text, arguments); };
  });
}

}  // namespace lockstep
