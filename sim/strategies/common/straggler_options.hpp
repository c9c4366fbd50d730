// What a user can say about ranks that are slower than others.
#pragma once

#include <array>
#include <optional>
#include <variant>
#include <vector>

#include "core/errors.hpp"
#include "core/fields.hpp"

namespace lockstep {

// Distribution of a multiplicative slow-down, at least 1 on average near 1.
enum class JitterKind { none, lognormal, exponential, pareto };
struct Lognormal {
  double sigma = 0.02;
};  // median 1
struct ShiftedExponential {
  double mean = 0.02;
};  // 1 + Exp(mean)
struct ParetoTail {
  double alpha = 3;
  double scale = 0.02;
};  // 1 + scale * (Pareto(alpha) - 1)
using Jitter = std::variant<Lognormal, ShiftedExponential, ParetoTail>;
template <>
struct AlternativeNames<Jitter> {
  static constexpr std::array names{"lognormal", "exponential", "pareto"};
};

struct SlowRank {
  int rank = 0;
  double factor = 1;  // device work takes this many times longer
  Location where = {};
};

struct Stragglers {
  std::optional<Jitter> per_step;  // drawn per rank and step
  // Fixed speed differences: the ranks' factors are the quantiles of normal(1, sigma), dealt to the
  // ranks at random. Absent = `usual_spread` on accelerators, none on CPUs.
  std::optional<double> per_rank_sigma;
  std::vector<SlowRank> slow_ranks;  // fixed, on top
};

template <class Visitor>
void describe(Visitor& v, Lognormal& d) {
  v.field({.name = "sigma",
           .doc = "Standard deviation of the logarithm; the median is 1.",
           .unit = Dimension::fraction,
           .min = 0,
           .max = 5},
          d.sigma);
}

template <class Visitor>
void describe(Visitor& v, ShiftedExponential& d) {
  v.field({.name = "mean",
           .doc = "Mean of the exponential part that is added to 1.",
           .unit = Dimension::fraction,
           .min = 0,
           .max = 100},
          d.mean);
}

template <class Visitor>
void describe(Visitor& v, ParetoTail& d) {
  v.field({.name = "alpha", .doc = "Tail index; small = heavy.", .min = 1.01, .max = 1000},
          d.alpha);
  v.field({.name = "scale",
           .doc = "Weight of the tail: the factor is 1 + scale (Pareto - 1).",
           .unit = Dimension::fraction,
           .min = 0,
           .max = 100},
          d.scale);
}

template <class Visitor>
void describe(Visitor& v, SlowRank& s) {
  v.location(s.where);
  v.field({.name = "rank", .doc = "Which rank, from 0.", .min = 0, .max = 1e6, .required = true},
          s.rank);
  v.field({.name = "factor",
           .doc = "Its device work takes this many times longer.",
           .min = 0.01,
           .max = 1000,
           .required = true},
          s.factor);
}

template <class Visitor>
void describe(Visitor& v, Stragglers& s) {
  v.field({.name = "per_step", .doc = "Slow-down drawn for every rank in every step."}, s.per_step);
  v.field(
      {.name = "per_rank",
       .doc = "Standard deviation of the ranks' fixed speeds around 1; left out: 2.5 % on GPUs, "
              "none on CPUs.",
       .unit = Dimension::fraction,
       .min = 0,
       .max = 1},
      s.per_rank_sigma);
  v.field(
      {.name = "slow_ranks", .doc = "Ranks that are always slower or faster.", .max_items = 65536},
      s.slow_ranks);
}

}  // namespace lockstep
