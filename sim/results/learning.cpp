// Averages learning curves over seeds, with intervals by Student's t. The time to a target is
// interpolated linearly between two evaluations.
#include "results/learning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/statistics.hpp"
#include "core/units.hpp"
#include "results/cells.hpp"
#include "results/sentences.hpp"

namespace lockstep {

namespace {

// Mean of values that are shares, so the interval ends at 1 at the latest.
SeedMean mean_share(const std::vector<double>& values) {
  SeedMean result = mean_of_seeds(values);
  result.interval.high = std::min(1.0, result.interval.high);
  return result;
}

// Simulated time at which a curve first reaches the target, interpolated between two evaluations.
// If the first evaluation already reaches it, its time is an upper bound. Nothing if the curve
// never reaches the target.
std::optional<double> reaches(const AccuracyCurve& curve, double target) {
  for (std::size_t i = 0; i < curve.size(); ++i) {
    if (curve[i].accuracy < target) continue;
    if (i == 0) return curve[i].time;
    const double share =
        (target - curve[i - 1].accuracy) / (curve[i].accuracy - curve[i - 1].accuracy);
    return curve[i - 1].time + share * (curve[i].time - curve[i - 1].time);
  }
  return std::nullopt;
}

// A mean with its interval, or as an upper bound, or with the remark that there is one seed.
std::string with_interval(const Accuracy& accuracy, std::string (*text)(double), double mean,
                          const std::optional<Interval>& interval) {
  if (accuracy.reached_before > 0) return "at most " + text(mean);
  if (accuracy.seeds == 1) return text(mean) + " with one seed";
  if (!interval) return text(mean);
  return fmt::format("{} ({} .. {})", text(mean), text(interval->low), text(interval->high));
}

}  // namespace

// Abramowitz and Stegun, 26.7.3 and 26.7.4: with t = sqrt(n) tan(theta), the probability of a value
// between -t and t is a finite sum of powers of cos(theta), for a whole number n of degrees of
// freedom. The function inverts it by bisection over theta.
double student_t95(int degrees) {
  if (degrees <= 0) return 0;
  // The probability of a value between -t and t, with t = sqrt(degrees) tan(theta).
  const auto within = [degrees](double theta) {
    const bool odd = degrees % 2 == 1;
    const double sine = std::sin(theta), cosine = std::cos(theta);
    double term = odd ? cosine : 1, sum = degrees == 1 ? 0 : term;
    for (int power = odd ? 3 : 2; power <= degrees - 2; power += 2) {
      term *= cosine * cosine * (power - 1) / power;
      sum += term;
    }
    return odd ? 2 / std::numbers::pi * (theta + sine * sum) : sine * sum;
  };
  double low = 0, high = std::numbers::pi / 2;
  for (int halving = 0; halving < 60; ++halving) {
    const double middle = (low + high) / 2;
    (within(middle) < 0.9 ? low : high) = middle;
  }
  return std::sqrt(static_cast<double>(degrees)) * std::tan(low);
}

SeedMean mean_of_seeds(const std::vector<double>& values) {
  const double centre = mean(values);
  const double half = student_t95(static_cast<int>(values.size()) - 1) *
                      standard_deviation(values) / std::sqrt(static_cast<double>(values.size()));
  return {centre, {std::max(0.0, centre - half), centre + half}};
}

Accuracy accuracy_of(const std::vector<AccuracyCurve>& curves, int diverged,
                     std::optional<double> target, double dollars_per_second) {
  Accuracy result;
  result.seeds = static_cast<int>(curves.size());
  result.diverged = diverged;
  // Accuracy at the end of each curve. The curves are averaged point by point, up to the end of the
  // shortest curve.
  std::vector<double> last;
  std::size_t shortest = curves.empty() ? 0 : curves.front().size();
  for (const AccuracyCurve& curve : curves) {
    shortest = std::min(shortest, curve.size());
    if (!curve.empty()) last.push_back(curve.back().accuracy);
  }
  const SeedMean end = mean_share(last);
  result.last = end.mean;
  result.last_interval = end.interval;
  for (std::size_t i = 0; i < shortest; ++i) {
    std::vector<double> values, times;
    for (const AccuracyCurve& curve : curves) {
      values.push_back(curve[i].accuracy);
      times.push_back(curve[i].time);
    }
    const SeedMean here = mean_share(values);
    result.curve.push_back({mean(times), curves.front()[i].epochs, here.mean, here.interval});
  }
  if (!target) return result;
  result.target = *target;
  // Time to the target: the mean over the seeds that reach it. There is an interval only if every
  // seed reaches it after its first evaluation.
  std::vector<double> seconds;
  for (const AccuracyCurve& curve : curves) {
    const auto time = reaches(curve, *target);
    if (!time) continue;
    seconds.push_back(*time);
    result.reached_before += curve.front().accuracy >= *target;
  }
  result.reached = static_cast<int>(seconds.size());
  if (seconds.empty()) return result;
  const SeedMean until = mean_of_seeds(seconds);
  result.seconds_to_target = until.mean;
  result.dollars_to_target = until.mean * dollars_per_second;
  if (result.reached < result.seeds || result.reached_before > 0) return result;
  const Interval& seen = until.interval;
  result.seconds_interval = seen;
  if (dollars_per_second > 0) {
    result.dollars_interval = {seen.low * dollars_per_second, seen.high * dollars_per_second};
  }
  return result;
}

std::string seconds_to_target_text(const Accuracy& a) {
  return with_interval(a, seconds_text, a.seconds_to_target, a.seconds_interval);
}

std::string dollars_to_target_text(const Accuracy& a) {
  return with_interval(a, dollars_text, a.dollars_to_target, a.dollars_interval);
}

std::optional<LeastToTarget> least_to_target(const std::vector<Prediction>& predictions,
                                             const SpentToTarget& spent) {
  // Only points whose seeds all reach the target are compared.
  const auto known = [&](const Prediction& p) {
    return p.accuracy && p.accuracy->target && p.accuracy->reached == p.accuracy->seeds &&
           (*p.accuracy).*spent.mean > 0;
  };
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    if (!known(predictions[i])) continue;
    if (!best ||
        (*predictions[i].accuracy).*spent.mean < (*predictions[*best].accuracy).*spent.mean)
      best = i;
  }
  if (!best) return std::nullopt;
  const auto interval = [&](std::size_t i) {
    const Accuracy& a = *predictions[i].accuracy;
    return (a.*spent.interval).value_or(Interval{0, a.*spent.mean});
  };
  LeastToTarget least{*best, {}};
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    if (i == *best || !known(predictions[i])) continue;
    if (interval(i).low <= interval(*best).high) least.as_good.push_back(i);
  }
  return least;
}

