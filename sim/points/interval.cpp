// Error propagation for a predicted step. The parts are assumed to be independent and their
// logarithms normal, so the squares of the parts add up and the interval is value * exp(+-1.645
// sigma).
#include "points/interval.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/statistics.hpp"
#include "costs/collective.hpp"
#include "points/measured.hpp"

namespace lockstep {

namespace {

constexpr double z90 = 1.6448536269514722;  // two-sided 90 % of a normal distribution

// One sigma of a step whose costs are all measured, or all interpolated. The first is the root mean
// square of the 24 errors in docs/closed-loop-results.md. The second combines it with batch_error
// (docs/numbers.md).
constexpr double measured_error = 0.034;
constexpr double interpolated_error = 0.044;

// Spread of the same training repeated on another machine of the same kind, one sigma (fact 136).
constexpr double run_spread = 0.05;

// Error of linear interpolation between batch sizes that differ by a factor of up to ten, compared
// with steps of the device models.
constexpr double batch_error = 0.028;

// Error of costs that are partly measured, interpolated and modelled (their provenance). Errors of
// equal provenance are fully correlated, so they add up linearly within a share; the three
// provenances are independent of each other.
double cost_error(const ProvenanceShare& share, double modelled_error) {
  return std::hypot(share.measured * measured_error, share.interpolated * interpolated_error,
                    share.modelled * modelled_error);
}

// Distance between two GPU counts, in doublings.
double doublings(int from, int to) {
  return std::abs(std::log2(static_cast<double>(to) / from));
}

// Whether this point itself was measured and its prediction meets the anchor. Such a prediction is
// as good as the measurement.
bool is_anchored(const Scenario& scenario, const Point& point, double predicted) {
  return std::any_of(scenario.anchor.begin(), scenario.anchor.end(), [&](const MeasuredRow& row) {
    return entry_of(scenario, row) == point.entry && row.gpus == point.job.mesh.gpus() &&
           meets(scenario, point, row, predicted);
  });
}

// The nearest other GPU count with an anchor of this strategy. The factors of that anchor scale all
// costs of the point.
std::optional<int> scaled_from(const Scenario& scenario, const Point& point) {
  std::optional<int> nearest;
  const int gpus = point.job.mesh.gpus();
  for (const MeasuredRow& row : scenario.anchor) {
    if (entry_of(scenario, row) != point.entry || row.gpus == gpus) continue;
    if (!nearest || doublings(row.gpus, gpus) < doublings(*nearest, gpus)) nearest = row.gpus;
  }
  return nearest;
}

}  // namespace

StepError step_error(const Scenario& scenario, const Point& point, const StrategyResult& result,
                     const ErrorLaw& law) {
  StepError error;
  const double step = mean(result.step_seconds);
  error.draws = step > 0 ? standard_deviation(result.step_seconds) / step : 0;
  if (is_anchored(scenario, point, step)) {
    error.work = anchor_error;
    return error;
  }
  const Job& job = point.job;
  const auto anchor = scaled_from(scenario, point);
  double work = cost_error(result.provenance, point.relative_error);
  if (anchor) {
    // An anchor with the same micro-batch fixes the work up to the spread of repeated runs.
    const int replica_gpus = job.mesh.gpus() / job.mesh.replicas();
    const int replicas = *anchor / replica_gpus;
    const bool same = split_batch(scenario.batch, replicas).micro == point.micro_batch;
    work = same ? run_spread : std::hypot(run_spread, batch_error);
  }
  // Exposed communication, as far as it is modelled, has the network's error; the rest of the step
  // has the compute error. Measured costs contain no error of scaling.
  const double modelled = result.provenance.modelled;
  const double exposed = std::min(modelled, result.split.exposed_communication / step);
  const int nodes = nodes_of(job.mesh.gpus(), job.machine);
  error.work = (1 - exposed) * work;
  error.network = exposed * network_error(job.machine, nodes);
  error.scaling =
      modelled * law.doubling * std::sqrt(doublings(anchor.value_or(1), job.mesh.gpus()));
  // An anchor with a single worker does not show how servers serve many workers.
  if (point.strategy->servers() > 0 && anchor.value_or(1) == 1)
    error.servers = modelled * law.servers;
  return error;
}

double sigma_of(const StepError& error) {
  return std::hypot(std::hypot(error.work, error.network, error.scaling), error.servers,
                    error.draws);
}

double sigma_of_ratio(const StepError& a, const StepError& b, bool same_costs, bool same_network) {
  // Two errors of the same origin subtract; independent errors add up as squares.
  const auto either = [](double x, double y, bool shared) {
    return shared ? x - y : std::hypot(x, y);
  };
  const double shared =
      std::hypot(either(a.work, b.work, same_costs), either(a.network, b.network, same_network),
                 either(a.scaling, b.scaling, same_network));
  const double servers = either(a.servers, b.servers, same_network);
  return std::hypot(std::hypot(shared, servers), std::hypot(a.draws, b.draws),
                    std::sqrt(2) * run_spread);
}

Interval interval_around(double value, double sigma) {
  return {value * std::exp(-z90 * sigma), value * std::exp(z90 * sigma)};
}

}  // namespace lockstep
