// Options of the commands of the measuring half. They are declared separately and without LibTorch,
// so that `lockstep train --help` needs only the simulator.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/options.hpp"
#include "costs/hook_work.hpp"
#include "runs/train_options.hpp"

namespace lockstep {

// The options of communication hooks that compress.
struct HookText {
  std::string fraction = "1%";
  int rank = 1;

  void add_to(CLI::App& verb);
  HookSettings settings(int ranks) const;  // throws ConfigError
};

// calibrate
struct LayersText {
  std::string device = "cpu", device_file, models, batches = "8", precisions = "fp32";
  std::string folder;
  int ranks = 1;
  std::string width = "2%", most_time = "60 s", pause = "0 s";
  int minimum = 10, maximum = 100;
  std::vector<std::string> comm_hooks;
  HookText hook;
  bool layers_only = false;
  InputText input;
  OptimizerText optimizer;
};

// calibrate collectives
struct CollectivesText {
  int ranks = 2;
  std::string sizes = "4KiB..64MiB", network = "loopback", collectives, backend = "gloo";
  std::string folder, device_file = "cpu-core";
  double seconds = 8;
  bool json = false;
};

struct TrainText {
  TrainOptions options;
  std::string strategy = "ddp", precision = "fp32";
  std::string bucket = "25 MiB", first_bucket = "1 MiB", network = "loopback";
  std::string comm_hook = "none";
  HookText hook;
  std::vector<std::string> slow_ranks;
  std::string jitter = "0%", participants = "100%";
  bool shard_grad_op = false, replay = false, json = false, csv = false;
  InputText input;
  OptimizerText optimizer;
  // Options of a child process: its rank, and its files.
  int rank = -1;
  std::string store, address = "127.0.0.1", result;
  std::vector<std::string> reports;  // report files of the ranks, for a replay
};

// Each adds its command to `parent` and returns it.
CLI::App* declare_layers(CLI::App& parent, LayersText& text);
CLI::App* declare_collectives(CLI::App& calibrate, CollectivesText& text);
CLI::App* declare_train(CLI::App& parent, TrainText& text);

}  // namespace lockstep
