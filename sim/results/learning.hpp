// How a run learns: the options of its training, and the summary of its learning curves over
// several seeds. Used for scenarios with `convergence`.
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

// The place of SGD's momentum: the server, or each worker.
enum class MomentumPlace { server, worker };
template <>
struct EnumNames<MomentumPlace> {
  static constexpr std::array names{"server", "worker"};
};

enum class RateSchedule {
  constant,
  cosine,  // falls to zero at the end
  steps,   // a tenth after half of the run, a hundredth after three quarters
};
template <>
struct EnumNames<RateSchedule> {
  static constexpr std::array names{"constant", "cosine", "steps"};
};

// How the learning rate depends on the number of workers.
enum class RateScaling { none, linear, square_root };
template <>
struct EnumNames<RateScaling> {
  static constexpr std::array names{"none", "linear", "square_root"};
};

// The parameters with which a network begins training.
enum class Initialisation {
  layers,   // PyTorch's default: nn.Linear and nn.Conv2d draw from +-1 / sqrt(fan in)
  kaiming,  // torchvision's VGG and ResNet: convolutions normal with variance 2 / fan out, biases 0
};
template <>
struct EnumNames<Initialisation> {
  static constexpr std::array names{"layers", "kaiming"};
};

// Batch norm's running statistics in the network that is evaluated.
enum class RunningStatistics {
  first_worker,  // the values of rank 0, which saves the model
  untouched,     // mean 0, variance 1, because workers push gradients but no buffers to a server
};
template <>
struct EnumNames<RunningStatistics> {
  static constexpr std::array names{"first_worker", "untouched"};
};

// Accuracy of the shared parameters at one moment, for one seed.
struct AccuracyPoint {
  double time = 0;           // simulated seconds
  double epochs = 0;         // passes over the data by all workers together
  std::int64_t updates = 0;  // number of updates so far of the first message's parameters
  double accuracy = 0;       // share of the test set that is classified correctly
  double loss = 0;           // mean over the training batches since the previous point
};
using AccuracyCurve = std::vector<AccuracyPoint>;

// The outcome of training one point. If its processes failed, there is no accuracy, and the
// warnings give the reason.
struct TrainedPoint {
  std::optional<Accuracy> accuracy;
  std::vector<std::string> warnings;
};

// One point whose order of updates is known. Points with equal keys learn the same, even if their
// durations differ. `train` throws ConfigError if the data or the model cannot be used.
struct PreparedTraining {
  std::string key;
  std::function<TrainedPoint()> train;
};

// Summarises one learning curve per seed, except learning rate and momentum, which the caller sets.
// `dollars_per_second` is the price of all GPUs together; 0 = no price.
Accuracy accuracy_of(const std::vector<AccuracyCurve>& curves, int diverged,
                     std::optional<double> target, double dollars_per_second);

// 95th percentile of Student's t with `degrees` degrees of freedom. With a probability of 90 %, the
// true mean lies within this number of standard errors of the measured one. 0 if there are no
// degrees of freedom.
double student_t95(int degrees);

// Mean and 90 % interval.
// REQUIRES: `values` has one value per seed, at least one, none negative. With a single seed both
// ends of the interval are its value.
SeedMean mean_of_seeds(const std::vector<double>& values);

// The seconds or dollars to the target, such as "12.3 s (11.9 s .. 12.7 s)". Other forms: "12.3 s
// with one seed", and "at most 12.3 s" if a seed reached the target by its first evaluation.
// REQUIRES: all seeds of the point reach the target.
std::string seconds_to_target_text(const Accuracy& accuracy);
std::string dollars_to_target_text(const Accuracy& accuracy);

// Two members of Accuracy, the mean and the interval of the seconds or dollars that a point needs
// to reach the target.
struct SpentToTarget {
  double Accuracy::*mean = nullptr;
  std::optional<Interval> Accuracy::*interval = nullptr;
};
inline constexpr SpentToTarget seconds_to_target{&Accuracy::seconds_to_target,
                                                 &Accuracy::seconds_interval};
inline constexpr SpentToTarget dollars_to_target{&Accuracy::dollars_to_target,
                                                 &Accuracy::dollars_interval};

// The prediction that spends least on average, among the predictions whose seeds all reach the
// target. `as_good` lists the predictions that the seeds cannot distinguish from it, because their
// intervals overlap. A bound ("at most") counts as an interval that begins at 0. No value if no
// prediction reaches a target with all seeds or, for dollars, none of these has a price.
struct LeastToTarget {
  std::size_t best = 0;
  std::vector<std::size_t> as_good;  // ascending
};
std::optional<LeastToTarget> least_to_target(const std::vector<Prediction>& predictions,
                                             const SpentToTarget& spent);

// "sync on 4 GPUs reaches 85.0 % first, after 12.3 s (11.9 s .. 12.7 s) (may be as good, for the
// intervals overlap: async on 4 GPUs)", followed by the cheapest point. If no point reaches the
// target with every seed, the sentence says only this. "" if no point has a target.
std::string target_sentence(const ResultRecord& record);

}  // namespace lockstep
