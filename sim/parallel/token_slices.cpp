// TeraPipe's dynamic program for the lengths of token slices (Li et al. 2021, section 3.3). With n
// slices of t_i seconds on p stages, m micro-batches take m * sum(t_i) + (p - 1) * max(t_i). For
// every possible value of the maximum, the program finds the division with the least sum in which
// no slice exceeds that value.
#include <algorithm>
#include <limits>

#include "parallel/schedule.hpp"

namespace lockstep {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

// Seconds of a slice: table[end][length] is for the slice of `length` units that ends before unit
// `end`.
using SliceTable = std::vector<std::vector<double>>;

// A division of all units into slices. If sum = never, there is no division.
struct SlicePlan {
  double sum = never;
  std::vector<std::size_t> lengths;
};

// The division with the least sum of seconds in which no slice takes more than `bound`; O(units^2).
SlicePlan least_sum(const SliceTable& seconds, double bound) {
  std::vector<double> sum(seconds.size(), never);
  std::vector<std::size_t> last(seconds.size());  // length of the last slice
  sum[0] = 0;
  for (std::size_t end = 1; end < seconds.size(); ++end) {
    for (std::size_t length = 1; length <= end; ++length) {
      const double slice = seconds[end][length];
      if (slice > bound) continue;
      const double all = sum[end - length] + slice;
      if (all >= sum[end]) continue;
      sum[end] = all;
      last[end] = length;
    }
  }
  SlicePlan plan{sum.back(), {}};
  if (plan.sum == never) return plan;
  for (std::size_t end = seconds.size() - 1; end > 0; end -= last[end]) {
    plan.lengths.insert(plan.lengths.begin(), last[end]);
  }
  return plan;
}

}  // namespace

std::vector<std::size_t> slice_lengths(std::size_t units, int stages, int micro_batches,
                                       const SliceSeconds& seconds) {
  SliceTable table;
  std::vector<double> bounds;
  for (std::size_t end = 0; end <= units; ++end) {
    std::vector<double>& row = table.emplace_back(1, never);
    for (std::size_t length = 1; length <= end; ++length) {
      row.push_back(seconds(length, end - length));
      bounds.push_back(row.back());
    }
  }
  // Once (stages - 1) * bound exceeds the best step, larger bounds cannot give a better one.
  std::sort(bounds.begin(), bounds.end());
  double least = never;
  std::vector<std::size_t> best;
  for (const double bound : bounds) {
    const double further_stages = (stages - 1) * bound;
    if (further_stages >= least) break;
    SlicePlan plan = least_sum(table, bound);
    const double step = micro_batches * plan.sum + further_stages;
    if (step >= least) continue;
    least = step;
    best = std::move(plan.lengths);
  }
  return best;
}

}  // namespace lockstep
