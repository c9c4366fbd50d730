// Fits an anchor's factors by Gauss-Newton on their logarithms. A weak prior at 1 determines the
// factors that the measured rows leave open. Every evaluation simulates the anchored points.
#include "questions/anchor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "core/statistics.hpp"
#include "points/measured.hpp"

namespace lockstep {

namespace {

// A measured step of a strategy entry.
struct Anchor {
  std::size_t entry;
  int gpus;
  double step_seconds;
};

using Factors = std::array<double, 3>;  // logarithms of: device, communication, host

// Converts the logarithms to the factors that scale costs. The first `unknowns` logarithms are
// fitted. The host's factor equals the device's unless it is fitted.
CostScale scale_of(const Factors& log_factors, int unknowns) {
  CostScale scale;
  scale.device = std::exp(log_factors[0]);
  scale.communication = unknowns >= 2 ? std::exp(log_factors[1]) : 1;
  scale.host = unknowns >= 3 ? std::exp(log_factors[2]) : scale.device;
  return scale;
}

// Builds the scenario's points with given factors. Caches files and computed steps, because each
// fit builds the points a dozen times.
struct FactorSearch {
  const Scenario& scenario;
  Inputs inputs = InputFiles().of(scenario);
  Workloads workloads{};
  Point point(std::size_t entry, int gpus, const CostScale& scale) {
    return expand(only(scenario, entry, gpus), inputs, workloads, {scale}).front();
  }
};

// Logarithm of predicted over measured step seconds, for each anchor: the residuals of the fit.
std::vector<double> log_ratios(FactorSearch& search, const std::vector<Anchor>& anchors,
                               const CostScale& scale, const RunOptions& options) {
  std::vector<Point> points;
  for (const auto& anchor : anchors) {
    points.push_back(search.point(anchor.entry, anchor.gpus, scale));
  }
  const auto results = simulate(points, {options.workers, {}});
  std::vector<double> ratios;
  for (std::size_t i = 0; i < anchors.size(); ++i) {
    ratios.push_back(std::log(mean(results[i].step_seconds) / anchors[i].step_seconds));
  }
  return ratios;
}

// Solves the small symmetric positive system a x = b in place (Cholesky; n <= 3).
Factors solve(std::array<Factors, 3> a, Factors b, int n) {
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < i; ++j) {
      double sum = a[i][j];
      for (int k = 0; k < j; ++k) sum -= a[i][k] * a[j][k];
      a[i][j] = sum / a[j][j];
    }
    double sum = a[i][i];
    for (int k = 0; k < i; ++k) sum -= a[i][k] * a[i][k];
    a[i][i] = std::sqrt(sum);
  }
  for (int i = 0; i < n; ++i) {
    for (int k = 0; k < i; ++k) b[i] -= a[i][k] * b[k];
    b[i] /= a[i][i];
  }
  for (int i = n; i-- > 0;) {
    for (int k = i + 1; k < n; ++k) b[i] -= a[k][i] * b[k];
    b[i] /= a[i][i];
  }
  return b;
}

// Fits the factors to the anchors: minimises
//
//     sum over rows (residual / anchor_error)^2 + sum over factors (x / log 2)^2
//
// for the logarithms x; the second sum leaves out the device factor.
CostScale fit(FactorSearch& search, const std::vector<Anchor>& anchors, const RunOptions& options) {
  std::set<int> gpu_counts;
  for (const auto& anchor : anchors) gpu_counts.insert(anchor.gpus);
  const bool communicates = *gpu_counts.rbegin() > 1;
  int unknowns = 1;
  if (anchors.size() >= 2 && gpu_counts.size() >= 2 && communicates) unknowns = 2;
  if (anchors.size() >= 3 && unknowns == 2) unknowns = 3;

  // The prior says that a factor lies between 1/2 and 2 (one sigma). The device factor has no
  // prior, so that a single row determines it exactly.
  const double row_weight = 1 / (anchor_error * anchor_error);
  const Factors prior_weight{0, 1 / (std::log(2) * std::log(2)), 1 / (std::log(2) * std::log(2))};
  const double limit = std::log(20.0);
  Factors x{0, 0, 0};
  // Gauss-Newton converges in a few iterations, and stops when every logarithm changes by less than
  // 1e-7.
  for (int iteration = 0; iteration < 12; ++iteration) {
    const auto residual = log_ratios(search, anchors, scale_of(x, unknowns), options);
    // Derivatives of the residuals by finite differences.
    std::array<std::vector<double>, 3> slope;
    constexpr double step = 1e-3;
    for (int u = 0; u < unknowns; ++u) {
      Factors moved = x;
      moved[u] += step;
      slope[u] = log_ratios(search, anchors, scale_of(moved, unknowns), options);
      for (std::size_t i = 0; i < anchors.size(); ++i) {
        slope[u][i] = (slope[u][i] - residual[i]) / step;
      }
    }
    // Normal equations: (J^T W J + P) change = -(J^T W residual + P x).
    std::array<Factors, 3> normal{};
    Factors gradient{};
    for (int u = 0; u < unknowns; ++u) {
      for (int v = 0; v < unknowns; ++v) {
        for (std::size_t i = 0; i < anchors.size(); ++i) {
          normal[u][v] += row_weight * slope[u][i] * slope[v][i];
        }
      }
      normal[u][u] += prior_weight[u] + 1e-9;
      gradient[u] = -prior_weight[u] * x[u];
      for (std::size_t i = 0; i < anchors.size(); ++i) {
        gradient[u] -= row_weight * slope[u][i] * residual[i];
      }
    }
    // One iteration multiplies or divides a factor by at most e, because the step is no linear
    // function of the factor.
    const Factors change = solve(normal, gradient, unknowns);
    double largest = 0;
    for (int u = 0; u < unknowns; ++u) {
      const double before = x[u];
      x[u] = std::clamp(x[u] + std::clamp(change[u], -1.0, 1.0), -limit, limit);
      largest = std::max(largest, std::abs(x[u] - before));
    }
    if (largest < 1e-7) break;
  }
  return scale_of(x, unknowns);
}

}  // namespace

std::vector<CostScale> anchor_scales(const Scenario& scenario, const RunOptions& options) {
  if (scenario.anchor.empty()) return {};
  FactorSearch search{scenario};
  std::vector<Anchor> anchors;
  for (const auto& row : scenario.anchor) {
    // Convert each row to seconds per step; the batch of its point gives the number of samples.
    const std::size_t entry = entry_of(scenario, row);
    const Point point = search.point(entry, row.gpus, {});
    const double seconds = measured_step_seconds(scenario, point, row);
    if (seconds <= 0) {
      throw ConfigError(
          {row.where, "anchor", "gives no time from which a step time follows",
           "give step_time, samples_per_second, tokens_per_second, or total_time with "
           "a dataset"});
    }
    anchors.push_back({entry, row.gpus, seconds});
  }
  std::vector<CostScale> scales;
  // Factors that are fitted to all anchors, for entries without an anchor.
  std::optional<CostScale> common;
  for (std::size_t e = 0; e < scenario.strategies.size(); ++e) {
    std::vector<Anchor> own;
    for (const auto& anchor : anchors) {
      if (anchor.entry == e) own.push_back(anchor);
    }
    if (!own.empty()) {
      scales.push_back(fit(search, own, options));
    } else {
      if (!common) common = fit(search, anchors, options);
      scales.push_back(*common);
    }
  }
  return scales;
}

}  // namespace lockstep
