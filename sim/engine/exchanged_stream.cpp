// Exchanged work (engine/exchanged_work.hpp) on the compute stream: all lanes of a group go at the
// pace of the slowest, from one exchange to the next. A lane's time through the work is a sum over
// beats, so it is computed once per distinct slow-down factor and kept for the next micro-batch.
#include <algorithm>
#include <map>

#include "engine/streams.hpp"

namespace lockstep {

namespace {

// Seconds of work that begins with an exchange and is slowed down by `slowness` while the exchange
// runs. Either the work ends first (work * slowness <= exchange), or it has done exchange /
// slowness of its seconds when the exchange ends, and the rest runs at full speed.
double slowed(double work, double exchange, double slowness) {
  return work * slowness <= exchange ? work * slowness : exchange + work - exchange / slowness;
}

// The progress of a lane whose group has only equal lanes. A beat takes
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

// The passages for an item. The result is kept for the next item with the same lanes and exchanges,
// because a micro-batch repeats the work of the micro-batch before.
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
  // By factor; few factors differ where nothing is drawn at random.
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

// Moves each lane by its passage, or to the end of the host's chain if that is later.
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
