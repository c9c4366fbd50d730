// Scales costs and measured curves by the ratio of the modelled costs after and before a change. If
// the cost before is not positive, the ratio is 1, so that the measured value stays.
#include "points/what_if.hpp"

#include <algorithm>
#include <utility>

#include "costs/collective.hpp"
#include "costs/optimizer.hpp"
#include "costs/transformed_costs.hpp"

namespace lockstep {

namespace {

double ratio(double after, double before) {
  return before > 0 ? after / before : 1;
}

// Transfer time in seconds of `loads`, limited by the slowest link, with the link capacities of
// `there`. A link class that `there` lacks has the capacity in `loads`.
double tightest(const std::vector<LinkLoad>& loads, const std::vector<LinkLoad>& there) {
  double seconds = 0;
  for (const LinkLoad& load : loads) {
    const auto same = std::find_if(there.begin(), there.end(),
                                   [&](const LinkLoad& l) { return l.link == load.link; });
    const double capacity = same == there.end() ? load.capacity : same->capacity;
    if (capacity > 0) seconds = std::max(seconds, load.bytes / capacity);
  }
  return seconds;
}

// Factor for a collective that was measured to take `seconds`. On CPUs the whole time changes with
// the modelled time. Between GPUs, latency and transfer change separately.
double change_of(const CollectiveCost& before, const CollectiveCost& after, double seconds,
                 bool on_cpu) {
  if (seconds <= 0) return 1;
  if (on_cpu) return ratio(after.seconds(), before.seconds());
  const double latency = std::min(before.latency_seconds, seconds);
  const double changed = latency * ratio(after.latency_seconds, before.latency_seconds) +
                         (seconds - latency) * ratio(tightest(before.links, after.links),
                                                     tightest(before.links, before.links));
  return changed / seconds;
}

}  // namespace

std::shared_ptr<const ComputeCosts> changed_costs(std::shared_ptr<const ComputeCosts> answers,
                                                  std::shared_ptr<const ComputeCosts> before,
                                                  std::shared_ptr<const ComputeCosts> after) {
  TransformedCosts::Rule rule;
  rule.work = [](const std::vector<QueuedWork>& work) {
    return scaled(work[0], ratio(work[2].busy, work[1].busy), ratio(work[2].host, work[1].host));
  };
  rule.seconds = [](const std::vector<double>& seconds) {
    return seconds[0] * ratio(seconds[2], seconds[1]);
  };
  return std::make_shared<TransformedCosts>(
      TransformedCosts::Sources{std::move(answers), std::move(before), std::move(after)}, rule);
}

void change_curves(const Machine& before, Machine& after) {
  std::vector<CollectiveCurve> curves = std::exchange(after.collectives, {});
  Machine modelled = before;
  modelled.collectives.clear();
  const bool on_cpu = before.device.architecture == Architecture::cpu;
  const auto& names = EnumNames<Collective>::names;
  for (CollectiveCurve& curve : curves) {
    const auto name = std::find(names.begin(), names.end(), curve.collective);
    if (name == names.end()) continue;
    const auto kind = static_cast<Collective>(name - names.begin());
    const CommGroup group{.ranks_per_node = curve.ranks / std::max(1, curve.nodes),
                          .nodes = curve.nodes};
    for (std::size_t i = 0; i < curve.bytes.size(); ++i) {
      const double change =
          change_of(collective_cost(modelled, group, kind, curve.bytes[i]),
                    collective_cost(after, group, kind, curve.bytes[i]), curve.seconds[i], on_cpu);
      for (auto* times : {&curve.seconds, &curve.sender_seconds, &curve.one_core_seconds}) {
        if (i < times->size()) (*times)[i] *= change;
      }
    }
  }
  after.collectives = std::move(curves);
}

}  // namespace lockstep
