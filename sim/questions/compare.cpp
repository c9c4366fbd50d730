// Compares predictions pair by pair. The interval of a speedup uses the correlation of the two
// errors (sigma_of_ratio()): two strategies on the same hardware share most of their errors, so
// even small differences can be certain.
#include "questions/compare.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "points/interval.hpp"
#include "results/cells.hpp"
#include "results/step_parts.hpp"

namespace lockstep {

namespace {

// Change of the peak memory in percent.
std::string memory_text(double bytes, double base_bytes) {
  return base_bytes > 0 ? fmt::format("{:+.1f} %", 100 * (bytes / base_bytes - 1)) : "-";
}

// Which of the two fits into memory.
std::string fits_text(const Prediction& p, const Prediction& base) {
  if (p.out_of_memory) return base.out_of_memory ? "NEITHER" : "only the other";
  return base.out_of_memory ? "only this" : "both";
}

// The name, with the precision if the two precisions differ.
std::string named(const std::string& name, const Prediction& p, const Prediction& other) {
  return p.precision == other.precision ? name : fmt::format("{} ({})", name, p.precision);
}

// A comparison in words: a ratio above 1 and its direction. `certain`: the interval lies on one
// side of 1. `equal`: the ratio is below 1.005.
struct Verdict {
  bool faster = false, certain = false, equal = false;
  double ratio = 1, low = 1, high = 1;
};
Verdict verdict_of(const Comparison& c) {
  Verdict t;
  t.faster = c.speedup >= 1;
  t.ratio = t.faster ? c.speedup : 1 / c.speedup;
  t.low = t.faster ? c.interval.low : 1 / c.interval.high;
  t.high = t.faster ? c.interval.high : 1 / c.interval.low;
  t.certain = t.low > 1;
  t.equal = t.ratio < 1.005;
  return t;
}

std::string speedup_text(const Comparison& c) {
  const Verdict t = verdict_of(c);
  if (t.equal) return "the same";
  return fmt::format("{:.2f} ({:.2f} to {:.2f}) times {}", t.ratio, t.low, t.high,
                     t.faster ? "faster" : "slower");
}

// Compares `p` with `base`. `same_costs` and `same_network` have the meaning that they have in
// sigma_of_ratio(). The parts leave out changes below a thousandth of the base.
Comparison compared(std::string name, const Prediction& p, std::string base_name,
                    const Prediction& base, bool same_costs, bool same_network) {
  Comparison c{std::move(name), std::move(base_name), p, base, 1, {}, {}};
  c.speedup = seconds_per_sample(base) / seconds_per_sample(p);
  c.interval = interval_around(
      c.speedup, sigma_of_ratio(p.step_error, base.step_error,
                                same_costs && p.precision == base.precision, same_network));
  // The split gives shares of the step; multiply them by the seconds per sample.
  for (const StepPart& part : named_parts) {
    const double change = p.split.*part.seconds / p.step_seconds * seconds_per_sample(p) -
                          base.split.*part.seconds / base.step_seconds * seconds_per_sample(base);
    if (std::abs(change) > 1e-3 * seconds_per_sample(base))
      c.parts.push_back({part.phrase, change});
  }
  std::stable_sort(c.parts.begin(), c.parts.end(), [](const auto& a, const auto& b) {
    return std::abs(a.seconds) > std::abs(b.seconds);
  });
  return c;
}

// A time with its sign, such as "+96.3 us".
std::string signed_time(double seconds) {
  return fmt::format("{}{}", seconds < 0 ? "-" : "+", seconds_text(std::abs(seconds)));
}

}  // namespace

std::vector<Comparison> compare_strategies(const ResultRecord& record) {
  std::vector<Comparison> list;
  for (const Prediction& p : record.predictions) {
    for (const Prediction& base : record.predictions) {
      const bool is_first = base.strategy == record.predictions.front().strategy;
      if (!is_first || base.gpus != p.gpus || p.strategy == base.strategy) continue;
      list.push_back(compared(p.strategy, p, base.strategy, base, true, true));
    }
  }
  return list;
}

std::vector<Comparison> compare_scenarios(const ResultRecord& first, const ResultRecord& second) {
  // Two predictions share an error if they share its cause: model and platform for compute costs,
  // the platform for the network.
  const bool platform = first.platform == second.platform;
  const bool costs = platform && first.model == second.model;
  std::vector<Comparison> list;
  for (const Prediction& p : second.predictions) {
    for (const Prediction& base : first.predictions) {
      if (base.strategy != p.strategy || base.gpus != p.gpus) continue;
      list.push_back(compared(fmt::format("{} of {}", p.strategy, second.scenario), p,
                              first.scenario, base, costs, platform));
    }
  }
  return list;
}

Table comparison_table(const std::vector<Comparison>& list) {
  using Align = Table::Align;
  Table table({{"this", Align::left},
               {"GPUs"},
               {"step"},
               {"against", Align::left},
               {"step"},
               {"per sample it is (90 % interval)", Align::left},
               {"memory"},
               {"fits", Align::left}});
  for (const Comparison& c : list) {
    table.add_row({named(c.name, c.prediction, c.base), std::to_string(c.prediction.gpus),
                   human(c.prediction.step_seconds, Dimension::seconds, 4),
                   named(c.base_name, c.base, c.prediction),
                   human(c.base.step_seconds, Dimension::seconds, 4), speedup_text(c),
                   memory_text(c.prediction.memory.allocated, c.base.memory.allocated),
                   fits_text(c.prediction, c.base)});
  }
  return table;
}

std::string comparison_sentence(const Comparison& c) {
  const double change = seconds_per_sample(c.prediction) - seconds_per_sample(c.base);
  const Verdict t = verdict_of(c);
  std::string text = point_text(c.name, c.prediction.gpus);
  // Three cases: as fast, certainly different, and different with an interval that contains 1.
  if (t.equal) {
    text += fmt::format(" is as fast as {}", c.base_name);
  } else if (t.certain) {
    text += fmt::format(" is {} than {}", speedup_text(c), c.base_name);
  } else {
    text += fmt::format(" is {:.2f} times {} than {}, which is not certain ({:.2f} to {:.2f})",
                        t.ratio, t.faster ? "faster" : "slower", c.base_name, t.low, t.high);
  }
  std::vector<std::string> parts;
  for (const Comparison::Part& part : c.parts) {
    parts.push_back(fmt::format("{} {}", part.phrase, signed_time(part.seconds)));
  }
  if (parts.empty()) return text + "; no part of the step differs";
  return text + fmt::format("; {} a sample: {}", signed_time(change), fmt::join(parts, ", "));
}

}  // namespace lockstep
