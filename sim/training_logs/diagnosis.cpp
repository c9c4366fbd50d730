// Computes robust statistics of step times: medians and quantiles, which a few slow steps do not
// change, and deviations from them. docs/import-metrics.md ("Method") has the thresholds.
#include "training_logs/diagnosis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/errors.hpp"
#include "core/units.hpp"

namespace lockstep {
namespace {

// A step counts as slow if it takes more than this many medians.
constexpr double slow = 1.5;

// The quantile at `share` (0 to 1), interpolated linearly between two values.
// REQUIRES: `values` is not empty.
double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

std::vector<double> seconds_of(const std::vector<StepTime>& steps) {
  std::vector<double> seconds;
  for (const StepTime& step : steps) seconds.push_back(step.seconds);
  return seconds;
}

std::string time_text(double seconds) {
  return human(seconds, Dimension::seconds);
}

// The step times that one kind of statement in the log gives.
struct Source {
  const char* name;
  std::vector<StepTime> steps;
};

// The step times of a log, from the best source that it has: stated times, otherwise rates,
// otherwise the times at which lines were written.
Source times_of(const TrainingLog& log, double tokens, double samples, std::int64_t gpus) {
  Source said{"its times", {}}, rates{"its rates", {}}, clock{"its clock", {}};
  // Tokens of a step on one GPU or on all GPUs, whichever the log's rate counts; 0 = not known.
  const double share = log.per_gpu && gpus > 0 ? tokens / static_cast<double>(gpus)
                       : log.per_gpu           ? 0
                                               : tokens;
  const double batch = samples > 0 ? samples : log.global_batch.value_or(0);
  for (std::size_t i = 0; i < log.entries.size(); ++i) {
    const LogEntry& entry = log.entries[i];
    // The entry covers the steps after the previous entry.
    const std::int64_t before = i == 0 ? entry.step - 1 : log.entries[i - 1].step;
    StepTime time{before + 1, entry.step, 0};
    const auto add = [&](Source& source, double seconds) {
      if (!(seconds > 0) || !std::isfinite(seconds)) return;
      time.seconds = seconds;
      source.steps.push_back(time);
    };
    if (entry.seconds) add(said, *entry.seconds);
    if (entry.tokens_per_second && share > 0)
      add(rates, share / *entry.tokens_per_second);
    else if (entry.samples_per_second && batch > 0)
      add(rates, batch / *entry.samples_per_second);
    // The clock gives the mean over the steps between two lines.
    const bool follows = i > 0 && entry.clock && log.entries[i - 1].clock && entry.step > before;
    if (follows)
      add(clock,
          (*entry.clock - *log.entries[i - 1].clock) / static_cast<double>(entry.step - before));
  }
  if (!said.steps.empty()) return said;
  if (!rates.steps.empty()) return rates;
  return clock;
}

// Removes the entries before the first that takes at most 1.1 medians. If these are more than half
// of the log, the run is not steady, and none is removed.
void leave_out_warm_up(SteadySteps& steps) {
  if (steps.all.size() < 2) return;
  const double median = quantile(seconds_of(steps.all), 0.5);
  std::size_t first = 0;
  while (first + 1 < steps.all.size() && steps.all[first].seconds > 1.1 * median) ++first;
  // The first step allocates, compiles and connects, however long it takes.
  if (first == 0 && steps.all.front().last <= 1) first = 1;
  if (first > steps.all.size() / 2) return;
  if (first > 0) steps.warm_up = steps.all[first - 1].last;
  steps.all.erase(steps.all.begin(), steps.all.begin() + static_cast<std::ptrdiff_t>(first));
}

// The period of slow steps, in steps; 0 if there is none. There is a period if eight in ten of the
// distances between slow steps are a multiple of the median distance.
std::int64_t period_of(const std::vector<const StepTime*>& slow_steps) {
  if (slow_steps.size() < 3) return 0;
  std::vector<double> distances;
  for (std::size_t i = 1; i < slow_steps.size(); ++i)
    distances.push_back(static_cast<double>(slow_steps[i]->last - slow_steps[i - 1]->last));
  const double usual = quantile(distances, 0.5);
  const auto fits = std::count_if(distances.begin(), distances.end(), [&](double d) {
    const double multiples = d / usual;
    return std::abs(multiples - std::round(multiples)) < 0.01;
  });
  const bool regular = usual > 1 && fits * 10 >= static_cast<std::ptrdiff_t>(distances.size()) * 8;
  return regular ? static_cast<std::int64_t>(usual) : 0;
}

// A ratio as a difference in percent: 1.18 becomes "+18 %".
std::string percent(double ratio) {
  return fmt::format("{:+.0f} %", 100 * (ratio - 1));
}

std::string range_text(const StepTime& step) {
  return step.first == step.last ? std::to_string(step.last)
                                 : fmt::format("{} to {}", step.first, step.last);
}

// Adds a sentence on slow steps and their share of the time. It states their period, or lists them
// if they have none.
void tell_slow_steps(const SteadySteps& steps, std::vector<std::string>& sentences) {
  std::vector<const StepTime*> slow_steps;
  double extra = 0, all = 0;
  for (const StepTime& step : steps.all) {
    const auto count = static_cast<double>(step.last - step.first + 1);
    all += step.seconds * count;
    if (step.seconds <= slow * steps.median) continue;
    slow_steps.push_back(&step);
    extra += (step.seconds - steps.median) * count;
  }
  if (slow_steps.empty()) return;
  const double share = 100 * extra / all;
  if (const std::int64_t period = period_of(slow_steps)) {
    std::vector<double> excess;
    for (const StepTime* step : slow_steps) excess.push_back(step->seconds - steps.median);
    sentences.push_back(fmt::format(
        "every {} steps one takes {} longer ({:.1f} % of the time): a checkpoint, an evaluation, "
        "logging or garbage collection",
        period, time_text(quantile(excess, 0.5)), share));
    return;
  }
  std::string list;
  for (std::size_t i = 0; i < std::min<std::size_t>(slow_steps.size(), 5); ++i)
    list += fmt::format("{}{} ({})", i == 0 ? "" : ", ", range_text(*slow_steps[i]),
                        time_text(slow_steps[i]->seconds));
  sentences.push_back(
      fmt::format("{} of {} entries are slower than {} medians, {:.1f} % of the time: steps {}{}; "
                  "late batches, "
                  "stragglers or neighbours on the network",
                  slow_steps.size(), steps.all.size(), slow, share, list,
                  slow_steps.size() > 5 ? ", ..." : ""));
}

// Adds a sentence on the change of the median from the first fifth of the entries to the last.
// Fewer than ten entries are too few for it.
void tell_drift(const SteadySteps& steps, std::vector<std::string>& sentences) {
  const std::size_t part = steps.all.size() / 5;
  if (part < 2) return;
  const std::vector<double> seconds = seconds_of(steps.all);
  const auto middle = [&](std::size_t from) {
    return quantile({seconds.begin() + static_cast<std::ptrdiff_t>(from),
                     seconds.begin() + static_cast<std::ptrdiff_t>(from + part)},
                    0.5);
  };
  const double change = middle(seconds.size() - part) / middle(0);
  if (std::abs(change - 1) < 0.02) return;
  sentences.push_back(
      fmt::format("steps drift by {} from the first fifth to the last: clocks that throttle, "
                  "memory that fragments, or "
                  "longer samples",
                  percent(change)));
}

}  // namespace

SteadySteps steady_steps(const TrainingLog& log, double tokens, double samples, std::int64_t gpus) {
  SteadySteps steps;
  const Source source = times_of(log, tokens, samples, gpus);
  steps.all = source.steps;
  steps.source = source.name;
  for (const LogEntry& entry : log.entries) {
    steps.allocated = std::max(steps.allocated, entry.allocated.value_or(0));
    steps.reserved = std::max(steps.reserved, entry.reserved.value_or(0));
  }
  if (steps.all.empty() && log.mean_seconds) {
    steps.median = steps.low = steps.high = *log.mean_seconds;
    steps.source = "its summary";
    return steps;
  }
  if (steps.all.empty()) {
    const bool rate = std::any_of(
        log.entries.begin(), log.entries.end(),
        [](const LogEntry& entry) { return entry.tokens_per_second || entry.samples_per_second; });
    throw file_error(
        log.file, "", "says nothing of the time of steps",
        rate ? "its rates are times once the batch is known: --scenario" : "it holds losses alone");
  }
  leave_out_warm_up(steps);
  const std::vector<double> seconds = seconds_of(steps.all);
  steps.median = quantile(seconds, 0.5);
  steps.low = quantile(seconds, 0.05);
  steps.high = quantile(seconds, 0.95);
  return steps;
}

std::vector<std::string> what_stands_out(const SteadySteps& steps) {
  std::vector<std::string> sentences;
  if (steps.warm_up > 0)
    sentences.push_back(fmt::format("the first {} step{} left out: warm-up", steps.warm_up,
                                    steps.warm_up == 1 ? " is" : "s are"));
  tell_slow_steps(steps, sentences);
  tell_drift(steps, sentences);
  return sentences;
}

std::vector<std::string> what_differs(const SteadySteps& steps, const PredictedStep& predicted) {
  std::vector<std::pair<double, std::string>> found;
  const auto add = [&](const char* name, double measured, double expected,
                       const std::string& guess) {
    if (!(measured > 0) || !(expected > 0)) return;
    const double ratio = measured / expected;
    // Sorted by the distance on a logarithmic scale, so that half and double are equally far.
    found.emplace_back(std::abs(std::log(ratio)),
                       fmt::format("{} {}{}", name, percent(ratio), guess));
  };
  const bool inside = steps.median >= predicted.low && steps.median <= predicted.high;
  const char* guess = inside ? ", inside the prediction's interval"
                      : steps.median > predicted.high
                          ? ": the input pipeline, stragglers, a busy network?"
                          : ": shorter samples than the scenario's, compiled or fused kernels?";
  add("step", steps.median, predicted.seconds, guess);
  add("allocated memory", steps.allocated, predicted.allocated, "");
  add("reserved memory", steps.reserved, predicted.reserved, "");
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> sentences;
  for (const auto& [distance, sentence] : found) sentences.push_back(sentence);
  return sentences;
}

}  // namespace lockstep
