// Declares the options of `calibrate`, `calibrate collectives` and `train` with CLI11. It needs no
// measuring code, so the plain program can print the help of these commands.
#include "cli/declarations.hpp"

#include <fmt/format.h>

#include "core/errors.hpp"

namespace lockstep {

void HookText::add_to(CLI::App& verb) {
  verb.add_option("--hook-fraction", fraction, "top-k: share of a bucket that is sent")
      ->capture_default_str();
  verb.add_option("--hook-rank", rank, "powersgd: rank of the approximation")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
}

HookSettings HookText::settings(int ranks) const {
  HookSettings settings{.rank = rank, .ranks = ranks};
  settings.fraction = parse_portion("--hook-fraction", fraction);
  return settings;
}

CLI::App* declare_layers(CLI::App& parent, LayersText& text) {
  CLI::App& verb =
      *parent.add_subcommand("calibrate",
                             "Measure layers, updates and copies of models into a profile; "
                             "`calibrate collectives`: collectives between processes");
  verb.add_option("--device", text.device, "cpu, or cuda:0")->capture_default_str();
  verb.add_option("--as", text.device_file,
                  "Device file that the profile belongs to (default: the one of the profile in "
                  "--output; cpu: cpu-core)");
  verb.add_option("--models", text.models, "Names or files, separated by commas");
  verb.add_option("--batches", text.batches, "Samples per step, separated by commas")
      ->capture_default_str();
  verb.add_option("--precisions", text.precisions, "fp32, tf32, amp-fp16, amp-bf16, ...")
      ->capture_default_str();
  verb.add_option("--ranks", text.ranks,
                  "Processes that compute at the same time, as in the training to be predicted")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  text.input.add_to(verb);
  text.optimizer.add_to(verb);
  verb.add_option("--width", text.width,
                  "Repeat until the 95 % interval of the median step is so narrow")
      ->capture_default_str();
  verb.add_option("--minimum", text.minimum, "Repetitions at least")
      ->check(CLI::Range(6, 1 << 24))
      ->capture_default_str();
  verb.add_option("--maximum", text.maximum, "Repetitions at most")
      ->check(CLI::Range(6, 1 << 24))
      ->capture_default_str();
  verb.add_option("--most-time", text.most_time, "Then the minimum must do, for each batch")
      ->capture_default_str();
  verb.add_option(
          "--pause", text.pause,
          "Pause before each step, as where a rank waits for messages (CPUs: others' memory goes "
          "through the caches in it); not in --most-time")
      ->capture_default_str();
  verb.add_option("--comm-hooks", text.comm_hooks,
                  "Work of top-k,powersgd on buckets of the largest model's gradients (CPUs)")
      ->delimiter(',');
  text.hook.add_to(verb);
  verb.add_flag("--layers-only", text.layers_only,
                "Not copies and updates by size, which the profile may have already");
  verb.add_option("-o,--output", text.folder, "Folder whose profile.yaml gets the figures");
  verb.footer(
      "Example:\n  lockstep calibrate --models resnet18 --batches 8,32 --ranks 2 -o FOLDER");
  return &verb;
}

CLI::App* declare_collectives(CLI::App& calibrate, CollectivesText& text) {
  CLI::App& verb = *calibrate.add_subcommand(
      "collectives", "Measure collectives between processes, in the table layout of nccl-tests");
  verb.add_option("--ranks", text.ranks, "Processes")
      ->check(CLI::Range(2, 64))
      ->capture_default_str();
  verb.add_option("--sizes", text.sizes, "FIRST..LAST in steps of two, or a list 4KiB,1MiB")
      ->capture_default_str();
  verb.add_option("--network", text.network,
                  "loopback, or a rate such as 1Gbit (needs root: network namespaces)")
      ->capture_default_str();
  verb.add_option("--collectives", text.collectives,
                  "all_reduce,all_gather,reduce_scatter,broadcast,send_recv (default: all)");
  verb.add_option("--seconds", text.seconds, "For one size, about, however noisy it is")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  verb.add_option("--backend", text.backend, "Library: gloo (NCCL: lockstep-calibrate-cuda)")
      ->capture_default_str();
  verb.add_option("--as", text.device_file, "Device file that the profile belongs to")
      ->capture_default_str();
  verb.add_option("-o,--output", text.folder, "Folder whose profile.yaml gets the curves");
  verb.add_flag("--json", text.json, "One JSON document");
  verb.footer("Example:\n  lockstep calibrate collectives --ranks 2 --network 1Gbit -o FOLDER");
  return &verb;
}

namespace {

// Options of strategies whose ranks make several steps between two exchanges.
void add_local_steps(CLI::App& verb, TrainText& text) {
  TrainOptions& options = text.options;
  verb.add_option("--every", options.every,
                  "diloco, fedavg: steps of a rank from one exchange to the next")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  verb.add_option("--outer-rate", options.outer_rate, "diloco: learning rate of the outer step")
      ->check(CLI::Range(1e-6, 100.0))
      ->capture_default_str();
  verb.add_option("--outer-momentum", options.outer_momentum,
                  "diloco: Nesterov's, of the outer steps")
      ->check(CLI::Range(0.0, 0.9999))
      ->capture_default_str();
  verb.add_option("--participants", text.participants,
                  "fedavg: share of the ranks that is drawn for each round")
      ->capture_default_str();
}

}  // namespace

CLI::App* declare_train(CLI::App& parent, TrainText& text) {
  CLI::App& verb = *parent.add_subcommand(
      "train", "Train for real, one process per rank, and report as the simulator does");
  TrainOptions& options = text.options;
  options.step.samples = 8;
  verb.add_option("--strategy", text.strategy,
                  "ddp, fsdp, ps-sync, ps-async, ps-ssp, diloco or fedavg")
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
  verb.add_option("--steps", options.steps,
                  "Measured steps (with --every: whole rounds, rounded up)")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  verb.add_option("--warm-up", options.warm_up, "Steps before them")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  verb.add_option("--data", options.data,
                  "Images to train on, and to judge the trained model by: synthetic, fashion-mnist "
                  "(of Debian's "
                  "package), or a folder with the files of MNIST, Fashion-MNIST or CIFAR-10 "
                  "(default: one random "
                  "batch)");
  verb.add_option("--seed", options.seed, "Seed of parameters, data and jitter")
      ->capture_default_str();
  verb.add_option("--network", text.network,
                  "loopback, or a rate such as 1Gbit/s between network namespaces (needs root)")
      ->capture_default_str();
  verb.add_option("--bucket", text.bucket, "DDP: size of a bucket")->capture_default_str();
  verb.add_option("--first-bucket", text.first_bucket, "DDP: of the first one")
      ->capture_default_str();
  verb.add_flag("--gradient-as-bucket-view", options.gradient_as_bucket_view,
                "DDP: gradients lie in the buckets");
  verb.add_option(
          "--comm-hook", text.comm_hook,
          "DDP: none, fp16-compress (LibTorch's own), top-k or powersgd (with error feedback)")
      ->capture_default_str();
  text.hook.add_to(verb);
  verb.add_flag("--shard-grad-op", text.shard_grad_op, "FSDP: keep parameters after forward");
  verb.add_option("--staleness-bound", options.staleness_bound,
                  "ps-ssp: steps ahead of the slowest")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  add_local_steps(verb, text);
  verb.add_flag("--replay", text.replay,
                "All but FSDP, on data: learn again in the order of the updates, and compare");
  verb.add_option("--slow-rank", text.slow_ranks,
                  "RANK:FACTOR: its work takes so many times as long, e.g. 1:1.5")
      ->take_all();
  verb.add_option("--jitter", text.jitter, "Every step takes 1 + Exp(jitter) times as long")
      ->capture_default_str();
  auto* json = verb.add_flag("--json", text.json, "One JSON document");
  verb.add_flag("--csv", text.csv, "CSV with a header line")->excludes(json);
  // Hidden options that the program passes to its ranks.
  for (CLI::Option* hidden :
       {verb.add_option("--rank", text.rank), verb.add_option("--store", text.store),
        verb.add_option("--address", text.address), verb.add_option("--result", text.result),
        verb.add_option("--reports", text.reports)}) {
    hidden->group("");
  }
  verb.footer(
      "Example:\n  lockstep train --model resnet18 --image 3x32x32 --strategy fsdp --ranks 2");
  return &verb;
}

}  // namespace lockstep
