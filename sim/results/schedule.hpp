// The order in which a run updates its parameters: for each update, its worker, the version of the
// parameters that the worker computed on, and the time of the update. Simulated strategies write
// it, and the replay (calibrate/convergence) trains a real network in this order. Two asynchronous
// workers, for example, give these pushes:
//
//     time  worker  message  read  applied
//     0.10       0        0     0        1
//     0.12       1        0     0        2    computed on version 0, one update late
//     0.20       0        0     1        3
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/fields.hpp"

namespace lockstep {

// How workers exchange values with the shared parameters.
enum class Exchange {
  gradients,  // the shared parameters step along the mean of an update's gradients
  // Local SGD: the shared parameters become the mean of the workers' parameters (fact 88).
  parameters,
  // EASGD: a worker and the shared parameters move towards each other by a share `elasticity` (fact
  // 88).
  elastic,
  // The shared parameters step along the mean difference between the parameters of an update's
  // workers and the parameters that they read (McMahan et al. 2017, algorithm 1, in the form of
  // Reddi et al. 2021).
  differences,
  // There are no shared parameters: workers step along their own gradients and average with peers
  // at some steps.
  gossip,
};
template <>
struct EnumNames<Exchange> {
  static constexpr std::array names{"gradients", "parameters", "elastic", "differences", "gossip"};
};

// How the weight of a gradient depends on `staleness`, the number of versions by which its
// parameters are old.
enum class Weighting {
  none,         // independent of the staleness
  staleness,    // 1 / max(1, staleness): the staleness-aware rate (fact 84)
  age,          // (1 + staleness)^-exponent: polynomial aging (Xie et al. 2019, FedAsync, 5.2)
  compensated,  // adds lambda g*g*(w_now - w_read): DC-ASGD (fact 85), DC-ASGD-c of its paper
  compensated_adaptive,  // the same with lambda over the root of g*g's moving mean: DC-ASGD-a
};
template <>
struct EnumNames<Weighting> {
  static constexpr std::array names{"none", "staleness", "age", "compensated",
                                    "compensated-adaptive"};
};

inline bool compensates(Weighting weighting) {
  return weighting == Weighting::compensated || weighting == Weighting::compensated_adaptive;
}

// The form in which a worker pushes its gradients.
enum class PushedAs {
  whole,
  halves,  // rounded to IEEE half precision
  // Only the largest elements of each tensor, by absolute value. The worker adds the other elements
  // to its next gradients (error feedback: Stich et al. 2018, "Sparsified SGD with Memory",
  // algorithm 1).
  largest,
};
template <>
struct EnumNames<PushedAs> {
  static constexpr std::array names{"whole", "halves", "largest"};
};

// The number format of gradients that synchronous ranks send.
enum class GradientElement { fp32, fp16, bf16 };

// Compressed messages of synchronous ranks: DDP's communication hooks (strategies/ddp/options.hpp).
enum class Compression { none, powersgd, top_k, random_k, sign, qsgd, onebit };

// How synchronous ranks form the mean of their gradients, with rounding and compression.
struct CompressedMean {
  // Each gradient is rounded to this format. Without compression, the sum is also rounded to it.
  GradientElement element = GradientElement::fp32;
  Compression compression = Compression::none;
  double fraction = 1;  // share of a bucket's elements that top_k and random_k send, rounded up
  int rank = 1;         // rank of the matrices of powersgd
  // Parameters that form one bucket, if the compression depends on it; empty = all parameters
  // together.
  std::vector<std::vector<int>> buckets;

  bool is_plain() const {
    return element == GradientElement::fp32 && compression == Compression::none;
  }
};

// Elements [first, first + count) of the model's parameter number `parameter`.
struct ParameterPiece {
  int parameter = 0;
  std::int64_t first = 0, count = 0;
};

// One message of a worker at the time of its update. In gossip, one step of a worker.
struct ScheduledPush {
  double time = 0;  // seconds from the start of the run to the update
  int worker = 0;
  int message = 0;        // index into UpdateSchedule::messages
  std::int64_t read = 0;  // version of the message's parameters that the gradient was computed on
  std::int64_t applied = 0;  // version that the update made; 0 = dropped (backup worker)
};

// Gossip: a set of workers that take the mean of their own and their peers' parameters, all at the
// same time (Lian et al. 2017, algorithm 1, with equal weights).
struct ScheduledAverage {
  struct Mix {
    int worker = 0;
    std::vector<int> peers;
  };
  std::int64_t steps_before = 0;  // index into UpdateSchedule::pushes
  std::vector<Mix> mixes;
};

// All updates of a run, and the rules by which they are applied.
struct UpdateSchedule {
  int workers = 1;
  Exchange exchange = Exchange::gradients;
  // Batches of a worker between two pushes. The worker takes a local step along each batch; with
  // Exchange::gradients it adds up their gradients instead.
  int local_steps = 1;
  double elasticity = 0;
  Weighting weighting = Weighting::none;
  double weighting_parameter = 0;  // exponent of `age`, lambda of both `compensated`
  PushedAs pushed_as = PushedAs::whole;
  double largest_share = 1;  // share of a tensor's elements that `largest` pushes, rounded up
  // Local SGD and differences: the shared parameters step along the mean distance by SGD with
  // Nesterov's momentum (DiLoCo); 0 = they move by the whole distance.
  double outer_rate = 0, outer_momentum = 0;
  bool average_state = false;  // local SGD: also replaces the workers' optimizer state by its mean
  CompressedMean mean;         // for workers that step together, with one message for everything
  // Differences: each worker's number of samples, relative to the average. A worker has its own
  // part of the data; its number of batches and its weight in a mean are proportional to it. Empty
  // = all workers draw from all samples alike.
  std::vector<double> shares;
  // Concentration of the Dirichlet distribution that gives each worker its classes; 0 = all alike.
  double class_concentration = 0;
  // Contents of each message; empty: one message with everything.
  std::vector<std::vector<ParameterPiece>> messages;
  // Pushes in the order in which they were applied. Pushes with equal message and version belong to
  // one update. Every message starts at version 0, and its updates make versions 1, 2, 3, ... In
  // gossip there is one push for each step of a worker, and `read` counts the averages before the
  // step's gradient is computed. The gradient is applied to the parameters that the averages before
  // the step have left.
  std::vector<ScheduledPush> pushes;
  std::vector<ScheduledAverage> averages;  // in order

  // Batches of this worker between two pushes: local_steps, with Exchange::differences multiplied
  // by its share of the data.
  int steps_of(int worker) const;
  int message_count() const { return messages.empty() ? 1 : static_cast<int>(messages.size()); }
};

// Writes the schedule to a file; throws OutputError if that fails.
void write_schedule(const UpdateSchedule& schedule, const std::string& path);
// Reads a file of write_schedule(). Throws std::runtime_error if the file cannot be read or a push
// is damaged or impossible, and nlohmann::json::exception if the first line is no schedule.
UpdateSchedule read_schedule(const std::string& path);

// The schedule of synchronous ranks (DDP, FSDP). `workers` ranks make `updates` updates together,
// the first after `first_seconds`, each further one `seconds` later.
UpdateSchedule synchronous_schedule(int workers, std::int64_t updates, double first_seconds,
                                    double seconds);

// Changes the schedule to ZeRO-Offload's delayed update (Ren et al. 2021, section 5.2), from the
// first step on: each step computes on the parameters before the update that runs at the same time.
void delay_updates(UpdateSchedule& schedule);

}  // namespace lockstep
