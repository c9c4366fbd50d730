// Declares the options of `lockstep closed-loop`, and converts their texts to values. `--quick`
// changes only values that the user does not set.
#include "closed_loop/options.hpp"

#include <fmt/format.h>

#include "cli/options.hpp"
#include "core/errors.hpp"
#include "core/units.hpp"

namespace lockstep {

CLI::App* declare_closed_loop(CLI::App& app, ClosedLoopText& text) {
  ClosedLoopOptions& loop = text.options;
  CLI::App& verb = *app.add_subcommand(
      "closed-loop", "Calibrate here, predict, train for real, compare (needs LibTorch)");
  text.verb = &verb;
  verb.add_option("--model", text.model,
                  "Name or file (default: " + loop.model + " on 3x32x32, 10 classes)");
  verb.add_option("--image", loop.image, "Channels, height, width, e.g. 3x32x32")
      ->delimiter('x')
      ->expected(3);
  verb.add_option("--classes", loop.classes, "Output classes");
  verb.add_option("--sequence", loop.sequence, "Tokens of a sample");
  verb.add_option("--batch", loop.batch, "Samples of one rank and step")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  verb.add_option("--ranks", loop.ranks, "Processes")
      ->check(CLI::Range(2, 64))
      ->capture_default_str();
  verb.add_option("--network", loop.network,
                  "loopback, or a rate such as 1Gbit (root: network namespaces)")
      ->capture_default_str();
  verb.add_option("--strategies", loop.strategies,
                  "Some of ddp-25MiB,ddp-4MiB,ddp-top-k,ddp-powersgd,fsdp,ps-sync,ps-async,ps-ssp,"
                  "diloco,fedavg (default: all)")
      ->delimiter(',');
  verb.add_option("--staleness-bound", loop.staleness_bound, "Of ps-ssp")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  verb.add_option("--every", loop.every, "diloco and fedavg: steps between exchanges")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  verb.add_option("--participants", text.participants, "fedavg: share of the ranks in a round")
      ->capture_default_str();
  verb.add_option("--slow-rank", text.slow_ranks, "RANK:FACTOR, e.g. 1:1.5")->take_all();
  verb.add_option("--steps", loop.steps, "Measured steps of a repetition")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  verb.add_option("--repetitions", loop.repetitions, "Repetitions of every strategy, in turn")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  verb.add_option("--sizes", loop.sizes, "Sizes of the measured collectives")
      ->capture_default_str();
  verb.add_option(
      "--layers-time", text.layers_time,
      fmt::format("For measuring layers, before each run (default: {:g} s)", loop.layers_seconds));
  verb.add_option(
      "--collectives-time", text.collectives_time,
      fmt::format("For each size of each collective (default: {:g} s)", loop.collective_seconds));
  verb.add_flag("--quick", text.quick,
                "About two minutes: everything is measured once and briefly, unless another option "
                "says otherwise");
  verb.add_option("-o,--output", loop.folder, "Folder for profile, platform and scenario");
  verb.add_flag("--keep-profile", loop.keep_profile, "Do not calibrate: take the one in --output");
  verb.add_option("--max-error", text.max_error,
                  "Fail (exit 4) when a step time is off by more, e.g. 10%");
  verb.footer(
      "Example:\n  lockstep closed-loop --model vgg16 --image 3x64x64 --network 1Gbit -o FOLDER");
  return &verb;
}

ClosedLoopOptions closed_loop_options(const ClosedLoopText& text) {
  ClosedLoopOptions options = text.options;
  const auto given = [&](const char* option) { return text.verb->count(option) > 0; };
  if (given("--model")) {
    options.model = text.model;
  } else {
    if (options.image.empty()) options.image = {3, 32, 32};
    if (options.classes == 0) options.classes = 10;
  }
  if (text.quick) {
    if (!given("--repetitions")) options.repetitions = 1;
    if (!given("--steps")) options.steps = 8;
    if (!given("--sizes")) options.sizes = "1MiB,8MiB,64MiB";
    options.layers_seconds = 2;
    options.collective_seconds = 0.5;
  }
  const auto time = [&](const char* option, const std::string& words, double& seconds) {
    if (words.empty()) return;
    seconds = parse_option(option, words, Dimension::seconds);
    if (seconds > 0 && seconds <= 3600) return;
    throw file_error("", option, fmt::format("{} is not possible", in_quotes(words)),
                     "more than 0 s and at most an hour, for example 5 s");
  };
  time("--layers-time", text.layers_time, options.layers_seconds);
  time("--collectives-time", text.collectives_time, options.collective_seconds);
  for (const std::string& words : text.slow_ranks) {
    const SlowRankText slow = parse_slow_rank(words, options.ranks);
    SlowRank one;
    one.rank = slow.rank;
    one.factor = slow.factor;
    options.slow_ranks.push_back(one);
  }
  options.participants = parse_portion("--participants", text.participants);
  if (options.keep_profile && options.folder.empty()) {
    throw file_error("", "--keep-profile", "needs --output, the folder with the profile");
  }
  if (!text.max_error.empty()) options.max_error = parse_share("--max-error", text.max_error);
  return options;
}

}  // namespace lockstep