std::string target_sentence(const ResultRecord& record) {
  std::optional<double> target;
  for (const Prediction& p : record.predictions) {
    if (p.accuracy && p.accuracy->target) target = p.accuracy->target;
  }
  if (!target) return "";
  const auto first = least_to_target(record.predictions, seconds_to_target);
  if (!first) return fmt::format("No point reaches {} with every seed.", percent(*target));
  const auto name = [&](const LeastToTarget& least) {
    const Prediction& p = record.predictions[least.best];
    return point_text(p.strategy, p.gpus);
  };
  // The points that the seeds cannot distinguish from the best one.
  const auto doubt = [&](const LeastToTarget& least) -> std::string {
    if (least.as_good.empty()) return "";
    PointList others;
    for (const std::size_t i : least.as_good) {
      others.add(record.predictions[i].strategy, record.predictions[i].gpus);
    }
    return fmt::format(" (may be as good, for the intervals overlap: {})", others.text());
  };
  const auto accuracy = [&](const LeastToTarget& least) -> const Accuracy& {
    return *record.predictions[least.best].accuracy;
  };
  std::string sentence =
      fmt::format("{} reaches {} first, after {}{}", name(*first), percent(*target),
                  seconds_to_target_text(accuracy(*first)), doubt(*first));
  if (const auto cheapest = least_to_target(record.predictions, dollars_to_target)) {
    sentence += fmt::format("; the cheapest is {}, at {}{}",
                            cheapest->best == first->best ? "the same" : name(*cheapest),
                            dollars_to_target_text(accuracy(*cheapest)), doubt(*cheapest));
  }
  return sentence + ".";
}

}  // namespace lockstep
