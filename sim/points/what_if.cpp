#include "points/what_if.hpp"

#include <algorithm>
#include <utility>

#include "costs/collective.hpp"
#include "costs/optimizer.hpp"

namespace lockstep {

namespace {

double ratio(double after, double before) {
  return before > 0 ? after / before : 1;
}

QueuedWork changed(const QueuedWork& answer, const QueuedWork& before, const QueuedWork& after) {
  return scaled(answer, ratio(after.busy, before.busy), ratio(after.host, before.host));
}

class ChangedCosts final : public ComputeCosts {
 public:
  using Source = std::shared_ptr<const ComputeCosts>;
  ChangedCosts(Source answers, Source before, Source after)
      : answers_(std::move(answers)), before_(std::move(before)), after_(std::move(after)) {}

  LayerCost layer(const TrainingStep& step, std::size_t index) const override {
    LayerCost cost = answers_->layer(step, index);
    const LayerCost before = before_->layer(step, index), after = after_->layer(step, index);
    cost.forward = changed(cost.forward, before.forward, after.forward);
    cost.backward = changed(cost.backward, before.backward, after.backward);
    for (double LayerCost::*part :
         {&LayerCost::memory_bound, &LayerCost::arithmetic, &LayerCost::streaming}) {
      cost.*part *= ratio(after.*part, before.*part);
    }
    return cost;
  }
  QueuedWork optimizer(const OptimizerSpec& optimizer, Precision precision, double elements,
                       int tensors) const override {
    return changed(answers_->optimizer(optimizer, precision, elements, tensors),
                   before_->optimizer(optimizer, precision, elements, tensors),
                   after_->optimizer(optimizer, precision, elements, tensors));
  }
  QueuedWork stream(double bytes, int launches) const override {
    return changed(answers_->stream(bytes, launches), before_->stream(bytes, launches),
                   after_->stream(bytes, launches));
  }
  FrameworkKind framework() const override { return answers_->framework(); }

 private:
  Source answers_, before_, after_;
};

// Seconds that the tightest link of `loads` needs, with the capacities that its class has in
// `there`.
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

// What a collective that was measured to take `seconds` takes after the change, over that.
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
  return std::make_shared<ChangedCosts>(std::move(answers), std::move(before), std::move(after));
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
