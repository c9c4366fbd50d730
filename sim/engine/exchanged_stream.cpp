// Exchanged work (engine/exchanged_work.hpp) on the compute stream: from one exchange to the next,
// the slowest lane sets the pace of its group. A lane's time for the work is a sum over beats. It
// is computed once for each distinct slow-down factor and stored for the next micro-batch.
#include <algorithm>
#include <map>

#include "engine/streams.hpp"

namespace lockstep {

namespace {

// Seconds that work takes if an exchange starts with it and slows it down by `slowness`. Either the
// work ends first (work * slowness <= exchange), or the work has completed exchange / slowness
// seconds when the exchange ends, and the rest runs at full speed.
double slowed(double work, double exchange, double slowness) {
  return work * slowness <= exchange ? work * slowness : exchange + work - exchange / slowness;
}

// The passage of a lane whose group contains only equal lanes. A beat takes
//   work + max(exchange, slowed beside)
Passage passage(const ExchangedWork& work, const std::vector<double>& exchange_seconds,
                const std::vector<double>& slowness, double factor) {
  Passage sum;
  for (std::size_t i = 0; i < work.beats.size(); ++i) {
    const double exchange = exchange_seconds[i];
    const double beside = work.beats[i].beside.busy * factor;
    const double longer = slowed(beside, exchange, slowness[i]);
    sum.all += work.beats[i].work.busy * factor + std::max(exchange, longer);
    sum.busy += work.beats[i].work.busy * factor + longer;
    sum.slowed_by += longer - beside;
    sum.exposed += std::max(0.0, exchange - longer);
  }
  return sum;
}

}  // namespace

// The passages for an item. The result is stored for the next item with the same lanes and
// exchanges, because each micro-batch repeats the work of the one before.
const std::vector<Passage>& ComputeStream::passages_of(const Item& item) {
  const ExchangedWork& work = *item.exchanged;
  Passages& known = passages_[&work];
  if (known.factors == item.factors && known.phase == item.phase &&
      known.exchange_seconds == item.exchange_seconds) {
    return known.lanes;
  }
  known = {item.phase, item.factors, item.exchange_seconds, {}};
  const std::vector<double>& factors = item.factors->lanes;
  std::vector<double> slowness;
  for (const ExchangedWork::Beat& beat : work.beats) {
    slowness.push_back(beat.beside.busy > 0 ? interference_.beside(item.phase, *beat.exchange) : 1);
  }
  // The slowest lane's factor by group; all lanes of the group take as long as that lane.
  std::vector<double> pace(item.groups->groups(), 0.0);
  for (std::size_t lane = 0; lane < factors.size(); ++lane) {
    double& slowest = pace[item.groups->group_of(lane)];
    slowest = std::max(slowest, factors[lane]);
  }
  // Passages by factor. Few factors differ if no straggler is drawn at random.
  std::map<double, Passage> alone;
  const auto of = [&](double factor) -> const Passage& {
    const auto [found, is_new] = alone.try_emplace(factor);
    if (is_new) found->second = passage(work, item.exchange_seconds, slowness, factor);
    return found->second;
  };
  for (std::size_t lane = 0; lane < factors.size(); ++lane) {
    Passage& own = known.lanes.emplace_back(of(factors[lane]));
    own.all = of(pace[item.groups->group_of(lane)]).all;
    own.waiting = std::max(0.0, own.all - own.busy - own.exposed);
  }
  return known.lanes;
}

// Moves each lane by its passage, or to the time at which the work ends after the host's issue, if
// that is later.
void ComputeStream::compute_exchanged(const Item& item) {
  const std::vector<Passage>& passages = passages_of(item);
  for (std::size_t lane = 0; lane < passages.size(); ++lane) {
    const Passage& own = passages[lane];
    const double end = device_[lane] + own.all;
    const double ready = item.host.at(lane) + scaled_span(item.work, item.factors->lanes[lane]);
    const double host_bound = std::max(0.0, ready - end);
    device_[lane] = end + host_bound;
    busy_part(sums_.split, item.phase) += ranks_[lane] * own.busy;
    sums_.interference += ranks_[lane] * own.slowed_by;
    sums_.split.exposed_communication += ranks_[lane] * own.exposed;
    sums_.split.exposed.*item.axis += ranks_[lane] * own.exposed;
    sums_.split.waiting += ranks_[lane] * own.waiting;
    sums_.split.host_bound += ranks_[lane] * host_bound;
    sums_.lanes.communicating[lane] += own.exposed;
    sums_.lanes.waiting[lane] += own.waiting;
  }
  measure_positions();
}

}  // namespace lockstep
