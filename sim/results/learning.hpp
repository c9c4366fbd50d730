// Learning of a run: its options, and the summary of several seeds. Used by scenarios with
// `convergence`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/fields.hpp"
#include "results/record.hpp"

namespace lockstep {

// Where SGD's momentum is kept: by the server, or by each worker.
enum class MomentumPlace { server, worker };
template <>
struct EnumNames<MomentumPlace> {
  static constexpr std::array names{"server", "worker"};
};

enum class RateSchedule {
  constant,
  cosine,  // to zero at the end
  steps,   // a tenth after half of the run, a hundredth after three quarters
};
template <>
struct EnumNames<RateSchedule> {
  static constexpr std::array names{"constant", "cosine", "steps"};
};

// The dependence of the learning rate on the number of workers.
enum class RateScaling { none, linear, square_root };
template <>
struct EnumNames<RateScaling> {
  static constexpr std::array names{"none", "linear", "square_root"};
};

// Parameters that a network begins with.
enum class Initialisation {
  layers,   // each layer's own: nn.Linear and nn.Conv2d draw from +-1 / sqrt(fan in)
  kaiming,  // torchvision's VGG, ResNet: convolutions normal, of variance 2 / fan out, biases 0
};
template <>
struct EnumNames<Initialisation> {
  static constexpr std::array names{"layers", "kaiming"};
};

// Batch norm's running statistics in the evaluated network.
enum class RunningStatistics {
  first_worker,  // as rank 0 saves them
  untouched,     // mean 0, variance 1: a server is pushed gradients, and no buffers
};
template <>
struct EnumNames<RunningStatistics> {
  static constexpr std::array names{"first_worker", "untouched"};
};

// Accuracy of one seed's shared parameters at some moment.
struct AccuracyPoint {
  double time = 0;           // simulated seconds
  double epochs = 0;         // of all workers together
  std::int64_t updates = 0;  // applied so far to the first message
  double accuracy = 0;       // share of the test set
  double loss = 0;           // mean over the training batches since the previous point
};
using AccuracyCurve = std::vector<AccuracyPoint>;

// The outcome of training one point: no accuracy if its processes failed; the warnings give the
// reason.
struct TrainedPoint {
  std::optional<Accuracy> accuracy;
  std::vector<std::string> warnings;
};

// One point with a known order of updates. Points with equal keys learn the same, even if their
// durations differ. `train` throws ConfigError for data or a model that cannot be used.
struct PreparedTraining {
  std::string key;
  std::function<TrainedPoint()> train;
};

// Summarises one learning curve per seed. `dollars_per_second` of all GPUs together.
Accuracy accuracy_of(const std::vector<AccuracyCurve>& curves, int diverged,
                     std::optional<double> target, double dollars_per_second);

// 95th percentile of Student's t with so many degrees of freedom: a mean lies within that many
// standard errors with 90 %.
double student_t95(int degrees);

// `values`: one value per seed, at least one, not negative. One seed gives its figure without an
// interval.
SeedMean mean_of_seeds(const std::vector<double>& values);

// "12.3 s (11.9 s .. 12.7 s)", likewise in dollars, for a point whose seeds all reach the target.
std::string seconds_to_target_text(const Accuracy& accuracy);
std::string dollars_to_target_text(const Accuracy& accuracy);

// Seconds or dollars until the target: Accuracy's mean and its interval.
struct SpentToTarget {
  double Accuracy::*mean = nullptr;
  std::optional<Interval> Accuracy::*interval = nullptr;
};
inline constexpr SpentToTarget seconds_to_target{&Accuracy::seconds_to_target,
                                                 &Accuracy::seconds_interval};
inline constexpr SpentToTarget dollars_to_target{&Accuracy::dollars_to_target,
                                                 &Accuracy::dollars_interval};

// The prediction with the smallest mean cost among the predictions whose seeds all reach the
// target, and the predictions that the seeds cannot distinguish from it: their intervals overlap. A
// bound ("at most") is an interval that begins at 0. No value if no prediction reaches a target or
// has a price.
struct LeastToTarget {
  std::size_t best = 0;
  std::vector<std::size_t> as_good;  // ascending
};
std::optional<LeastToTarget> least_to_target(const std::vector<Prediction>& predictions,
                                             const SpentToTarget& spent);

// "sync on 4 GPUs reaches 85.0 % first, after 12.3 s (11.9 s .. 12.7 s) (may be as good, for the
// intervals overlap: async on 4 GPUs)", and the cheapest point; "" if no point has a target.
std::string target_sentence(const ResultRecord& record);

}  // namespace lockstep
