// Options of a real training run, and the report of each of its processes. Includes no LibTorch.
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

// The communication hook, which replaces the plain all-reduce of a bucket.
enum class RealHook { none, fp16, top_k, powersgd };
template <>
struct EnumNames<RealHook> {
  static constexpr std::array names{"none", "fp16-compress", "top-k", "powersgd"};
};

// Whether the hook has an encoding of its own, and stores the values that it has not sent.
inline bool is_coded(RealHook hook) {
  return hook == RealHook::top_k || hook == RealHook::powersgd;
}

inline bool has_server(RunStrategy strategy) {
  return strategy != RunStrategy::ddp && strategy != RunStrategy::fsdp &&
         strategy != RunStrategy::diloco;
}

// Whether ranks make several steps on their own between two exchanges.
inline bool steps_locally(RunStrategy strategy) {
  return strategy == RunStrategy::diloco || strategy == RunStrategy::fedavg;
}

struct TrainOptions {
  RunStrategy strategy = RunStrategy::ddp;
  int ranks = 2;  // ranks that train; a server is an additional process
  std::string model = "resnet50";
  StepOptions step;  // includes batch per rank, precision and input
  OptimizerSpec optimizer;
  std::string device = "cpu";
  int steps = 20;  // measured
  // Steps before the measured ones, because the first steps are slower, and asynchronous workers
  // need several steps until their order repeats.
  int warm_up = 5;
  std::int64_t seed = 1;
  // Data set (read_data_set() in images.hpp); "" = every step has the same random batch.
  std::string data;
  // DDP
  double bucket_bytes = 25 * 1024.0 * 1024.0;
  double first_bucket_bytes = 1024.0 * 1024.0;
  bool gradient_as_bucket_view = false;
  RealHook comm_hook = RealHook::none;
  double hook_fraction = 0.01;  // share of a bucket's elements that top-k sends
  int hook_rank = 1;            // rank of PowerSGD's approximation
  // FSDP: whether units are freed after forward (full_shard). Every repeated block is a unit; all
  // other layers belong to the root.
  bool reshard_after_forward = true;
  // ps-ssp
  int staleness_bound = 3;
  // diloco, fedavg: steps of a rank between two exchanges. `steps` and `warm_up` must be multiples
  // of `every`.
  int every = 4;
  double outer_rate = 0.7, outer_momentum = 0.9;  // diloco
  double participants = 1;                        // fedavg: share of the ranks in a round
  // Injected slowness, as in scenarios (slowness.hpp): a factor by rank, and the mean of additional
  // random slowness in each step.
  std::map<int, double> slow_ranks;
  double jitter = 0;
};

// fedavg: ranks in a round.
inline int drawn_ranks(const TrainOptions& options) {
  return std::max(1, static_cast<int>(std::lround(options.participants * options.ranks)));
}

// fedavg: number of rounds in which each rank makes `steps` steps on average.
inline std::int64_t rounds_of(const TrainOptions& options, int steps) {
  const int in_a_round = options.every * drawn_ranks(options);
  return (std::int64_t{1} * steps * options.ranks + in_a_round - 1) / in_a_round;
}

// The place of one process in a run.
struct RankPlace {
  int rank = 0;  // options.ranks = the parameter server
  std::string store_file;
  std::string own_address = "127.0.0.1";
  std::string result_file;
};

struct RankStep {
  double begin = 0, end = 0;  // seconds on the host's monotonic clock, common to all processes
  double forward = 0;         // until the loss is computed; includes waits for gathered parameters
  double backward = 0;        // until all gradients are ready; includes communication
  // rest of the step: the update, and with a server or local steps also the exchange
  double optimizer = 0;
  double loss = 0;
  bool skipped = false;  // loss scaling skipped the update because of infinite gradients
  // CPU seconds of forward and backward, for a server's worker or a rank of diloco on a CPU; 0 =
  // not known.
  double compute = 0;
};

struct ServerUpdate {
  double time = 0;  // end of the update, on the same clock
  int worker = 0;   // worker of the push; for a synchronous update, of the last push
  std::int64_t staleness = 0;
};

struct RankReport {
  int rank = 0;
  std::vector<RankStep> steps;  // only measured steps
  MeasuredMemory memory;
  std::vector<ServerUpdate> updates;  // only of a server: updates after the warm-up
  std::vector<ScheduledPush> pushes;  // only of a server: every push, in the order of arrival
  // Images of this rank's part of the test set; 0, 0 = no test.
  std::int64_t test_right = 0, test_judged = 0;
  std::vector<double> checksum;  // checksum of the final parameters
};

std::string to_json(const RankReport& report);
RankReport rank_report_from_json(const std::string& text);  // throws std::runtime_error

// Reads the data set of options.data and throws ConfigError if it does not fit the model's step.
void check_data(const TrainOptions& options, const TrainingStep& step);

// Runs one process of a training run to its end and writes its report. Throws OutOfDeviceMemory if
// LibTorch cannot allocate memory.
void run_rank(const TrainOptions& options, const RankPlace& place);

}  // namespace lockstep
