// The answers of a report, in plain words (declared in report.hpp). A chapter's answer names the
// fastest and the cheapest point, compares other strategies and GPU counts with the fastest, and
// adds sentences about memory and agreement with measurements.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "results/cells.hpp"
#include "results/report.hpp"
#include "results/tables.hpp"

namespace lockstep {

namespace {

// Seconds by which points are compared: of the whole run if its length is known, otherwise of one
// sample.
double cost_in_time(const Prediction& p) {
  return p.total_seconds > 0 ? p.total_seconds : 1 / p.samples_per_second;
}

std::string title(const Prediction& p) {
  return point_text(p.strategy, p.gpus);
}

// Throughput in tokens or samples.
std::string per_second_text(const Prediction& p) {
  return p.tokens_per_second > 0 ? rate_text(p.tokens_per_second) + " tokens/s"
                                 : rate_text(p.samples_per_second) + " samples/s";
}

// The time of the run or of a step, with its interval. The interval of a run is that of its step,
// scaled.
std::string pace_text(const Prediction& p) {
  const double low = p.step_interval.low / p.step_seconds;
  const double high = p.step_interval.high / p.step_seconds;
  const bool whole = p.total_seconds > 0;
  const double time = whole ? p.total_seconds : p.step_seconds;
  return fmt::format("{} takes {} (90 % interval {} to {})", whole ? "the whole run" : "a step",
                     seconds_text(time), seconds_text(low * time), seconds_text(high * time));
}

using Points = std::vector<const Prediction*>;

// A measured point and its prediction.
struct Agreement {
  const MeasuredPoint* measured = nullptr;
  const Prediction* predicted = nullptr;
  double error = 0;  // predicted / measured - 1
};

std::vector<Agreement> agreements(const ReportChapter& chapter) {
  std::vector<Agreement> list;
  for (const MeasuredPoint& measured : chapter.measured) {
    for (const Prediction& p : chapter.record.predictions) {
      if (p.strategy != measured.strategy || p.gpus != measured.gpus) continue;
      list.push_back({&measured, &p, p.step_seconds / measured.step_seconds - 1});
    }
  }
  return list;
}

// The point with the smallest `value`; null if there are no points.
const Prediction* least(const Points& points, auto value) {
  const auto found = std::min_element(
      points.begin(), points.end(),
      [&](const Prediction* a, const Prediction* b) { return value(*a) < value(*b); });
  return found == points.end() ? nullptr : *found;
}

// Adds a sentence about the other strategies on the GPU count of the fastest point.
void compare_strategies(const Points& fitting, const Prediction& fastest, Answer& answer) {
  std::vector<std::string> others;
  for (const Prediction* p : fitting) {
    if (p->gpus != fastest.gpus || p->strategy == fastest.strategy) continue;
    const double ratio = cost_in_time(*p) / cost_in_time(fastest);
    others.push_back(ratio < 1.005
                         ? p->strategy + " is as fast"
                         : fmt::format("{} takes {:.2f} times as long", p->strategy, ratio));
  }
  if (others.empty()) return;
  constexpr std::size_t most = 4;
  const std::size_t more = others.size() > most ? others.size() - most : 0;
  others.resize(others.size() - more);
  answer.sentences.push_back(fmt::format("On {}, {}{}.", gpus_text(fastest.gpus),
                                         fmt::join(others, ", "),
                                         more > 0 ? fmt::format(" (and {} more)", more) : ""));
}

// Adds a sentence about the speedup of the fastest strategy over its own smallest GPU count.
void tell_scaling(const Points& fitting, const Prediction& fastest, Answer& answer) {
  const Prediction* fewest = &fastest;
  for (const Prediction* p : fitting) {
    if (p->strategy == fastest.strategy && p->gpus < fewest->gpus) fewest = p;
  }
  if (fewest->gpus == fastest.gpus) return;
  const double gain = fastest.samples_per_second / fewest->samples_per_second;
  const double more = static_cast<double>(fastest.gpus) / fewest->gpus;
  answer.sentences.push_back(fmt::format(
      "With {} its {} do {:.2f} times the work of {}: {:.0f} % of perfect scaling.",
      fastest.strategy, gpus_text(fastest.gpus), gain, gpus_text(fewest->gpus), 100 * gain / more));
}

// Adds the fullest GPU and the points that do not fit.
void tell_memory(const ReportChapter& chapter, const Points& fitting, Answer& answer) {
  const auto& all = chapter.record.predictions;
  const Prediction* fullest = least(fitting, [](const Prediction& p) {
    return p.memory.capacity > 0 ? -p.memory.device / p.memory.capacity : 0;
  });
  if (fullest->memory.capacity > 0) {
    const std::string device = bytes_text(fullest->memory.device);
    const std::string capacity = bytes_text(fullest->memory.capacity);
    answer.highlights.push_back(
        {"Fullest GPU that fits", device, fmt::format("of {}, {}", capacity, title(*fullest))});
    if (fitting.size() == all.size()) {
      answer.sentences.push_back(
          fmt::format("Everything fits into memory; {} needs most, {} of {}.", title(*fullest),
                      device, capacity));
    }
  }
  std::vector<std::string> misfits;
  for (const Prediction& p : all) {
    if (p.out_of_memory) misfits.push_back(title(p));
  }
  if (misfits.empty()) return;
  answer.sentences.push_back(fmt::format("{} of {} points do not fit into memory: {}.",
                                         misfits.size(), all.size(), fmt::join(misfits, ", ")));
}

// Adds the mean and the worst error of predictions of measured points, leaving out points that were
// used to fit.
void tell_agreement(const ReportChapter& chapter, Answer& answer) {
  double sum = 0, worst = 0;
  std::size_t count = 0, inside = 0;
  for (const Agreement& agreement : agreements(chapter)) {
    if (agreement.measured->calibration) continue;
    ++count;
    sum += std::abs(agreement.error);
    if (std::abs(agreement.error) > std::abs(worst)) worst = agreement.error;
    const Interval& interval = agreement.predicted->step_interval;
    const double seconds = agreement.measured->step_seconds;
    inside += seconds >= interval.low && seconds <= interval.high ? 1 : 0;
  }
  if (count == 0) return;
  const double average = sum / static_cast<double>(count);
  answer.sentences.push_back(fmt::format(
      "{} of these steps {} measured by others: predictions are off by {:.1f} % on average, "
      "{:+.1f} % at worst; {} of {} lie within the 90 % interval.",
      count, count == 1 ? "was" : "were", 100 * average, 100 * worst, inside, count));
  answer.highlights.push_back({"Off from measurements", fmt::format("{:.1f} %", 100 * average),
                               fmt::format("mean of {} step{}, worst {:+.1f} %", count,
                                           count == 1 ? "" : "s", 100 * worst)});
}

// Writes the answer if nothing fits: the point that lacks least, and changes that would make it
// fit.
void tell_misfit(const ReportChapter& chapter, Answer& answer) {
  Points all;
  for (const Prediction& p : chapter.record.predictions) all.push_back(&p);
  const Prediction* closest = least(all, [](const Prediction& p) {
    return p.out_of_memory->shortfall + p.out_of_memory->host_shortfall +
           p.out_of_memory->nvme_shortfall;
  });
  if (closest == nullptr) {
    answer.sentences.emplace_back("There is no prediction: see the remarks below.");
    return;
  }
  answer.sentences.push_back(fmt::format("Nothing fits into memory. {} comes closest: it lacks {}.",
                                         title(*closest), shortfall_text(*closest->out_of_memory)));
  for (const std::string& change : closest->out_of_memory->suggestions) {
    answer.sentences.push_back("It would fit with: " + change + ".");
  }
}

}  // namespace

Answer answer(const ReportChapter& chapter) {
  Answer result;
  const ResultRecord& record = chapter.record;
  // The points that fit, and among these the points with a price.
  Points fitting, priced;
  for (const Prediction& p : record.predictions) {
    if (p.out_of_memory) continue;
    fitting.push_back(&p);
    if (p.dollars > 0) priced.push_back(&p);
  }
  // The answer begins with the fastest point. If nothing fits, tell_misfit() writes the answer.
  const Prediction* fastest = least(fitting, cost_in_time);
  if (fastest == nullptr) {
    tell_misfit(chapter, result);
    return result;
  }
  const bool whole = fastest->total_seconds > 0;
  result.sentences.push_back(
      fmt::format("{} is {}: {}{}, {}.", title(*fastest),
                  record.predictions.size() > 1 ? "fastest" : "the only point", pace_text(*fastest),
                  fastest->dollars > 0 ? " and costs " + dollars_text(fastest->dollars) : "",
                  per_second_text(*fastest)));
  result.highlights.push_back({"Fastest",
                               seconds_text(whole ? fastest->total_seconds : fastest->step_seconds),
                               title(*fastest) + (whole ? "" : ", one step")});
  if (const Prediction* cheapest = least(priced, [](const Prediction& p) { return p.dollars; })) {
    const std::string price = dollars_text(cheapest->dollars);
    if (priced.size() > 1) {
      result.sentences.push_back(cheapest == fastest
                                     ? "It is the cheapest, too."
                                     : fmt::format("{} is cheapest: {} for the whole run, in {}.",
                                                   title(*cheapest), price,
                                                   seconds_text(cheapest->total_seconds)));
    }
    result.highlights.push_back({"Cheapest", price, title(*cheapest)});
  }
  result.highlights.push_back({"Throughput of the fastest", per_second_text(*fastest),
                               fmt::format("GPUs busy {:.0f} %, MFU {:.0f} %",
                                           100 * fastest->gpu_utilisation, 100 * fastest->mfu)});
  compare_strategies(fitting, *fastest, result);
  tell_scaling(fitting, *fastest, result);
  result.sentences.push_back(
      fmt::format("Bottleneck of {}: {}.", title(*fastest), fastest->bottleneck));
  tell_memory(chapter, fitting, result);
  tell_agreement(chapter, result);
  for (const std::string& finding : record.findings) {
    result.sentences.push_back(finding.ends_with('.') ? finding : finding + ".");
  }
  return result;
}

std::string choice_text(const std::vector<Chosen>& chosen) {
  // Words are clear without a heading; numbers get their heading and follow the words.
  std::vector<std::string> words, numbers;
  for (const Chosen& choice : chosen) {
    const bool number = choice.value.find_first_not_of("0123456789.e+-") == std::string::npos;
    (number ? numbers : words)
        .push_back(number ? heading_of(choice) + " " + choice.value : choice.value);
  }
  words.insert(words.end(), numbers.begin(), numbers.end());
  return fmt::format("{}", fmt::join(words, ", "));
}

Answer answer(const ReportAlternatives& comparison) {
  const AlternativesRecord& record = comparison.answered;
  const std::vector<Prediction> rows = rows_of(record);
  const bool whole = whole_runs(rows);
  Answer result;
  // Adds a highlight of the best row, if there is one; `value` gives the number to show.
  const auto add_best = [&](SortKey key, const char* heading, auto value) {
    const std::optional<std::size_t> row = best_of(rows, key);
    if (!row) return false;
    const auto alternative = static_cast<std::size_t>(record.order[*row].alternative);
    const std::string name = choice_text(record.alternatives[alternative].chosen);
    result.highlights.push_back(
        {heading, value(rows[*row]), fmt::format("{}, {}", name, title(rows[*row]))});
    return true;
  };
  if (add_best(SortKey::time, "Fastest", [&](const Prediction& p) {
        return seconds_text(whole ? p.total_seconds : 1 / p.samples_per_second);
      })) {
    const Prediction& fastest = rows[*best_of(rows, SortKey::time)];
    // Scales the interval of a step to the run or the sample.
    const double factor =
        (whole ? fastest.total_seconds : 1 / fastest.samples_per_second) / fastest.step_seconds;
    const Interval& interval = fastest.step_interval;
    result.sentences.push_back(fmt::format(
        "{} is fastest: {} takes {} (90 % interval {} to {}).", result.highlights[0].detail,
        whole ? "the whole run" : "one sample", result.highlights[0].value,
        seconds_text(factor * interval.low), seconds_text(factor * interval.high)));
  } else {
    result.sentences.emplace_back(rows.empty() ? "There is no prediction."
                                               : "Nothing fits into memory.");
  }
  add_best(SortKey::cost, "Cheapest", [](const Prediction& p) { return dollars_text(p.dollars); });
  add_best(SortKey::memory, "Least memory",
           [](const Prediction& p) { return bytes_text(p.memory.device); });
  const auto misfits = std::count_if(
      rows.begin(), rows.end(), [](const Prediction& p) { return p.out_of_memory.has_value(); });
  if (misfits > 0 && !result.highlights.empty()) {
    result.sentences.push_back(fmt::format("{} of {} points {} not fit into memory.", misfits,
                                           rows.size(), misfits == 1 ? "does" : "do"));
  }
  if (const std::size_t refused = comparison.refused.size(); refused > 0) {
    result.sentences.push_back(fmt::format("{} of {} alternatives cannot be; the table says why.",
                                           refused, refused + record.alternatives.size()));
  }
  return result;
}

}  // namespace lockstep
