// Exchanged work on the compute stream: all lanes of a group go at the pace of the slowest, from one exchange
// to the next.
#include <algorithm>
#include <map>

#include "engine/streams.hpp"

namespace lockstep {

namespace {

// Seconds of work that an exchange runs beside from the start, and slows down while it runs.
double slowed(double work, double exchange, double slowness) {
  return work * slowness <= exchange ? work * slowness : exchange + work - exchange / slowness;
}

struct Passage {
  double seconds = 0;    // from the first piece of work to the end of the last exchange
  double busy = 0;       // of a lane of some speed
  double slowed_by = 0;  // the part of it that is due to exchanges
  double exposed = 0;    // the lane stands still for a running exchange
};

}  // namespace

void ComputeStream::compute_exchanged(const Item& item) {
  const ExchangedWork& work = *item.exchanged;
  const std::vector<double>& factors = item.factors->lanes;
  std::vector<double> slowness;
  for (const ExchangedWork::Beat& beat : work.beats) {
    slowness.push_back(beat.beside.busy > 0 ? interference_.beside(item.phase, *beat.exchange) : 1);
  }
  std::vector<double> pace(item.groups->groups(), 0.0);
  for (std::size_t lane = 0; lane < factors.size(); ++lane) {
    double& slowest = pace[item.groups->group_of(lane)];
    slowest = std::max(slowest, factors[lane]);
  }
  const auto passage = [&](double factor) {
    Passage sum;
    for (std::size_t i = 0; i < work.beats.size(); ++i) {
      const double exchange = item.exchange_seconds[i];
      const double beside = work.beats[i].beside.busy * factor;
      const double longer = slowed(beside, exchange, slowness[i]);
      sum.seconds += work.beats[i].work.busy * factor + std::max(exchange, longer);
      sum.busy += work.beats[i].work.busy * factor + longer;
      sum.slowed_by += longer - beside;
      sum.exposed += std::max(0.0, exchange - longer);
    }
    return sum;
  };
  std::map<double, Passage> known;  // by factor: few differ where nothing is drawn
  const auto of = [&](double factor) -> const Passage& {
    const auto [found, is_new] = known.try_emplace(factor);
    if (is_new) found->second = passage(factor);
    return found->second;
  };
  for (std::size_t lane = 0; lane < factors.size(); ++lane) {
    const Passage& own = of(factors[lane]);
    const double seconds = of(pace[item.groups->group_of(lane)]).seconds;
    const double waiting = std::max(0.0, seconds - own.busy - own.exposed);
    const double end = device_[lane] + seconds;
    const double ready = item.host.at(lane) + scaled_span(item.work, factors[lane]);
    const double host_bound = std::max(0.0, ready - end);
    device_[lane] = end + host_bound;
    busy_part(sums_.split, item.phase) += ranks_[lane] * own.busy;
    sums_.interference += ranks_[lane] * own.slowed_by;
    sums_.split.exposed_communication += ranks_[lane] * own.exposed;
    sums_.split.waiting += ranks_[lane] * waiting;
    sums_.split.host_bound += ranks_[lane] * host_bound;
    sums_.lanes.communicating[lane] += own.exposed;
    sums_.lanes.waiting[lane] += waiting;
  }
  measure_positions();
}

}  // namespace lockstep
