// Options of a real training run, and the report of each of its processes. No LibTorch.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/fields.hpp"
#include "costs/optimizer.hpp"
#include "probes/layers.hpp"
#include "results/schedule.hpp"
#include "workload/model.hpp"

namespace lockstep {

enum class RunStrategy { ddp, fsdp, ps_sync, ps_async, ps_ssp, diloco, fedavg };
template <>
struct EnumNames<RunStrategy> {
  static constexpr std::array names{"ddp",    "fsdp",   "ps-sync", "ps-async",
                                    "ps-ssp", "diloco", "fedavg"};
};

// In place of the plain all-reduce of a bucket.
enum class RealHook { none, fp16, top_k, powersgd };
template <>
struct EnumNames<RealHook> {
  static constexpr std::array names{"none", "fp16-compress", "top-k", "powersgd"};
};

// Whether the hook keeps unsent values.
inline bool is_coded(RealHook hook) {
  return hook == RealHook::top_k || hook == RealHook::powersgd;
}

inline bool has_server(RunStrategy strategy) {
  return strategy != RunStrategy::ddp && strategy != RunStrategy::fsdp &&
         strategy != RunStrategy::diloco;
}

// Whether ranks step along each of their batches, and meet now and then.
inline bool steps_locally(RunStrategy strategy) {
  return strategy == RunStrategy::diloco || strategy == RunStrategy::fedavg;
}

struct TrainOptions {
  RunStrategy strategy = RunStrategy::ddp;
  int ranks = 2;  // that train; a parameter server is one more process
  std::string model = "resnet50";
  StepOptions step;  // batch per rank, precision, input
  OptimizerSpec optimizer;
  std::string device = "cpu";
  int steps = 20;  // measured
  // Steps before them: the first are cold, and asynchronous workers need some more to fall into
  // their pattern.
  int warm_up = 5;
  std::int64_t seed = 1;
  // "synthetic", or a folder (images.hpp); "" = one random batch, again and again.
  std::string data;
  // DDP
  double bucket_bytes = 25 * 1024.0 * 1024.0;
  double first_bucket_bytes = 1024.0 * 1024.0;
  bool gradient_as_bucket_view = false;
  RealHook comm_hook = RealHook::none;
  double hook_fraction = 0.01;  // of a bucket's elements that top-k sends
  int hook_rank = 1;            // of PowerSGD's approximation
  // FSDP: every repeated block is a unit, the rest the root's; full_shard frees after forward
  bool reshard_after_forward = true;
  // ps-ssp
  int staleness_bound = 3;
  // diloco, fedavg: steps of a rank between two exchanges. Their steps and warm-up are whole rounds
  // of `every` steps.
  int every = 4;
  double outer_rate = 0.7, outer_momentum = 0.9;  // diloco
  double participants = 1;                        // fedavg: share of the ranks in a round
  // Injected slowness, as in scenarios: all device work of a rank takes `factor` times as long, and
  // in every step 1 + Exp(jitter) times.
  std::map<int, double> slow_ranks;
  double jitter = 0;
};

// fedavg: ranks in a round.
inline int drawn_ranks(const TrainOptions& options) {
  return std::max(1, static_cast<int>(std::lround(options.participants * options.ranks)));
}

// fedavg: rounds in which the ranks make so many steps on average.
inline std::int64_t rounds_of(const TrainOptions& options, int steps) {
  const int in_a_round = options.every * drawn_ranks(options);
  return (std::int64_t{1} * steps * options.ranks + in_a_round - 1) / in_a_round;
}

// Where one process of a run stands.
struct RankPlace {
  int rank = 0;  // options.ranks = the parameter server
  std::string store_file;
  std::string own_address = "127.0.0.1";
  std::string result_file;
};

struct RankStep {
  double begin = 0, end = 0;  // seconds on the host's monotonic clock, common to all processes
  double forward = 0;         // until the loss is there, waiting for gathered parameters included
  double backward = 0;        // until all gradients are there, communication included
  // the update; push, wait and pull; or the ranks' exchange after several steps
  double optimizer = 0;
  double loss = 0;
  bool skipped = false;  // the update, because gradients had infinities (loss scaling)
  // A server's worker or a rank of diloco on a CPU: CPU time of forward and backward, in which it
  // does nothing else; 0 = not known.
  double compute = 0;
};

struct ServerUpdate {
  double time = 0;  // when it had been applied, on the same clock
  int worker = 0;   // whose push; the last one of a synchronous update
  std::int64_t staleness = 0;
};

struct RankReport {
  int rank = 0;
  std::vector<RankStep> steps;  // measured ones only
  MeasuredMemory memory;
  std::vector<ServerUpdate> updates;  // the server's, after the warm-up
  std::vector<ScheduledPush> pushes;  // the server's: every push, in the order of updates
  std::int64_t test_right = 0, test_judged = 0;  // images of its share of the test set; 0, 0 = none
  std::vector<double> checksum;                  // of the final parameters: ranks must agree
};

std::string to_json(const RankReport& report);
RankReport rank_report_from_json(const std::string& text);  // throws std::runtime_error

// Reads the data set of options.data and throws ConfigError if it does not fit the model's step.
void check_data(const TrainOptions& options, const TrainingStep& step);

// Runs one process of a training run to its end and writes its report. Throws OutOfDeviceMemory
// when LibTorch finds no memory.
void run_rank(const TrainOptions& options, const RankPlace& place);

}  // namespace lockstep
